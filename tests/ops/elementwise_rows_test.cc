// SPDX-License-Identifier: Apache-2.0
//
// Tests over all rows of the table of elementwise functions. A new row fails
// until its value in terms of <cmath> is added here.
#include <numbers>

#include "ops/elementwise.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

struct Row {
  std::string text;
  ScalarFunction function;
  std::function<Tensor(Tensor)> unary;
  std::function<Tensor(Tensor, Tensor)> binary;
  bool differentiable = true;

  Tensor Apply(const std::vector<Tensor>& xs) const {
    return unary ? unary(xs[0]) : binary(xs[0], xs[1]);
  }
  int arity() const { return unary ? 1 : 2; }
  friend void PrintTo(const Row& row, std::ostream* out) { *out << row.text; }
};

std::vector<Row> NumericRows() {
  std::vector<Row> rows;
#define ROW(Name, text, ...)                     \
  rows.push_back({text, ScalarFunction::k##Name, \
                  [](Tensor x) { return Name(x); }, nullptr});
  MTF_UNARY_FLOAT_FUNCTIONS(ROW)
  MTF_UNARY_NUMBER_FUNCTIONS(ROW)
#undef ROW
#define ROW(Name, text, ...)                              \
  rows.push_back({text, ScalarFunction::k##Name, nullptr, \
                  [](Tensor x, Tensor y) { return Name(x, y); }});
  MTF_BINARY_NUMBER_FUNCTIONS(ROW)
  MTF_BINARY_FLOAT_FUNCTIONS(ROW)
#undef ROW
#define ROW(Name, text, ...)                              \
  rows.push_back({text, ScalarFunction::k##Name, nullptr, \
                  [](Tensor x, Tensor y) { return Name(x, y); }, false});
  MTF_COMPARISON_FUNCTIONS(ROW)
#undef ROW
  for (Row& row : rows) {
    if (row.text == "floor" || row.text == "sign" || row.text == "floordiv") {
      row.differentiable = false;
    }
  }
  return rows;
}

using Function = std::function<double(double, double)>;

// Every row in terms of <cmath>, independent of the table.
const std::map<std::string, Function>& Definitions() {
  static const auto& map = *new std::map<std::string, Function>{
      {"sin", [](double x, double) { return std::sin(x); }},
      {"cos", [](double x, double) { return std::cos(x); }},
      {"exp", [](double x, double) { return std::exp(x); }},
      {"log", [](double x, double) { return std::log(x); }},
      {"log1p", [](double x, double) { return std::log1p(x); }},
      {"sqrt", [](double x, double) { return std::sqrt(x); }},
      {"rsqrt", [](double x, double) { return std::pow(x, -0.5); }},
      {"reciprocal", [](double x, double) { return std::pow(x, -1); }},
      {"tanh", [](double x, double) { return std::tanh(x); }},
      {"sigmoid",
       [](double x, double) { return 0.5 * (1 + std::tanh(x / 2)); }},
      {"swish",
       [](double x, double) { return 0.5 * x * (1 + std::tanh(x / 2)); }},
      {"gelu",
       [](double x, double) {
         const double inner =
             std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * std::pow(x, 3));
         return 0.5 * x * (1 + std::tanh(inner));
       }},
      {"gelu_derivative",
       [](double x, double) {
         const double scale = std::sqrt(2 / std::numbers::pi);
         const double t = std::tanh(scale * (x + 0.044715 * std::pow(x, 3)));
         const double slope = scale * (1 + 0.134145 * std::pow(x, 2));
         return (1 + t + x * (1 - t) * (1 + t) * slope) / 2;
       }},
      {"elu", [](double x, double) { return x > 0 ? x : std::expm1(x); }},
      {"selu",
       [](double x, double) {
         const double y = x > 0 ? x : 1.6732632423543772 * std::expm1(x);
         return 1.0507009873554805 * y;
       }},
      {"softplus", [](double x, double) { return std::log1p(std::exp(x)); }},
      {"leaky_relu", [](double x, double) { return x > 0 ? x : x / 5; }},
      {"floor", [](double x, double) { return std::floor(x); }},
      {"identity", [](double x, double) { return x; }},
      {"neg", [](double x, double) { return 0 - x; }},
      {"square", [](double x, double) { return std::pow(x, 2); }},
      {"abs", [](double x, double) { return std::abs(x); }},
      {"sign", [](double x, double) { return x > 0   ? 1.
                                             : x < 0 ? -1.
                                                     : 0.; }},
      {"relu", [](double x, double) { return x > 0 ? x : 0; }},
      {"add", [](double x, double y) { return x + y; }},
      {"sub", [](double x, double y) { return x - y; }},
      {"mul", [](double x, double y) { return x * y; }},
      {"max", [](double x, double y) { return std::fmax(x, y); }},
      {"min", [](double x, double y) { return std::fmin(x, y); }},
      {"floordiv", [](double x, double y) { return std::floor(x / y); }},
      {"mod",
       [](double x, double y) {
         const double r = std::fmod(x, y);  // of the sign of x, ours of y
         return r != 0 && (r < 0) != (y < 0) ? r + y : r;
       }},
      {"div", [](double x, double y) { return x / y; }},
      {"pow", [](double x, double y) { return std::pow(x, y); }},
      {"less", [](double x, double y) { return x < y; }},
      {"less_equal", [](double x, double y) { return x <= y; }},
      {"greater", [](double x, double y) { return x > y; }},
      {"greater_equal", [](double x, double y) { return x >= y; }},
      {"equal", [](double x, double y) { return x == y; }},
      {"not_equal", [](double x, double y) { return x != y; }},
  };
  return map;
}

bool PositiveOnly(const std::string& text) {
  return text == "log" || text == "sqrt" || text == "rsqrt" || text == "pow" ||
         text == "log1p";
}

class RowTest : public ::testing::TestWithParam<Row> {};

TEST_P(RowTest, ValueMatchesCmath) {
  const Row& row = GetParam();
  ASSERT_TRUE(Definitions().contains(row.text)) << "write its value down here";
  std::vector<double> points = {0.25, 0.5, 1, 1.75, 2, 3.5, 20};
  if (!PositiveOnly(row.text)) {
    for (double x : {-20.0, -3.0, -1.0, -0.75, -0.125}) points.push_back(x);
    if (row.text != "reciprocal" && row.arity() == 1) points.push_back(0);
  }
  const Dimension i{"i", static_cast<int64_t>(points.size())};
  const Dimension j{"j", i.size};
  Graph graph;
  const Tensor x = Constant(graph, points, kFloat32, {i});
  const Tensor y = Constant(graph, points, kFloat32, {j});
  const OracleTensor z = Fetch(row.Apply({x, y}));
  const Function& wanted = Definitions().at(row.text);
  ExpectElements(
      z,
      [&](const ElementIndex& index) {
        return wanted(points[index.at("i")],
                      row.arity() == 1 ? 0 : points[index.at("j")]);
      },
      1e-12);
}

TEST_P(RowTest, PropagatesNaN) {
  const Row& row = GetParam();
  if (InfoOf(row.function).is_comparison) return;
  Graph graph;
  const Tensor nan = Constant(graph, std::nan(""), kFloat32, {});
  const Tensor two = Constant(graph, 2, kFloat32, {});
  EXPECT_TRUE(std::isnan(DataOf(row.Apply({nan, two}))[0]));
  if (row.arity() == 2) {
    EXPECT_TRUE(std::isnan(DataOf(row.Apply({two, nan}))[0]));
  }
}

TEST_P(RowTest, GradientsOfBothOrdersAgreeWithDifferences) {
  const Row& row = GetParam();
  if (!row.differentiable) return;
  // Away from kinks: no ties, no zeros, no multiples for mod.
  std::vector<double> xs = {0.4, 1.3, 2.6, 0.7, 3.1};
  std::vector<double> ys = {1.7, 0.9, 2.2, 1.1, 0.6};
  if (!PositiveOnly(row.text)) {
    xs[1] = -1.3;
    xs[3] = -0.2;
    ys[2] = -2.2;
  }
  std::vector<OracleTensor> points = {{{{"i", 5}}, kFloat32, xs}};
  if (row.arity() == 2) points.push_back({{{"i", 5}}, kFloat32, ys});
  ExpectSecondGradients(points,
                        [&](Graph&, const std::vector<Tensor>& tensors) {
                          return row.Apply(tensors);
                        });
}

TEST_P(RowTest, SteppedFunctionsHaveNoGradient) {
  const Row& row = GetParam();
  if (row.differentiable) return;
  Graph graph;
  const Tensor x = Constant(graph, 1.5, kFloat32, {});
  const Tensor z = Cast(row.Apply({x, x + 1}), kFloat32);
  EXPECT_FALSE(Gradients(z, {x})[0].valid());
  EXPECT_OK(graph.status());
}

TEST_P(RowTest, GradientOfABroadcastOperandIsSummed) {
  const Row& row = GetParam();
  if (!row.differentiable || row.arity() != 2) return;
  const Dimension a{"a", 3}, b{"b", 2};
  for (const auto& [first, second] :
       std::vector<std::pair<Shape, Shape>>{{{a, b}, {b}},
                                            {{b}, {a, b}},
                                            {{}, {b, a}},
                                            {{a}, {b}},
                                            {{a, b}, {b, a}}}) {
    ExpectGradients(
        {Numbers(first, 1, 2.1, 2.9), Numbers(second, 2, 0.6, 1.4)},
        [&](Graph&, const std::vector<Tensor>& xs) { return row.Apply(xs); });
  }
}

TEST_P(RowTest, AcceptsIntegersAccordingToTheTable) {
  const Row& row = GetParam();
  Graph graph;
  const Tensor x = Constant(graph, {7, -7, 0, 4}, kInt32, {{"i", 4}});
  const Tensor y = Constant(graph, {2, 2, 3, -3}, kInt32, {{"i", 4}});
  const Tensor z = row.Apply({x, y});
  if (InfoOf(row.function).domain == FunctionDomain::kFloat) {
    EXPECT_THAT(graph.status(),
                StatusIs(kInvalid, AllOf(HasSubstr(row.text),
                                         HasSubstr("takes a float dtype, "
                                                   "not i32"))));
    return;
  }
  const bool comparison = InfoOf(row.function).is_comparison;
  EXPECT_EQ(z.dtype(), comparison ? kBool : kInt32);
  const OracleTensor xs = Fetch(x), ys = Fetch(y);
  ExpectElements(Fetch(z), [&](const ElementIndex& index) {
    return Definitions().at(row.text)(At(xs, index), At(ys, index));
  });
}

TEST_P(RowTest, RejectsBool) {
  const Row& row = GetParam();
  Graph graph;
  const Tensor x = Ones(graph, kBool, {});
  row.Apply({x, x});
  EXPECT_THAT(graph.status(), StatusIs(kInvalid, HasSubstr("not bool")));
}

INSTANTIATE_TEST_SUITE_P(All, RowTest, ::testing::ValuesIn(NumericRows()),
                         [](const auto& info) { return info.param.text; });

TEST(LogicalRows, TruthTables) {
  Graph graph;
  const Tensor x = Constant(graph, {0, 0, 1, 1}, kBool, {{"i", 4}});
  const Tensor y = Constant(graph, {0, 1, 0, 1}, kBool, {{"i", 4}});
  EXPECT_THAT(DataOf(LogicalAnd(x, y)), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(DataOf(LogicalOr(x, y)), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(DataOf(LogicalNot(x)), ElementsAre(1, 1, 0, 0));
  EXPECT_EQ(LogicalNot(x).dtype(), kBool);
}

TEST(LogicalRows, TakeBoolOnly) {
  ExpectError(
      [](Graph& g) { LogicalAnd(Ones(g, kInt32, {}), Ones(g, kInt32, {})); },
      {"and takes dtype bool, not i32"});
  ExpectError([](Graph& g) { LogicalNot(Ones(g, kFloat32, {})); },
              {"not takes dtype bool, not f32"});
}

}  // namespace
}  // namespace mtf
