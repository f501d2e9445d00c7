// SPDX-License-Identifier: Apache-2.0
//
// Operations that begin a computation: constants, ranges, one-hots and inputs.
#include <limits>
#include <tuple>

#include "mtf/print_graph.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/input.h"
#include "ops/one_hot.h"
#include "ops/stack.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT
using ::testing::Each;

const Dimension a{"a", 2}, b{"b", 3};

TEST(Constant, OfOneValueAndOfMany) {
  Graph graph;
  EXPECT_THAT(DataOf(Constant(graph, 2.5, kFloat32, {a, b})), Each(2.5));
  EXPECT_THAT(DataOf(Constant(graph, {1, 2}, kInt64, {a})), ElementsAre(1, 2));
  EXPECT_THAT(DataOf(Zeros(graph, kBool, {a})), ElementsAre(0, 0));
  EXPECT_THAT(DataOf(Ones(graph, kBFloat16, {a})), ElementsAre(1, 1));
  EXPECT_EQ(Ones(graph, kBFloat16, {a}).dtype(), kBFloat16);
}

TEST(Constant, WithoutADTypeTakesThatOfTheOtherOperand) {
  Graph graph;
  const Tensor third = Constant(graph, 1.0 / 3);
  const Tensor pair = Constant(graph, {3, 5}, {a});
  EXPECT_EQ(third.dtype(), kFloat32);
  EXPECT_EQ((third + pair).dtype(), kFloat32);
  for (DType dtype : {kBFloat16, kFloat16, kFloat32}) {
    const Tensor x = Constant(graph, {1, 2}, dtype, {a});
    const Tensor y = x * third;
    EXPECT_EQ(y.dtype(), dtype);
    // Rounded once, from the number: no cast.
    EXPECT_EQ(y.operation()->input(1).operation()->kind(), "constant");
    EXPECT_NEAR(DataOf(y)[1], 2.0 / 3, 1e-2);
    EXPECT_EQ((pair - x).dtype(), dtype);
    EXPECT_EQ(Select(x > 1.0, pair, x).dtype(), dtype);
    EXPECT_EQ(Einsum({x, pair}, {}).dtype(), dtype);
    EXPECT_EQ(Concat({pair, x}, "a").dtype(), dtype);
    EXPECT_EQ(Stack({pair, x}, "z").dtype(), dtype);
    const Tensor w = Variable(graph, DTypeName(dtype), x);
    EXPECT_EQ(Assign(w, pair).dtype(), dtype);
  }
  const Tensor i = Constant(graph, {7, 8}, kInt32, {a});
  EXPECT_THAT(DataOf(i + pair), ElementsAre(10, 13));
  EXPECT_EQ((i + pair).dtype(), kInt32);
  EXPECT_OK(graph.status());
}

TEST(ConstantErrors, ADTypeThatIsGivenStays) {
  ExpectError(
      [](Graph& g) {
        Ones(g, kBFloat16, {a}) * Constant(g, 0.5, kFloat32, {});
      },
      {"is bf16 but", "is f32", "Cast()"});
  ExpectError([](Graph& g) { Ones(g, kInt32, {a}) * Constant(g, 0.5); },
              {"the number 0.5 is not representable in dtype i32 (constant, "});
  ExpectError(
      [](Graph& g) {
        Constant(g, {1, 2, 3}, {a});
      },
      {"3 values for the 2 elements of f32[a=2] (constant, "});
}

TEST(ConstantErrors, CountAndRange) {
  ExpectError(
      [](Graph& g) {
        Constant(g, {1, 2, 3}, kFloat32, {a});
      },
      {"3 values for the 2 elements of f32[a=2] (constant, "});
  ExpectError(
      [](Graph& g) {
        Constant(g, {1, 1.5}, kInt32, {a});
      },
      {"the number 1.5 is not representable in dtype i32"});
  ExpectError([](Graph& g) { Constant(g, -1, kBool, {a}); },
              {"the number -1 is not representable in dtype bool"});
  ExpectError([](Graph& g) { Constant(g, 0x1p63, kInt64, {a}); },
              {"is not representable in dtype i64"});
  ExpectError([](Graph& g) { Constant(g, std::nan(""), kInt32, {a}); },
              {"the number nan is not representable in dtype i32"});
  ExpectError(
      [](Graph& g) {
        Zeros(g, kFloat32, {{"a", -1}});
      },
      {"dimension \"a\" has the negative size -1 (constant, "});
  ExpectError(
      [](Graph& g) {
        Zeros(g, kFloat32, {a, a});
      },
      {"\"a\" occurs twice"});
}

TEST(ConstantErrors, BeyondTheLargestNumberOfAFloat) {
  for (const auto& [dtype, most, beyond] :
       std::vector<std::tuple<DType, double, double>>{
           {kFloat32, std::numeric_limits<float>::max(), 3.5e38},
           {kBFloat16, 0x1.fep127, 3.4e38},
           {kFloat16, 65519, 65520}}) {
    for (const double sign : {1.0, -1.0}) {
      Graph graph;
      Constant(graph, sign * most, dtype, {a});
      Constant(graph, sign * std::numeric_limits<double>::infinity(), dtype,
               {a});
      Constant(graph, std::nan(""), dtype, {a});
      Constant(graph, 1e-300, dtype, {a});  // nearly 0
      EXPECT_OK(graph.status());
      ExpectError([&, type = dtype, value = sign * beyond](
                      Graph& g) { Constant(g, value, type, {a}); },
                  {absl::StrCat("the number ", sign * beyond,
                                " is not representable in dtype ",
                                DTypeName(dtype), " (constant, ")});
    }
  }
  ExpectError([](Graph& g) { Ones(g, kFloat16, {a}) * 1e5; },
              {"the number 100000 is not representable in dtype f16 (mul, "});
}

TEST(OneHot, IsOneAtTheIndex) {
  Graph graph;
  const Tensor indices = Constant(graph, {2, 0}, kInt32, {a});
  const Tensor y = OneHot(indices, b);
  EXPECT_EQ(y.shape(), Shape({a, b}));
  EXPECT_EQ(y.dtype(), kFloat32);
  EXPECT_THAT(DataOf(y), ElementsAre(0, 0, 1, 1, 0, 0));
  EXPECT_THAT(DataOf(OneHot(indices, b, kBool)), ElementsAre(0, 0, 1, 1, 0, 0));
  EXPECT_EQ(OneHot(indices, b, kInt64).dtype(), kInt64);
}

TEST(OneHot, OutsideOfTheDimensionIsAllZero) {
  Graph graph;
  const Tensor indices = Constant(graph, {3, -1}, kInt64, {a});
  EXPECT_THAT(DataOf(OneHot(indices, b)), Each(0));
}

// Records the expression of a map.
class NotesMaps : public ReferenceInterpreter {
 public:
  using ReferenceInterpreter::ReferenceInterpreter;
  Value Map(const MapExpression& expression, absl::Span<const Value>,
            const Shape&) override {
    text = expression.ToString();
    return {};
  }
  std::string text;
};

// i32 cannot represent indices of 2^31 and more, so they are compared in i64.
TEST(OneHot, OverMoreElementsThanAnI32Indexes) {
  const auto map_of = [](int64_t size) {
    Graph graph;
    const Tensor y = OneHot(Ones(graph, kInt32, {}), {"b", size});
    EXPECT_OK(graph.status());
    const OracleFeeds feeds;
    NotesMaps emitter(feeds, nullptr, {});
    y.operation()->Emit(emitter, {Value()});
    return emitter.text;
  };
  EXPECT_EQ(map_of(int64_t{1} << 31),
            "[iota.i32(b); equal($0, $1); cast.f32($2)]");
  EXPECT_EQ(map_of((int64_t{1} << 31) + 1),
            "[cast.i64($0); iota.i64(b); equal($1, $2); cast.f32($3)]");
}

TEST(OneHot, HasNoGradient) {
  Graph graph;
  const Tensor indices = Constant(graph, {2, 0}, kInt32, {a});
  const Tensor x = Ones(graph, kFloat32, {b});
  const auto g = Gradients(OneHot(indices, b) * x, {indices, x});
  EXPECT_FALSE(g[0].valid());
  EXPECT_THAT(DataOf(g[1]), ElementsAre(1, 0, 1));
}

TEST(OneHotErrors, IndicesAndName) {
  ExpectError([](Graph& g) { OneHot(Ones(g, kFloat32, {a}), b); },
              {"the indices \"constant\" are f32, not i32 or i64 (one_hot, "});
  ExpectError(
      [](Graph& g) {
        OneHot(Ones(g, kInt32, {a}), {"a", 9});
      },
      {"the indices \"constant\" already have a dimension \"a\""});
  ExpectError(
      [](Graph& g) {
        OneHot(Ones(g, kInt32, {a}), {"b", -9});
      },
      {"negative size -9"});
  EXPECT_FALSE(OneHot(Tensor(), b).valid());
}

TEST(Range, CountsFromZero) {
  Graph graph;
  EXPECT_THAT(DataOf(Range(graph, b)), ElementsAre(0, 1, 2));
  EXPECT_EQ(Range(graph, b).dtype(), kInt32);
  EXPECT_EQ(Range(graph, b, kFloat32).dtype(), kFloat32);
  ExpectError([](Graph& g) { Range(g, b, kBool); },
              {"range takes a float or integer dtype, not bool (range, "});
}

TEST(RangeErrors, NumbersThatTheDTypeCannotRepresent) {
  const auto range = [](DType dtype, int64_t size) {
    return [=](Graph& g) { Range(g, {"n", size}, dtype); };
  };
  for (const auto& [dtype, most] :
       std::vector<std::pair<DType, int64_t>>{{kBFloat16, (1 << 8) + 1},
                                              {kFloat16, (1 << 11) + 1},
                                              {kFloat32, (1 << 24) + 1},
                                              {kInt32, int64_t{1} << 31}}) {
    Graph graph;
    range(dtype, most)(graph);
    EXPECT_OK(graph.status());
    ExpectError(
        range(dtype, most + 1),
        {absl::StrCat(DTypeName(dtype), " cannot represent all integers below ",
                      most + 1, ", the size of dimension \"n\" (range, "),
         "Cast()"});
  }
  ExpectError(range(kInt32, std::numeric_limits<int64_t>::min()),
              {"negative size"});
}

TEST(Input, IsWhatTheStepIsFed) {
  Graph graph;
  const Tensor x = Input(graph, "x", kInt32, {a});
  const auto y =
      Interpret(graph, {{"x", HostTensor::Of<int32_t>({a}, {5, 6})}}, {x * 2});
  ASSERT_OK(y);
  EXPECT_THAT((*y)[0].data, ElementsAre(10, 12));
}

TEST(Input, KeepsItsNameInAScope) {
  Graph graph;
  {
    Scope scope(graph, "encoder");
    Input(graph, "tokens", kInt32, {a});
  }
  EXPECT_EQ(PrintGraph(graph), "%encoder/tokens : i32[a:2] = input tokens\n");
}

// The feed name differs from the name of the operation within a scope.
TEST(Input, GraphReturnsTheFeedName) {
  Graph graph;
  Scope scope(graph, "model");
  const Tensor x = Input(graph, "tokens", kInt32, {a});
  EXPECT_EQ(x.name(), "model/tokens");
  EXPECT_EQ(graph.FeedName(x), "tokens");
  EXPECT_EQ(graph.FeedName(x + x), "");
}

TEST(InputErrors, Names) {
  ExpectError(
      [](Graph& g) {
        Input(g, "x", kFloat32, {a});
        Scope scope(g, "other");
        Input(g, "x", kInt32, {b});
      },
      {"input \"x\" was created at sources_test.cc:", "with shape [a=2]",
       "give another name", "(input, "},
      absl::StatusCode::kAlreadyExists);
  ExpectError([](Graph& g) { Input(g, "", kFloat32, {a}); },
              {"the name \"\" is not made of letters"});
  ExpectError([](Graph& g) { Input(g, "x\ny", kFloat32, {a}); },
              {"the name \"x\\ny\" is not made of letters"});
  for (const char* name : {"/", "/x", "x/", "x//y"}) {
    ExpectError(
        [&](Graph& g) { Input(g, name, kFloat32, {a}); },
        {absl::StrCat("the name \"", name, "\" has an empty component")});
  }
}

}  // namespace
}  // namespace mtf
