// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/parameter.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "nn/layers/dense.h"
#include "nn/layers/layer_scope.h"
#include "ops/einsum.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

const Dimension kBatch{"batch", 2}, kIo{"io", 100}, kHidden{"hidden", 90};

// A layer as an author writes it.
Tensor Scaled(Tensor x,
              std::source_location location = std::source_location::current()) {
  nn::LayerScope layer(x.graph(), "scaled", location);
  const Tensor scale = nn::Parameter(
      x.graph(), "scale", Ones(x.graph(), kFloat32, {kIo}), x.dtype());
  return x * scale;
}

TEST(LayerScope, NamesLayersApartAtTheLineOfTheCaller) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kIo});
  const int line = __LINE__ + 1;
  const Tensor y = Scaled(Scaled(x));
  ASSERT_OK(graph.status());
  ASSERT_EQ(graph.variables().size(), 2);
  EXPECT_EQ(graph.variables()[0].name, "scaled/scale");
  EXPECT_EQ(graph.variables()[1].name, "scaled_1/scale");
  EXPECT_EQ(y.name(), "scaled_1/mul");
  EXPECT_EQ(y.operation()->call_site().line, line);
  EXPECT_EQ(graph.variables()[0].call_site.line, line);
}

TEST(LayerScope, OuterLayerKeepsItsLine) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kIo});
  const int line = __LINE__ + 1;
  nn::LayerScope outer(graph, "outer", std::source_location::current());
  const Tensor y = Scaled(x);
  EXPECT_EQ(y.name(), "outer/scaled/mul");
  EXPECT_EQ(y.operation()->call_site().line, line);
}

TEST(ActivationDType, IsThatOfThePrecisionOrOfTheInput) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat16, {kIo});
  EXPECT_EQ(nn::ActivationDType(x), kFloat16);
  EXPECT_EQ(nn::ActivationDType(Tensor()), kFloat32);
  const PrecisionScope precision(graph, {.activations = kBFloat16});
  EXPECT_EQ(nn::ActivationDType(x), kBFloat16);
}

TEST(Parameter, HasTheDTypesOfThePrecision) {
  Graph graph;
  const PrecisionScope precision(
      graph, {.parameters = kBFloat16, .gradients = kFloat32});
  const Tensor w =
      nn::Parameter(graph, "w", Ones(graph, kFloat32, {kIo}), kFloat16);
  ASSERT_OK(graph.status());
  EXPECT_EQ(w.dtype(), kFloat16);
  const VariableInfo& info = graph.variables()[0];
  EXPECT_EQ(info.dtype, kBFloat16);
  EXPECT_EQ(info.gradient_dtype, kFloat32);
  EXPECT_EQ(info.master_value.dtype(), kFloat32);
  EXPECT_TRUE(info.trainable);
}

TEST(Parameter, IsAnErrorAtTheLineOfTheCallUnlessItIsAFloat) {
  struct Case {
    DType initial, use;
    std::string message;
  };
  for (const Case& c :
       {Case{kInt32, kFloat32,
             "the parameter \"w\" takes a float dtype, not i32"},
        Case{kFloat32, kInt32,
             "parameter \"w\" is used as i32, but parameters are floats"}}) {
    Graph graph;
    const Tensor initial = Ones(graph, c.initial, {kIo});
    const int line = __LINE__ + 1;
    const Tensor w = nn::Parameter(graph, "w", initial, c.use);
    EXPECT_THAT(graph.status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat(
                             c.message, " (parameter, parameter_test.cc:", line,
                             ")"))));
    EXPECT_EQ(w.shape(), Shape({kIo}));
  }
}

TEST(Parameter, RejectsAnEmptyInitialValue) {
  Graph graph;
  nn::Parameter(graph, "w", Tensor(), kFloat32);
  EXPECT_THAT(graph.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("parameter_test.cc:")));
}

TEST(Kernel, HasTheDimensionsOfBothSidesAndTheVarianceOfItsScale) {
  testing::OracleGraph o;
  nn::Kernel(o.graph, "a", {kIo}, {kHidden}, kFloat32);
  nn::Kernel(o.graph, "b", {kIo}, {kHidden}, kFloat32, {.scale = 4});
  ASSERT_OK(o.graph.status());
  const auto& variables = o.graph.variables();
  EXPECT_EQ(variables[0].shape, Shape({kIo, kHidden}));
  const auto values =
      o.RunAll({variables[0].initial_value, variables[1].initial_value});
  EXPECT_NE(values[0][0], values[1][0] / 2);
  const double expected[] = {1.0 / 100, 4.0 / 100};
  for (int i = 0; i < 2; ++i) {
    double sum = 0, squares = 0;
    for (double value : values[i]) {
      sum += value;
      squares += value * value;
    }
    // Of 9000 numbers: mean and variance within five standard errors.
    EXPECT_NEAR(sum / 9000, 0, 5 * std::sqrt(expected[i] / 9000));
    EXPECT_NEAR(squares / 9000 / expected[i], 1, 5 * std::sqrt(2.0 / 9000));
  }
}

TEST(Kernel, ErrorsNameTheCall) {
  Graph graph;
  const int line = __LINE__ + 1;
  nn::Kernel(graph, "w", {kIo}, {kIo}, kFloat32);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(absl::StrCat("parameter_test.cc:", line))));
  Graph other;
  nn::Kernel(other, "w", {kIo}, {kHidden}, kFloat32, {.scale = -1});
  EXPECT_THAT(other.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr(".scale is -1")));
}

}  // namespace
}  // namespace mtf
