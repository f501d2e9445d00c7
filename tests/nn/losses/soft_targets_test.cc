// SPDX-License-Identifier: Apache-2.0
//
// Cross entropy with a distribution over the vocabulary as the target.
#include <cmath>
#include <limits>

#include "nn/losses/cross_entropy.h"
#include "ops/one_hot.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

const Dimension kBatch{"batch", 2}, kLength{"length", 3}, kVocab{"vocab", 4},
    kModel{"d_model", 3};
constexpr int kPositions = 6, kV = 4;

std::vector<double> SomeProbabilities(uint64_t seed) {
  std::vector<double> numbers = testing::SomeNumbers(kPositions * kV, seed);
  for (double& number : numbers) number = std::abs(number);
  return numbers;
}

TEST(SoftTargets, AreTheFormulaForEachPosition) {
  OracleGraph o;
  const Tensor logits = o.Parameter("logits", {kBatch, kVocab, kLength});
  const Tensor targets =
      o.Parameter("targets", {kLength, kVocab, kBatch}, SomeProbabilities(3));
  const Tensor weights =
      o.Integers("weights", {kLength, kBatch}, {1, 2, 3, 4, 5, 6});
  const Tensor loss = nn::SoftmaxCrossEntropy(logits, kVocab, targets,
                                              {.label_smoothing = 0.1,
                                               .z_loss = 0.2,
                                               .weights = weights,
                                               .per_position = true});
  EXPECT_EQ(loss.shape(), Shape({kBatch, kLength}));
  const std::vector<double> actual = o.Run(loss);
  const auto& x = o.Value("logits");
  const auto& q = o.Value("targets");
  std::vector<double> expected;
  for (int b = 0; b < 2; ++b) {
    for (int l = 0; l < 3; ++l) {
      double z = 0, sum = 0;
      for (int v = 0; v < kV; ++v) z += std::exp(x[(b * kV + v) * 3 + l]);
      for (int v = 0; v < kV; ++v) {
        const double smooth = 0.9 * q[(l * kV + v) * 2 + b] + 0.1 / kV;
        sum -= smooth * (x[(b * kV + v) * 3 + l] - std::log(z));
      }
      const double weight = l * 2 + b + 1;
      expected.push_back(weight * (sum + 0.2 * std::log(z) * std::log(z)));
    }
  }
  testing::ExpectNear(actual, expected);
  o.ExpectGradientsOf(testing::Probe(o, loss));
}

TEST(SoftTargets, OfOneClassAreThatClass) {
  OracleGraph o;
  const Tensor logits = o.Parameter("logits", {kBatch, kLength, kVocab});
  const Tensor classes =
      o.Integers("classes", {kBatch, kLength}, {0, 3, 2, 2, 1, 0});
  const nn::CrossEntropyOptions options = {.label_smoothing = 0.2,
                                           .z_loss = 0.1};
  const Tensor hard = nn::SoftmaxCrossEntropy(logits, kVocab, classes, options);
  const Tensor soft =
      nn::SoftmaxCrossEntropy(logits, kVocab, OneHot(classes, kVocab), options);
  testing::ExpectNear(o.Run(hard), o.Run(soft), 1e-12);
}

TEST(SoftTargets, AnImpossibleClassHasNoLoss) {
  OracleGraph o;
  std::vector<double> values = testing::SomeNumbers(kPositions * kV, 5),
                      q = SomeProbabilities(6);
  for (int p = 0; p < kPositions; ++p) {
    values[p * kV + 1] = -std::numeric_limits<double>::infinity();
    q[p * kV + 1] = 0;
  }
  const Tensor logits =
      o.Parameter("logits", {kBatch, kLength, kVocab}, values);
  const Tensor targets = o.Parameter("targets", {kBatch, kLength, kVocab}, q);
  const Tensor loss = nn::SoftmaxCrossEntropy(logits, kVocab, targets);
  EXPECT_TRUE(std::isfinite(o.Run(loss)[0]));
  for (const Tensor& gradient : Gradients(loss, {logits, targets})) {
    for (double g : o.Run(gradient)) EXPECT_TRUE(std::isfinite(g));
  }
}

TEST(SoftTargets, ByBlocksAreTheSame) {
  std::vector<std::vector<std::vector<double>>> results;
  for (const int64_t blocks : {1, 3}) {
    OracleGraph o;
    const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
    const Tensor kernel = o.Parameter("kernel", {kModel, kVocab});
    const Tensor targets =
        o.Parameter("targets", {kBatch, kLength, kVocab}, SomeProbabilities(7));
    const Tensor weights = o.Parameter("weights", {kLength}, {1, 0.5, 2});
    const Tensor loss = nn::CrossEntropy(x, kVocab, targets,
                                         {.label_smoothing = 0.1,
                                          .weights = weights,
                                          .kernel = kernel,
                                          .blocks = blocks});
    ASSERT_OK(o.graph.status());
    std::vector<Tensor> fetches =
        Gradients(Square(loss), {x, kernel, targets, weights});
    fetches.push_back(loss);
    results.push_back(o.RunAll(fetches));
    o.ExpectGradientsOf(loss);
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    testing::ExpectNear(results[1][i], results[0][i]);
  }
}

absl::Status ErrorOf(const Shape& targets, DType dtype,
                     const Shape& weights = {}) {
  Graph graph;
  const Tensor logits =
      Input(graph, "logits", kFloat32, {kBatch, kLength, kVocab});
  nn::SoftmaxCrossEntropy(
      logits, kVocab, Input(graph, "targets", dtype, targets),
      {.weights = Input(graph, "weights", kFloat32, weights)});
  return graph.status();
}

TEST(SoftTargetErrors, SayWhatIsWrong) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(ErrorOf({kBatch, kLength}, kFloat32),
              StatusIs(kInvalid, HasSubstr("the probabilities of all classes, "
                                           "over \"vocab\"")));
  EXPECT_THAT(ErrorOf({kBatch, kLength, {"vocab", 5}}, kFloat32),
              StatusIs(kInvalid, HasSubstr("dimension \"vocab\" is 4 in the "
                                           "call but 5 in \"targets\"")));
  EXPECT_THAT(
      ErrorOf({kBatch, kVocab}, kFloat32),
      StatusIs(kInvalid, HasSubstr("the targets have the dimensions [batch=2, "
                                   "vocab=4] but the positions of \"logits\" "
                                   "are [batch=2, length=3]")));
  EXPECT_THAT(ErrorOf({kBatch, kLength, kVocab}, kInt32),
              StatusIs(kInvalid, HasSubstr("the targets have the dimensions")));
  EXPECT_THAT(ErrorOf({kBatch, kLength, kVocab}, kFloat32, {kVocab}),
              StatusIs(kInvalid, HasSubstr("the weights of positions have the "
                                           "dimension \"vocab\"")));
}

}  // namespace
}  // namespace mtf
