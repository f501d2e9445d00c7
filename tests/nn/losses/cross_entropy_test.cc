// SPDX-License-Identifier: Apache-2.0
#include "nn/losses/cross_entropy.h"

#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "nn/layers/embedding.h"
#include "ops/elementwise.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const Dimension kBatch{"batch", 2};
const Dimension kLength{"length", 2};
const Dimension kVocab{"vocab", 5};
const Dimension kModel{"d_model", 3};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

const std::vector<int32_t>& kTargets = *new std::vector<int32_t>{0, 4, 2, 2};

// The loss of each of 4 positions, logits [4, 5].
std::vector<double> LossesOf(const std::vector<double>& logits,
                             double smoothing = 0, double z_loss = 0) {
  std::vector<double> losses;
  for (int p = 0; p < 4; ++p) {
    const double* row = &logits[p * 5];
    const double max = *std::max_element(row, row + 5);
    double sum = 0;
    for (int v = 0; v < 5; ++v) sum += std::exp(row[v] - max);
    const double log_z = max + std::log(sum);
    double loss = z_loss * log_z * log_z;
    for (int v = 0; v < 5; ++v) {
      const double q = (v == kTargets[p] ? 1 - smoothing : 0.0) + smoothing / 5;
      if (q != 0) loss -= q * (row[v] - log_z);
    }
    losses.push_back(loss);
  }
  return losses;
}

double MeanOf(const std::vector<double>& x) {
  double sum = 0;
  for (double value : x) sum += value;
  return sum / static_cast<double>(x.size());
}

struct Example {
  OracleGraph o;
  Tensor logits, targets;
  explicit Example(std::vector<double> values = {})
      : logits(o.Parameter("logits", {kBatch, kLength, kVocab},
                           std::move(values))),
        targets(o.Integers("targets", {kBatch, kLength}, kTargets)) {}
};

TEST(SoftmaxCrossEntropy, IsTheMeanOverPositions) {
  Example e;
  const Tensor loss = nn::SoftmaxCrossEntropy(e.logits, kVocab, e.targets);
  EXPECT_EQ(loss.shape(), Shape());
  testing::ExpectNear(e.o.Run(loss), {MeanOf(LossesOf(e.o.Value("logits")))});
  e.o.ExpectGradientsOf(loss);
}

TEST(SoftmaxCrossEntropy, GradientIsSoftmaxMinusOneHot) {
  Example e;
  const Tensor loss = nn::SoftmaxCrossEntropy(e.logits, kVocab, e.targets);
  const std::vector<double> actual = e.o.Run(Gradients(loss, {e.logits})[0]);
  const auto& logits = e.o.Value("logits");
  std::vector<double> expected;
  for (int p = 0; p < 4; ++p) {
    double sum = 0;
    for (int v = 0; v < 5; ++v) sum += std::exp(logits[p * 5 + v]);
    for (int v = 0; v < 5; ++v) {
      const double one_hot = v == kTargets[p] ? 1 : 0;
      expected.push_back((std::exp(logits[p * 5 + v]) / sum - one_hot) / 4);
    }
  }
  testing::ExpectNear(actual, expected, 1e-9);
}

TEST(SoftmaxCrossEntropy, ForEachPositionInAnyOrderOfDimensions) {
  OracleGraph o;
  const Tensor logits = o.Parameter("logits", {kVocab, kLength});
  const Tensor targets = o.Integers("targets", {kLength}, {3, 1});
  const Tensor loss =
      nn::SoftmaxCrossEntropy(logits, kVocab, targets, {.per_position = true});
  EXPECT_EQ(loss.shape(), Shape({kLength}));
  const std::vector<double> actual = o.Run(loss);
  const auto& x = o.Value("logits");
  for (int l = 0; l < 2; ++l) {
    double sum = 0;
    for (int v = 0; v < 5; ++v) sum += std::exp(x[v * 2 + l]);
    const double target = x[(l == 0 ? 3 : 1) * 2 + l];
    EXPECT_NEAR(actual[l], std::log(sum) - target, 1e-9);
  }
}

TEST(SoftmaxCrossEntropy, LargeLogitsLoseNoPrecision) {
  std::vector<double> values = testing::SomeNumbers(20, 5);
  for (int i = 0; i < 20; ++i) values[i] += i < 10 ? 1e4 : -1e4;
  values[3] = -1e4;
  Example e(values);
  const Tensor loss = nn::SoftmaxCrossEntropy(e.logits, kVocab, e.targets,
                                              {.per_position = true});
  testing::ExpectNear(e.o.Run(loss), LossesOf(values), 1e-9);
}

// A sum of exactly 1 is not a tie with the lower limit of the sum.
TEST(SoftmaxCrossEntropy, GradientOfOneDominantLogit) {
  std::vector<double> values(20, -1e4);
  for (int p = 0; p < 4; ++p) values[p * 5 + 1] = 0;
  Example e(values);
  const Tensor loss = nn::SoftmaxCrossEntropy(e.logits, kVocab, e.targets);
  std::vector<double> expected(20, 0.0);
  for (int p = 0; p < 4; ++p) {
    expected[p * 5 + 1] = 0.25;
    expected[p * 5 + kTargets[p]] = -0.25;
  }
  testing::ExpectNear(e.o.Run(Gradients(loss, {e.logits})[0]), expected);
}

TEST(SoftmaxCrossEntropy, MaskedLogitsAreIgnored) {
  std::vector<double> values = testing::SomeNumbers(20, 6);
  for (int p = 0; p < 4; ++p) values[p * 5 + 1] = -kInfinity;
  Example e(values);
  const Tensor loss = nn::SoftmaxCrossEntropy(e.logits, kVocab, e.targets);
  testing::ExpectNear(e.o.Run(loss), {MeanOf(LossesOf(values))});
  for (double g : e.o.Run(Gradients(loss, {e.logits})[0])) {
    EXPECT_TRUE(std::isfinite(g));
  }
}

TEST(SoftmaxCrossEntropy, FullyMaskedRowOfWeightZeroIsIgnored) {
  std::vector<double> values = testing::SomeNumbers(20, 7);
  for (int v = 0; v < 5; ++v) values[v] = -kInfinity;
  Example e(values);
  const Tensor weights =
      e.o.Integers("weights", {kBatch, kLength}, {0, 1, 3, 0});
  const Tensor loss = nn::SoftmaxCrossEntropy(
      e.logits, kVocab, e.targets, {.z_loss = 0.1, .weights = weights});
  const std::vector<double> losses = LossesOf(values, 0, 0.1);
  testing::ExpectNear(e.o.Run(loss), {(losses[1] + 3 * losses[2]) / 4});
  const std::vector<double> gradient = e.o.Run(Gradients(loss, {e.logits})[0]);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(std::isfinite(gradient[i]));
    if (i < 5 || i >= 15) {
      EXPECT_EQ(gradient[i], 0);
    }
  }
}

TEST(SoftmaxCrossEntropy, WeightsMayLackDimensions) {
  Example e;
  const Tensor weights = e.o.Integers("weights", {kBatch}, {1, 3});
  const Tensor loss = nn::SoftmaxCrossEntropy(e.logits, kVocab, e.targets,
                                              {.weights = weights});
  const std::vector<double> l = LossesOf(e.o.Value("logits"));
  testing::ExpectNear(e.o.Run(loss), {(l[0] + l[1] + 3 * l[2] + 3 * l[3]) / 8});
}

TEST(SoftmaxCrossEntropy, PositionsKeepTheirOrder) {
  Example e;
  const Tensor weights =
      e.o.Integers("weights", {kLength, kBatch}, {1, 2, 3, 4});
  const Tensor loss = nn::SoftmaxCrossEntropy(
      e.logits, kVocab, e.targets, {.weights = weights, .per_position = true});
  EXPECT_EQ(loss.shape(), Shape({kBatch, kLength}));
  const std::vector<double> l = LossesOf(e.o.Value("logits"));
  testing::ExpectNear(e.o.Run(loss), {l[0], 3 * l[1], 2 * l[2], 4 * l[3]});
}

TEST(SoftmaxCrossEntropy, AllWeightsZeroIsALossOfZero) {
  Example e;
  const Tensor weights = e.o.Integers("weights", {kBatch}, {0, 0});
  const Tensor loss = nn::SoftmaxCrossEntropy(e.logits, kVocab, e.targets,
                                              {.weights = weights});
  EXPECT_EQ(e.o.Run(loss)[0], 0);
}

TEST(SoftmaxCrossEntropy, SmoothingAndZLoss) {
  Example e;
  const Tensor loss = nn::SoftmaxCrossEntropy(
      e.logits, kVocab, e.targets, {.label_smoothing = 0.2, .z_loss = 0.3});
  testing::ExpectNear(e.o.Run(loss),
                      {MeanOf(LossesOf(e.o.Value("logits"), 0.2, 0.3))});
  e.o.ExpectGradientsOf(loss);
}

TEST(CrossEntropy, ProjectsToTheVocabulary) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const Tensor targets = o.Integers("targets", {kBatch, kLength}, kTargets);
  const Tensor loss = nn::CrossEntropy(x, kVocab, targets);
  const double actual = o.Run(loss)[0];
  const auto& in = o.Value("x");
  const auto& kernel = o.Value("cross_entropy/kernel");
  std::vector<double> logits(20, 0.0);
  for (int p = 0; p < 4; ++p) {
    for (int v = 0; v < 5; ++v) {
      for (int d = 0; d < 3; ++d) {
        logits[p * 5 + v] += in[p * 3 + d] * kernel[d * 5 + v];
      }
    }
  }
  EXPECT_NEAR(actual, MeanOf(LossesOf(logits)), 1e-9);
  o.ExpectGradientsOf(loss);
}

// The loss and its gradients of a mean with these options.
std::vector<std::vector<double>> LossAndGradients(
    int64_t blocks, bool weighted, nn::CrossEntropyOptions options = {}) {
  OracleGraph o;
  const Dimension batch{"batch", 3}, length{"length", 4};
  const Tensor x = o.Parameter("x", {batch, length, kModel});
  const Tensor kernel = o.Parameter("kernel", {kModel, kVocab});
  const Tensor targets = o.Integers("targets", {length, batch},
                                    {0, 4, 2, 2, 1, 0, 3, 3, 1, 1, 2, 4});
  std::vector<Tensor> to = {x, kernel};
  options.kernel = kernel;
  options.blocks = blocks;
  if (weighted) {
    options.weights = o.Parameter("weights", {length}, {1.0, 0.5, 0.25, 2.0});
    to.push_back(options.weights);
  }
  const Tensor loss = nn::CrossEntropy(x, kVocab, targets, options);
  EXPECT_OK(o.graph.status());
  // A gradient that is not 1.
  const Tensor scaled = Square(loss) * 3.0;
  std::vector<std::vector<double>> values = {o.Run(loss)};
  for (const Tensor& gradient : Gradients(scaled, to)) {
    values.push_back(o.Run(gradient));
  }
  o.ExpectGradientsOf(scaled);
  return values;
}

TEST(CrossEntropy, ByBlocksIsTheSame) {
  for (const bool weighted : {false, true}) {
    for (const double smoothing : {0.0, 0.1}) {
      const nn::CrossEntropyOptions options = {.label_smoothing = smoothing,
                                               .z_loss = smoothing / 10};
      const auto unblocked = LossAndGradients(1, weighted, options);
      // Of the length, and of the batch.
      for (const int64_t blocks : {2, 4, 3}) {
        SCOPED_TRACE(blocks);
        const auto by_blocks = LossAndGradients(blocks, weighted, options);
        ASSERT_EQ(by_blocks.size(), unblocked.size());
        for (size_t i = 0; i < unblocked.size(); ++i) {
          testing::ExpectNear(by_blocks[i], unblocked[i]);
        }
      }
    }
  }
}

TEST(CrossEntropyErrors, Blocks) {
  const auto error = [](nn::CrossEntropyOptions options) {
    OracleGraph o;
    const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
    const Tensor targets = o.Integers("targets", {kBatch, kLength}, kTargets);
    nn::CrossEntropy(x, kVocab, targets, options);
    return o.graph.status();
  };
  EXPECT_THAT(
      error({.blocks = 0}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr(".blocks is 0, less than 1 (cross_entropy, ")));
  EXPECT_THAT(error({.blocks = 3}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(".blocks is 3, which divides no dimension of "
                                 "[batch=2, length=2]")));
  EXPECT_THAT(error({.per_position = true, .blocks = 2}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(".blocks is given with .per_position")));
  EXPECT_THAT(
      error({.z_loss = -1, .blocks = 2}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(".z_loss")));
  Example e;
  nn::SoftmaxCrossEntropy(e.logits, kVocab, e.targets, {.blocks = 2});
  EXPECT_THAT(e.o.graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(".blocks is 2, but all logits are given")));
}

TEST(CrossEntropy, SharesTheTableOfTheEmbedding) {
  OracleGraph o;
  const Tensor tokens = o.Integers("tokens", {kBatch, kLength}, {1, 3, 0, 0});
  const Tensor targets = o.Integers("targets", {kBatch, kLength}, kTargets);
  const Tensor table = nn::EmbeddingTable(o.graph, kVocab, kModel);
  const Tensor x = nn::Embedding(tokens, kVocab, kModel, {.table = table});
  const Tensor loss = nn::CrossEntropy(x, kVocab, targets, {.kernel = table});
  EXPECT_THAT(o.graph.variables(), SizeIs(1));
  o.ExpectGradientsOf(loss);
}

TEST(CrossEntropy, UsesNoGatherAndNoOneHotProduct) {
  Example e;
  const Tensor loss = nn::SoftmaxCrossEntropy(e.logits, kVocab, e.targets);
  const Tensor gradient = Gradients(loss, {e.logits})[0];
  std::set<const Operation*> needed = {gradient.operation()};
  const auto& operations = e.o.graph.operations();
  int reductions = 0;
  for (auto it = operations.rbegin(); it != operations.rend(); ++it) {
    const Operation& operation = **it;
    if (!needed.contains(&operation)) continue;
    for (const Tensor& input : operation.inputs()) {
      needed.insert(input.operation());
    }
    EXPECT_NE(operation.kind(), "gather");
    EXPECT_NE(operation.kind(), "scatter_add");
    EXPECT_NE(operation.kind(), "einsum");
    // Over a sharded vocabulary each of these is an all_reduce.
    if (operation.kind().substr(0, 6) != "reduce") continue;
    reductions += operation.input(0).shape().Contains("vocab") ? 1 : 0;
  }
  // The maximum and the sum; the loss itself takes one more.
  EXPECT_EQ(reductions, 2);
}

TEST(CrossEntropyErrors, TargetsOfOtherDimensions) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength, kModel});
  const Tensor targets = Input(graph, "targets", kInt32, {kBatch});
  nn::CrossEntropy(x, kVocab, targets);
  EXPECT_THAT(
      graph.status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("the targets have the dimensions [batch=2] but the "
                         "positions of \"x\" are [batch=2, length=2] "
                         "(cross_entropy, cross_entropy_test.cc:")));
}

TEST(CrossEntropyErrors, FloatTargets) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  const Tensor targets = Input(graph, "targets", kFloat32, {kBatch});
  nn::CrossEntropy(x, kVocab, targets);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("targets must have an integer dtype, not f32 "
                                 "(cross_entropy, cross_entropy_test.cc:")));
}

TEST(CrossEntropyErrors, ANameOfTwoSizes) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  const Tensor targets = Input(graph, "targets", kInt32, {{"batch", 3}});
  nn::CrossEntropy(x, kVocab, targets);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("[batch=3]"), HasSubstr("[batch=2]"),
                             HasSubstr("cross_entropy_test.cc:"))));
}

TEST(CrossEntropyErrors, AKernelOfAnotherShape) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  const Tensor targets = Input(graph, "targets", kInt32, {kBatch});
  const Tensor kernel = Input(graph, "kernel", kFloat32, {kModel, kLength});
  nn::CrossEntropy(x, kVocab, targets, {.kernel = kernel});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the kernel is [d_model=3, length=2], not "
                                 "[d_model=3, vocab=5] (cross_entropy, "
                                 "cross_entropy_test.cc:")));
}

TEST(CrossEntropyErrors, AKernelOfIntegers) {
  for (const DType dtype : {kInt32, kBool}) {
    Graph graph;
    const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
    const Tensor targets = Input(graph, "targets", kInt32, {kBatch});
    const Tensor kernel = Input(graph, "kernel", dtype, {kModel, kVocab});
    nn::CrossEntropy(x, kVocab, targets, {.kernel = kernel});
    EXPECT_THAT(graph.status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(absl::StrCat(
                                   "the kernel takes a float dtype, not ",
                                   dtype == kBool ? "bool" : "i32",
                                   " (cross_entropy, cross_entropy_test.cc:")),
                               HasSubstr("Cast() it"))));
  }
}

TEST(CrossEntropyErrors, AKernelForLogits) {
  Example e;
  const Tensor kernel = Input(e.o.graph, "kernel", kFloat32, {kModel, kVocab});
  nn::SoftmaxCrossEntropy(e.logits, kVocab, e.targets, {.kernel = kernel});
  EXPECT_THAT(e.o.graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("a kernel is given, but logits need no "
                                       "projection (cross_entropy, "
                                       "cross_entropy_test.cc:"),
                             HasSubstr("to CrossEntropy()"))));
}

TEST(CrossEntropyErrors, KernelsForLogits) {
  Example e;
  nn::SoftmaxCrossEntropy(e.logits, kVocab, e.targets, {.each = {kBatch}});
  EXPECT_THAT(
      e.o.graph.status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr(".each is [batch=2], dimensions with kernels of "
                               "their own, but logits have no kernel"),
                     HasSubstr("to CrossEntropy()"))));
}

TEST(CrossEntropyErrors, KernelsOfWrongDimensions) {
  const auto expect = [](const Shape& each, int64_t blocks,
                         const std::string& words) {
    Graph graph;
    const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
    const Tensor targets = Input(graph, "targets", kInt32, {kBatch});
    nn::CrossEntropy(x, kVocab, targets, {.each = each, .blocks = blocks});
    EXPECT_THAT(graph.status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  };
  expect({kModel}, 1, ".each has \"d_model\", the last dimension of \"x\"");
  expect({kBatch, kBatch}, 1, "\"batch\" occurs twice");
  expect({kLength}, 1, "\"length\"");
  expect({kBatch}, 2,
         "divides no dimension of [batch=2] other than those of .each, "
         "[batch=2]");
}

// Blocks divide a dimension that has no kernels of its own.
TEST(CrossEntropy, BlocksKeepTheDimensionsOfKernels) {
  OracleGraph o;
  const Dimension members{"members", 4};
  const Tensor x = o.Parameter("x", {kLength, members, kModel});
  const Tensor targets =
      o.Integers("targets", {kLength, members}, {1, 3, 0, 0, 2, 4, 1, 0});
  std::vector<Tensor> losses;
  for (const int64_t blocks : {1, 2}) {
    Scope scope(o.graph, "head", blocks == 1 ? Scope::kUnique : Scope::kReuse);
    losses.push_back(nn::CrossEntropy(x, kVocab, targets,
                                      {.each = {members}, .blocks = blocks}));
  }
  ASSERT_OK(o.graph.status());
  testing::ExpectNear(o.Run(losses[1]), o.Run(losses[0]), 1e-6);
  testing::ExpectNear(o.Run(Gradients(losses[1], {x})[0]),
                      o.Run(Gradients(losses[0], {x})[0]), 1e-6);
}

TEST(CrossEntropyErrors, ZLoss) {
  for (const double z_loss : {-1e-4, 1e39, std::nan("")}) {
    Example e;
    nn::SoftmaxCrossEntropy(e.logits, kVocab, e.targets, {.z_loss = z_loss});
    EXPECT_THAT(
        e.o.graph.status(),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr(absl::StrCat(
                     ".z_loss is ", z_loss,
                     ", not a non-negative number of f32 (cross_entropy, "
                     "cross_entropy_test.cc:"))));
  }
}

TEST(CrossEntropyErrors, TooMuchSmoothing) {
  Example e;
  nn::SoftmaxCrossEntropy(e.logits, kVocab, e.targets,
                          {.label_smoothing = 1.5});
  EXPECT_THAT(e.o.graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(".label_smoothing is 1.5, not in [0, 1]")));
}

}  // namespace
}  // namespace mtf
