// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/dense.h"

#include "absl/strings/str_cat.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const Dimension kBatch{"batch", 2};
const Dimension kModel{"d_model", 3};
const Dimension kHeads{"heads", 2};
const Dimension kKey{"d_kv", 2};

TEST(Dense, SumsOverReducedThenAddsBiasThenActivates) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const Tensor y = nn::Dense(x, {kModel}, {kHeads, kKey}, {.activation = Relu});
  EXPECT_EQ(y.shape(), Shape({kBatch, kHeads, kKey}));
  const std::vector<double> actual = o.Run(y);
  const auto& in = o.Value("x");
  const auto& kernel = o.Value("dense/kernel");
  const auto& bias = o.Value("dense/bias");
  std::vector<double> expected;
  for (int b = 0; b < 2; ++b) {
    for (int n = 0; n < 4; ++n) {
      double sum = bias[n];
      for (int k = 0; k < 3; ++k) sum += in[b * 3 + k] * kernel[k * 4 + n];
      expected.push_back(std::max(sum, 0.0));
    }
  }
  testing::ExpectNear(actual, expected);
}

TEST(Dense, ReducesSeveralDimensions) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kHeads, kKey});
  const Tensor y = nn::Dense(x, {kHeads, kKey}, {kModel}, {.bias = false});
  EXPECT_EQ(y.shape(), Shape({kBatch, kModel}));
  EXPECT_THAT(o.graph.variables(), SizeIs(2));
  const std::vector<double> actual = o.Run(y);
  const auto& in = o.Value("x");
  const auto& kernel = o.Value("dense/kernel");
  std::vector<double> expected;
  for (int b = 0; b < 2; ++b) {
    for (int n = 0; n < 3; ++n) {
      double sum = 0;
      for (int k = 0; k < 4; ++k) sum += in[b * 4 + k] * kernel[k * 3 + n];
      expected.push_back(sum);
    }
  }
  testing::ExpectNear(actual, expected);
}

TEST(Dense, HasAKernelAndABiasForEachElement) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kHeads, kModel});
  const Tensor y = nn::Dense(x, {kModel}, {kKey}, {.each = {kHeads}});
  EXPECT_EQ(y.shape(), Shape({kBatch, kHeads, kKey}));
  const std::vector<double> actual = o.Run(y);
  EXPECT_EQ(o.graph.variables()[1].shape, Shape({kHeads, kModel, kKey}));
  const auto& in = o.Value("x");
  const auto& kernel = o.Value("dense/kernel");
  const auto& bias = o.Value("dense/bias");
  std::vector<double> expected;
  for (int row = 0; row < 4; ++row) {
    const int head = row % 2;
    for (int n = 0; n < 2; ++n) {
      double sum = bias[head * 2 + n];
      for (int k = 0; k < 3; ++k) {
        sum += in[row * 3 + k] * kernel[(head * 3 + k) * 2 + n];
      }
      expected.push_back(sum);
    }
  }
  testing::ExpectNear(actual, expected);
}

TEST(DenseErrors, EachIsADimensionOfTheInput) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  nn::Dense(x, {kModel}, {kKey}, {.each = {kHeads}});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"x\" has no dimension \"heads\"")));
}

TEST(Dense, GradientsMatchDifferences) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const Tensor y = nn::Dense(x, {kModel}, {kHeads, kKey}, {.activation = Gelu});
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(Dense, ANameMayBeOnBothSides) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const Tensor y = nn::Dense(x, {kModel}, {kModel});
  EXPECT_EQ(y.shape(), Shape({kBatch, kModel}));
  o.Run(y);
  EXPECT_EQ(o.graph.variables()[1].shape, Shape({{"d_model_in", 3}, kModel}));
}

TEST(Dense, TwoInOneScopeHaveSeparateParameters) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  Scope scope(o.graph, "block");
  nn::Dense(x, {kModel}, {kHeads}, {.bias = false});
  nn::Dense(x, {kModel}, {kHeads}, {.bias = false});
  ASSERT_OK(o.graph.status());
  EXPECT_EQ(o.graph.variables()[1].name, "block/dense/kernel");
  EXPECT_EQ(o.graph.variables()[2].name, "block/dense_1/kernel");
}

TEST(Dense, KernelStartsWithTheVarianceOfItsFanIn) {
  Graph graph;
  const Dimension wide{"wide", 200}, out{"out", 50};
  const Tensor x = Zeros(graph, kFloat32, {wide});
  nn::Dense(x, {wide}, {out}, {.init_scale = 2.0});
  OracleVariables variables;
  ASSERT_OK(InitializeVariables(graph, 1, &variables));
  double sum = 0, squares = 0;
  for (double w : variables["dense/kernel"].data) {
    sum += w;
    squares += w * w;
  }
  // 10000 draws: mean and variance are within 4 standard errors.
  EXPECT_NEAR(sum / 1e4, 0, 4 * 0.1 / 100);
  EXPECT_NEAR(squares / 1e4, 2.0 / 200, 4 * 0.01 * 0.0142);
}

TEST(Dense, ComputesInTheDTypeOfXFromF32Parameters) {
  Graph graph;
  const Tensor x = Zeros(graph, kBFloat16, {kBatch, kModel});
  const Tensor y = nn::Dense(x, {kModel}, {kHeads});
  ASSERT_OK(graph.status());
  EXPECT_EQ(y.dtype(), kBFloat16);
  for (const VariableInfo& info : graph.variables()) {
    EXPECT_EQ(info.dtype, kFloat32) << info.name;
  }
}

TEST(Dense, EverythingHasTheUsersLine) {
  Graph graph;
  const Tensor x = Zeros(graph, kFloat32, {kBatch, kModel});
  const size_t before = graph.operations().size();
  const int line = __LINE__ + 1;
  nn::Dense(x, {kModel}, {kHeads}, {.activation = Gelu});
  const CallSite here{"dense_test.cc", line};
  ASSERT_GT(graph.operations().size(), before + 3);
  for (size_t i = before; i < graph.operations().size(); ++i) {
    EXPECT_EQ(graph.operations()[i]->call_site(), here)
        << graph.operations()[i]->name();
  }
}

TEST(DenseErrors, AnAbsentDimension) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  const int line = __LINE__ + 1;
  nn::Dense(x, {{"d_modle", 3}}, {kHeads});
  EXPECT_THAT(
      graph.status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("\"x\" has no dimension \"d_modle\" (dense, "
                               "dense_test.cc:"),
                     HasSubstr(absl::StrCat("dense_test.cc:", line, ")")),
                     HasSubstr("did you mean \"d_model\"?"))));
}

TEST(DenseErrors, AnotherSize) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  nn::Dense(x, {{"d_model", 4}}, {kHeads});
  EXPECT_THAT(
      graph.status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("dimension \"d_model\" is 4 in the call but 3 in "
                         "\"x\" (dense, dense_test.cc:")));
}

TEST(DenseErrors, AnOutputThatXKeeps) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  nn::Dense(x, {kModel}, {kBatch});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("dimension \"batch\" of the output is already "
                                 "in \"x\" and is not reduced")));
}

TEST(DenseErrors, AnIntegerInput) {
  Graph graph;
  const Tensor x = Input(graph, "x", kInt32, {kBatch, kModel});
  nn::Dense(x, {kModel}, {kHeads});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("dense takes a float dtype, not i32")));
}

TEST(DenseErrors, AnEmptyTensorGivesAnEmptyTensor) {
  EXPECT_FALSE(nn::Dense(Tensor(), {kModel}, {kHeads}).valid());
}

}  // namespace
}  // namespace mtf
