// SPDX-License-Identifier: Apache-2.0
//
// Losses of single elements: SigmoidCrossEntropy and MeanSquaredError.
#include <cmath>

#include "nn/losses/mean_squared_error.h"
#include "nn/losses/sigmoid_cross_entropy.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

const Dimension kBatch{"batch", 2}, kLabels{"labels", 3};

TEST(SigmoidCrossEntropy, IsTheWeightedFormula) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLabels});
  const Tensor t = o.Parameter("t", {kLabels, kBatch}, {0, 1, .25, .5, .75, 1});
  const Tensor weights = o.Integers("weights", {kLabels}, {1, 0, 3});
  const Tensor mean = nn::SigmoidCrossEntropy(x, t, {.weights = weights});
  const Tensor each =
      nn::SigmoidCrossEntropy(x, t, {.weights = weights, .per_position = true});
  EXPECT_EQ(mean.shape(), Shape());
  EXPECT_EQ(each.shape(), x.shape());
  std::vector<double> expected;
  double sum = 0;
  const double weight[] = {1, 0, 3};
  o.Fill();
  for (int b = 0; b < 2; ++b) {
    for (int l = 0; l < 3; ++l) {
      const double p = 1 / (1 + std::exp(-o.Value("x")[b * 3 + l]));
      const double q = o.Value("t")[l * 2 + b];
      expected.push_back(-weight[l] *
                         (q * std::log(p) + (1 - q) * std::log(1 - p)));
      sum += expected.back();
    }
  }
  testing::ExpectNear(o.Run(each), expected);
  testing::ExpectNear(o.Run(mean), {sum / 8});
  o.ExpectGradientsOf(mean);
}

TEST(SigmoidCrossEntropy, IsExactForLargeLogitsAndTakesBools) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {{"n", 4}}, {1e4, -1e4, 1e4, -1e4});
  const Tensor t = Equal(o.Integers("t", {{"n", 4}}, {1, 0, 0, 1}), 1.0);
  const Tensor loss = nn::SigmoidCrossEntropy(x, t, {.per_position = true});
  testing::ExpectNear(o.Run(loss), {0, 0, 1e4, 1e4}, 1e-12);
  testing::ExpectNear(o.Run(Gradients(ReduceSum(loss, {}), {x})[0]),
                      {0, 0, 1, -1}, 1e-12);
}

TEST(MeanSquaredError, IsTheWeightedFormula) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLabels}, {1, 2, 3, 4, 5, 6});
  const Tensor t = o.Parameter("t", {kBatch, kLabels}, {0, 0, 1, 1, 2, 8});
  const Tensor weights = o.Parameter("weights", {kBatch}, {1, 0.5});
  const Tensor mean = nn::MeanSquaredError(x, t, {.weights = weights});
  testing::ExpectNear(o.Run(nn::MeanSquaredError(x, t)), {31.0 / 6});
  testing::ExpectNear(o.Run(mean), {(9 + 22 * 0.5) / 4.5});
  testing::ExpectNear(o.Run(nn::MeanSquaredError(x, t, {.per_position = true})),
                      {1, 4, 4, 9, 9, 4});
  o.ExpectGradientsOf(mean);
}

TEST(MeanSquaredError, TakesIntegersAsTargets) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kLabels}, {1, 2, 3});
  const Tensor t = o.Integers("t", {kLabels}, {1, 1, 1});
  testing::ExpectNear(o.Run(nn::MeanSquaredError(x, t)), {5.0 / 3});
}

using Loss = Tensor (*)(Tensor x, Tensor targets, Tensor weights);

TEST(ElementwiseLossErrors, SayWhatIsWrong) {
  const Loss losses[] = {[](Tensor x, Tensor t, Tensor w) {
                           return nn::SigmoidCrossEntropy(x, t, {.weights = w});
                         },
                         [](Tensor x, Tensor t, Tensor w) {
                           return nn::MeanSquaredError(x, t, {.weights = w});
                         }};
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  for (const Loss loss : losses) {
    const auto error = [&](DType dtype, Shape targets, Shape weights) {
      Graph graph;
      loss(Input(graph, "x", dtype, {kBatch, kLabels}),
           Input(graph, "t", kFloat32, targets),
           Input(graph, "w", kFloat32, weights));
      return graph.status();
    };
    EXPECT_THAT(error(kInt32, {kBatch, kLabels}, {}),
                StatusIs(kInvalid, AllOf(HasSubstr("takes a float dtype"),
                                         HasSubstr("losses_test.cc:"))));
    EXPECT_THAT(error(kFloat32, {kBatch}, {}),
                StatusIs(kInvalid, HasSubstr("\"t\" has no dimension "
                                             "\"labels\"")));
    EXPECT_THAT(error(kFloat32, {kBatch, kLabels}, {{"other", 2}}),
                StatusIs(kInvalid, HasSubstr("\"x\" has no dimension "
                                             "\"other\"")));
    Graph graph;
    EXPECT_FALSE(loss({}, {}, {}).valid());
    loss({}, Input(graph, "t", kFloat32, {kBatch}), {});
    EXPECT_THAT(graph.status(), StatusIs(kInvalid, HasSubstr("empty")));
  }
}

}  // namespace
}  // namespace mtf
