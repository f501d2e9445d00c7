// SPDX-License-Identifier: Apache-2.0
#include "nn/losses/cross_entropy.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "nn/losses/position_weights.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/custom_gradient.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/index.h"
#include "ops/one_hot.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/stack.h"

namespace mtf::nn {
namespace {

// Whether `targets` are a distribution over the vocabulary for each position.
bool AreSoft(Tensor targets) { return IsFloat(targets.dtype()); }

// The shape of the positions.
Shape PositionsOf(Tensor targets, const Dimension& vocab) {
  return targets.valid() && AreSoft(targets)
             ? targets.shape().Without(vocab.name)
             : targets.shape();
}

absl::Status CheckOptions(Tensor targets, const Dimension& vocab,
                          const CrossEntropyOptions& options) {
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        ".label_smoothing is ", options.label_smoothing, ", not in [0, 1]"));
  }
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckNotNegative(".z_loss", options.z_loss));
  MTF_RETURN_IF_ERROR(internal::CheckWeights(options.weights, targets));
  if (options.weights.valid() && options.weights.shape().Contains(vocab.name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the weights of positions have the dimension \"", vocab.name,
        "\" of the vocabulary", DescribeInputs({options.weights})));
  }
  return absl::OkStatus();
}

// Checks that `targets` are integers, or floats over `vocab`.
absl::Status CheckTargets(Tensor targets, const Dimension& vocab) {
  if (!AreSoft(targets)) return internal::CheckInteger(targets, "targets");
  if (targets.shape().Contains(vocab.name)) {
    return internal::CheckDimension(targets, vocab);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "targets must have an integer dtype, not ", DTypeName(targets.dtype()),
      DescribeInputs({targets}), "\n  help     Cast() classes to i32, or give ",
      "the probabilities of all classes, over \"", vocab.name, "\""));
}

// Checks that `x` has the positions of `targets`, `last`, and no others.
absl::Status CheckPositions(Tensor x, const Dimension& last,
                            const Dimension& vocab, Tensor targets) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(x.graph(), {x, targets}));
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "cross_entropy"));
  MTF_RETURN_IF_ERROR(CheckTargets(targets, vocab));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, last));
  const Shape positions = x.shape().Without(last.name);
  if (positions.SameDimensions(PositionsOf(targets, vocab))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the targets have the dimensions [", targets.shape().ToString(),
      "] but the positions of \"", x.name(), "\" are [", positions.ToString(),
      "]", DescribeInputs({x, targets})));
}

// The sums over the vocabulary for each position: of exp(shifted), of the
// probabilities of the targets, and of their products with `shifted`. All three
// depend on their operands only, so that their all_reduces combine.
struct Sums {
  Tensor exponentials, mass, matched;
};

Sums SumsOf(Tensor shifted, const Dimension& vocab, Tensor targets,
            double smoothing) {
  const Shape positions = shifted.shape().Without(vocab.name);
  const double spread = smoothing / static_cast<double>(vocab.size);
  Sums sums;
  Tensor matched;
  if (AreSoft(targets)) {
    Tensor q = internal::To(kFloat32, targets);
    if (smoothing != 0) q = q * (1 - smoothing) + spread;
    // A class that is impossible for both sides has no loss; 0 times infinity
    // would be NaN.
    const Tensor excluded =
        LogicalAnd(Equal(q, 0.0),
                   Equal(shifted, -std::numeric_limits<double>::infinity()));
    matched = q * Select(excluded, 0.0, shifted);
    sums.mass = ReduceSum(q, positions);
  } else {
    const Tensor is_target =
        Equal(targets, Range(shifted.graph(), vocab, targets.dtype()));
    matched = smoothing == 0
                  ? Select(is_target, shifted, 0.0)
                  : Select(is_target, shifted * (1 - smoothing + spread),
                           shifted * spread);
  }
  sums.exponentials = ReduceSum(Exp(shifted), positions);
  sums.matched = ReduceSum(matched, positions);
  return sums;
}

// The loss of each position, without its weight.
Tensor PositionLosses(Tensor logits, const Dimension& vocab, Tensor targets,
                      const CrossEntropyOptions& options) {
  const Shape positions = logits.shape().Without(vocab.name);
  const Tensor wide = internal::To(kFloat32, logits);
  const Tensor max = internal::SafeMax(wide, positions);
  // Large logits cancel here, without loss of precision.
  const Tensor shifted = wide - max;
  const Sums sums = SumsOf(shifted, vocab, targets, options.label_smoothing);
  // The sum is at least 1 if any logit is finite; 0.5 keeps the logarithm
  // finite if none is.
  const Tensor log_sum = Log(Maximum(sums.exponentials, 0.5));
  Tensor loss =
      (sums.mass.valid() ? log_sum * sums.mass : log_sum) - sums.matched;
  if (options.z_loss != 0) {
    loss = loss + options.z_loss * Square(log_sum + max);
  }
  return loss;
}

// The dimensions of positions that blocks can divide: those with kernels of
// their own are needed by each block.
Shape DividedByBlocks(Shape positions, const CrossEntropyOptions& options) {
  for (const Dimension& own : options.each)
    positions = positions.Without(own.name);
  return positions;
}

absl::Status CheckBlocks(const Shape& positions,
                         const CrossEntropyOptions& options) {
  if (options.blocks < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(".blocks is ", options.blocks, ", less than 1"));
  }
  if (options.blocks == 1) return absl::OkStatus();
  if (options.per_position) {
    return absl::InvalidArgumentError(
        ".blocks is given with .per_position, but only the gradient of the "
        "mean is computed with the loss");
  }
  for (const Dimension& dim : DividedByBlocks(positions, options)) {
    if (dim.size % options.blocks == 0) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      ".blocks is ", options.blocks, ", which divides no dimension of [",
      positions.ToString(), "]",
      options.each.rank() == 0 ? ""
                               : absl::StrCat(" other than those of .each, [",
                                              options.each.ToString(), "]")));
}

// One dimension of positions in blocks.
class Blocks {
 public:
  Blocks(const Shape& divisible, const Shape& positions, int64_t count)
      : count_(count) {
    for (const Dimension& dim : divisible) {
      if (dim.size % count == 0) divided_ = dim;
    }
    while (positions.Contains(block_)) block_ += "_";
  }

  int64_t count() const { return count_; }
  // Every count-th element is of one block: the shards of a dimension are parts
  // of it, so that each device has as much of each block.
  Tensor Split(Tensor x) const {
    return SplitDimension(
        x, divided_.name,
        {{divided_.name, divided_.size / count_}, {block_, count_}});
  }
  Tensor Get(Tensor split, int64_t block) const {
    return Index(split, block_, block);
  }
  Tensor Join(std::vector<Tensor> blocks) const {
    return MergeDimensions(Stack(std::move(blocks), block_),
                           {divided_.name, block_}, divided_.name);
  }

 private:
  const int64_t count_;
  Dimension divided_;
  std::string block_ = "loss_block";
};

// CrossEntropy of the mean by blocks. The gradients of the sum over positions
// are computed with it, and multiplied by its gradient later.
Tensor MeanByBlocks(Tensor x, const Dimension& d_model, Tensor kernel,
                    const Dimension& vocab, Tensor targets,
                    const CrossEntropyOptions& options) {
  const Shape positions = x.shape().Without(d_model.name);
  Tensor weights, total;
  std::vector<Tensor> inputs = {x, kernel};
  if (AreSoft(targets)) inputs.push_back(targets);
  if (options.weights.valid()) {
    weights = internal::To(kFloat32, options.weights);
    total = internal::TotalOf(positions, weights);
    weights = Broadcast(weights, positions);
    inputs.push_back(weights);
  }
  const Blocks blocks(DividedByBlocks(positions, options), positions,
                      options.blocks);
  const Tensor xs = blocks.Split(x), all_targets = blocks.Split(targets);
  const Tensor all_weights = weights.valid() ? blocks.Split(weights) : Tensor();
  std::vector<Tensor> losses, dxs, dtargets;
  Tensor sum, dkernel;
  for (int64_t i = 0; i < blocks.count(); ++i) {
    const Tensor block = blocks.Get(xs, i), target = blocks.Get(all_targets, i);
    const Tensor weight =
        weights.valid() ? blocks.Get(all_weights, i) : Tensor();
    const int begin = static_cast<int>(x.graph().operations().size());
    const Tensor logits =
        Einsum({block, kernel},
               internal::Join(block.shape().Without(d_model.name), {vocab}));
    const Tensor loss = PositionLosses(logits, vocab, target, options);
    const Tensor part =
        ReduceSum(weight.valid() ? internal::Weighted(loss, weight) : loss, {});
    std::vector<Tensor> to = {block, kernel};
    if (AreSoft(targets)) to.push_back(target);
    const std::vector<Tensor> gradients =
        mtf::internal::GradientsWithin(part, to, {}, begin);
    dxs.push_back(gradients[0]);
    if (AreSoft(targets)) dtargets.push_back(gradients[2]);
    dkernel = dkernel.valid() ? dkernel + gradients[1] : gradients[1];
    sum = sum.valid() ? sum + part : part;
    if (weight.valid()) losses.push_back(loss);
  }
  std::vector<Tensor> gradients = {blocks.Join(std::move(dxs)), dkernel};
  if (!dtargets.empty()) gradients.push_back(blocks.Join(std::move(dtargets)));
  if (weights.valid()) {
    gradients.push_back(
        Select(Equal(weights, 0.0), 0.0, blocks.Join(std::move(losses))));
  }
  const auto gradient = [gradients](const std::vector<Tensor>& of_sum) {
    std::vector<Tensor> scaled;
    for (const Tensor& each : gradients) {
      scaled.push_back(internal::To(kFloat32, each) * of_sum[0]);
    }
    return scaled;
  };
  sum = CustomGradient({sum}, inputs, gradient)[0];
  return weights.valid() ? sum / total : sum / internal::CountOf(positions, {});
}

// Checks that `x` has the dimensions of .each, other than `d_model`.
absl::Status CheckEach(Tensor x, const Dimension& d_model, const Shape& each) {
  MTF_RETURN_IF_ERROR(each.Validate());
  for (const Dimension& own : each) {
    MTF_RETURN_IF_ERROR(internal::CheckDimension(x, own));
    if (own.name != d_model.name) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        ".each has \"", own.name, "\", the last dimension of \"", x.name(),
        "\", which the kernel sums over", DescribeInputs({x}),
        "\n  help     give dimensions of positions, or Transpose() it"));
  }
  return absl::OkStatus();
}

// The intended shape of the result of a wrong call.
Shape ResultShape(Tensor targets, const Dimension& vocab,
                  const CrossEntropyOptions& options) {
  return options.per_position ? PositionsOf(targets, vocab) : Shape();
}

}  // namespace

Tensor SoftmaxCrossEntropy(Tensor logits, Dimension vocab, Tensor targets,
                           CrossEntropyOptions options,
                           std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({logits, targets});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, options.name, location);
  absl::Status status = mtf::internal::CheckInputs(*graph, {logits, targets});
  if (status.ok()) status = CheckPositions(logits, vocab, vocab, targets);
  if (status.ok()) status = CheckOptions(targets, vocab, options);
  if (status.ok() && options.kernel.valid()) {
    status = absl::InvalidArgumentError(absl::StrCat(
        "a kernel is given, but logits need no projection",
        DescribeInputs({logits, options.kernel}),
        "\n  help     pass the kernel and its input to CrossEntropy()"));
  }
  if (status.ok() && options.each.rank() > 0) {
    status = absl::InvalidArgumentError(absl::StrCat(
        ".each is [", options.each.ToString(),
        "], dimensions with kernels of their own, but logits have no kernel",
        DescribeInputs({logits}),
        "\n  help     pass the input of the kernels to CrossEntropy()"));
  }
  if (status.ok() && options.blocks != 1) {
    status = absl::InvalidArgumentError(absl::StrCat(
        ".blocks is ", options.blocks,
        ", but all logits are given, in no blocks", DescribeInputs({logits}),
        "\n  help     pass the kernel and its input to CrossEntropy()"));
  }
  if (!status.ok()) {
    return graph->Fail(status,
                       internal::DescribeLayer("cross_entropy", options.name),
                       location, ResultShape(targets, vocab, options));
  }
  const Shape positions = logits.shape().Without(vocab.name);
  const Tensor factors =
      internal::FactorsOf(positions, options.weights, options.per_position);
  return internal::Reduce(PositionLosses(logits, vocab, targets, options),
                          factors, options.per_position);
}

Tensor CrossEntropy(Tensor x, Dimension vocab, Tensor targets,
                    CrossEntropyOptions options,
                    std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({x, targets});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, options.name, location);
  const auto fail = [&](const absl::Status& status) {
    return graph->Fail(status,
                       internal::DescribeLayer("cross_entropy", options.name),
                       location, ResultShape(targets, vocab, options));
  };
  absl::Status status = mtf::internal::CheckInputs(*graph, {x, targets});
  if (!status.ok()) return fail(status);
  const Shape positions = PositionsOf(targets, vocab);
  const auto d_model = internal::ModelDimension(x, positions);
  if (!d_model.ok()) return fail(d_model.status());
  status = CheckPositions(x, *d_model, vocab, targets);
  if (status.ok() && positions.Contains(vocab.name)) {
    status = absl::InvalidArgumentError(
        absl::StrCat("the targets have the dimension \"", vocab.name,
                     "\" of the vocabulary", DescribeInputs({targets})));
  }
  Tensor kernel = options.kernel;
  if (status.ok() && kernel.valid()) {
    status = mtf::internal::CheckInputs(*graph, {kernel});
    if (status.ok()) status = internal::CheckFloat(kernel, "the kernel");
    const Shape shape = internal::Join(options.each, {*d_model, vocab});
    if (status.ok() && !kernel.shape().SameDimensions(shape)) {
      status = absl::InvalidArgumentError(
          absl::StrCat("the kernel is [", kernel.shape().ToString(), "], not [",
                       shape.ToString(), "]", DescribeInputs({kernel})));
    }
  }
  if (status.ok()) status = CheckEach(x, *d_model, options.each);
  if (status.ok()) status = CheckBlocks(positions, options);
  if (status.ok() && options.blocks > 1) {
    status = CheckOptions(targets, vocab, options);
  }
  if (!status.ok()) return fail(status);
  x = internal::To(ActivationDType(x), x);
  kernel = kernel.valid() ? internal::To(x.dtype(), kernel)
                          : Kernel(*graph, "kernel", {*d_model}, {vocab},
                                   x.dtype(), {.each = options.each});
  if (options.blocks > 1) {
    return MeanByBlocks(x, *d_model, kernel, vocab, targets, options);
  }
  const Tensor logits = Einsum(
      {x, kernel}, internal::Join(x.shape().Without(d_model->name), {vocab}));
  options.name = "softmax";
  options.kernel = Tensor();
  options.each = {};
  return SoftmaxCrossEntropy(logits, vocab, targets, options);
}

}  // namespace mtf::nn
