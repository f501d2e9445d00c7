// SPDX-License-Identifier: Apache-2.0
#include "nn/losses/cross_entropy.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
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

absl::Status CheckOptions(Tensor targets, const CrossEntropyOptions& options) {
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        ".label_smoothing is ", options.label_smoothing, ", not in [0, 1]"));
  }
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckNotNegative(".z_loss", options.z_loss));
  if (!options.weights.valid()) return absl::OkStatus();
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckInputs(targets.graph(), {options.weights}));
  for (const Dimension& dim : options.weights.shape()) {
    MTF_RETURN_IF_ERROR(internal::CheckDimension(targets, dim));
  }
  return absl::OkStatus();
}

// Checks that `x` has the dimensions of `targets`, `last`, and no others.
absl::Status CheckPositions(Tensor x, const Dimension& last, Tensor targets) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(x.graph(), {x, targets}));
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "cross_entropy"));
  MTF_RETURN_IF_ERROR(internal::CheckInteger(targets, "targets"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, last));
  const Shape positions = x.shape().Without(last.name);
  if (positions.SameDimensions(targets.shape())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the targets have the dimensions [", targets.shape().ToString(),
      "] but the positions of \"", x.name(), "\" are [", positions.ToString(),
      "]", DescribeInputs({x, targets})));
}

// The number of elements of `shape` per element of its subset `reduced`.
double CountOf(const Shape& shape, const Shape& reduced) {
  double count = 1;
  for (const Dimension& dim : shape) {
    if (!reduced.Contains(dim.name)) count *= static_cast<double>(dim.size);
  }
  return count;
}

// The sum of `weights` over all positions, or 1 if it is 0.
Tensor TotalOf(const Shape& positions, Tensor weights) {
  const Tensor total =
      ReduceSum(weights, {}) * CountOf(positions, weights.shape());
  return Select(Equal(total, 0.0), 1.0, total);
}

// The factor of the loss of each position: its weight, or its fraction of all
// weights. Empty without weights. It has all positions and is created before
// the loss, so that the loss and its gradient are adjacent and fuse into one
// pass over the logits (lowering/passes/fuse_rows.h).
Tensor FactorsOf(const Shape& positions, const CrossEntropyOptions& options) {
  if (!options.weights.valid()) return {};
  Tensor factors = internal::To(kFloat32, options.weights);
  if (!options.per_position) factors = factors / TotalOf(positions, factors);
  return Broadcast(factors, positions);
}

// `loss` times weights. An infinite loss of weight 0 would be NaN.
Tensor Weighted(Tensor loss, Tensor weights) {
  return Select(Equal(weights, 0.0), 0.0, loss * weights);
}

// The mean of `loss` over positions, weighted by `factors` if not empty.
Tensor Reduce(Tensor loss, Tensor factors, const CrossEntropyOptions& options) {
  if (!factors.valid()) {
    return options.per_position ? loss : ReduceMean(loss, {});
  }
  const Tensor weighted = Weighted(loss, factors);
  return options.per_position ? weighted : ReduceSum(weighted, {});
}

// The loss of each position, without its weight.
Tensor PositionLosses(Tensor logits, const Dimension& vocab, Tensor targets,
                      const CrossEntropyOptions& options) {
  const Shape positions = logits.shape().Without(vocab.name);
  const Tensor wide = internal::To(kFloat32, logits);
  const Tensor max = internal::SafeMax(wide, positions);
  // Both sums below depend only on `shifted`, so one all_reduce serves both.
  // Large logits cancel here, without loss of precision.
  const Tensor shifted = wide - max;
  const Tensor is_target =
      Equal(targets, Range(logits.graph(), vocab, targets.dtype()));
  const double spread =
      options.label_smoothing / static_cast<double>(vocab.size);
  const Tensor matched =
      options.label_smoothing == 0
          ? Select(is_target, shifted, 0.0)
          : Select(is_target, shifted * (1 - options.label_smoothing + spread),
                   shifted * spread);
  // Compute both sums before either is read, so that their all_reduces combine.
  const Tensor sum = ReduceSum(Exp(shifted), positions);
  const Tensor target = ReduceSum(matched, positions);
  // The sum is at least 1 if any logit is finite; 0.5 keeps the logarithm
  // finite if none is.
  const Tensor log_sum = Log(Maximum(sum, 0.5));
  Tensor loss = log_sum - target;
  if (options.z_loss != 0) {
    loss = loss + options.z_loss * Square(log_sum + max);
  }
  return loss;
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
  for (const Dimension& dim : positions) {
    if (dim.size % options.blocks == 0) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      ".blocks is ", options.blocks, ", which divides no dimension of [",
      positions.ToString(), "]"));
}

// One dimension of positions in blocks.
class Blocks {
 public:
  Blocks(const Shape& positions, int64_t count) : count_(count) {
    for (const Dimension& dim : positions) {
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
  if (options.weights.valid()) {
    weights = internal::To(kFloat32, options.weights);
    total = TotalOf(positions, weights);
    weights = Broadcast(weights, positions);
    inputs.push_back(weights);
  }
  const Blocks blocks(positions, options.blocks);
  const Tensor xs = blocks.Split(x), all_targets = blocks.Split(targets);
  const Tensor all_weights = weights.valid() ? blocks.Split(weights) : Tensor();
  std::vector<Tensor> losses, dxs;
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
        ReduceSum(weight.valid() ? Weighted(loss, weight) : loss, {});
    const std::vector<Tensor> gradients =
        mtf::internal::GradientsWithin(part, {block, kernel}, {}, begin);
    dxs.push_back(gradients[0]);
    dkernel = dkernel.valid() ? dkernel + gradients[1] : gradients[1];
    sum = sum.valid() ? sum + part : part;
    if (weight.valid()) losses.push_back(loss);
  }
  std::vector<Tensor> gradients = {blocks.Join(std::move(dxs)), dkernel};
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
  return weights.valid() ? sum / total : sum / CountOf(positions, {});
}

// The intended shape of the result of a wrong call.
Shape ResultShape(Tensor targets, const CrossEntropyOptions& options) {
  return options.per_position ? targets.shape() : Shape();
}

}  // namespace

Tensor SoftmaxCrossEntropy(Tensor logits, Dimension vocab, Tensor targets,
                           CrossEntropyOptions options,
                           std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({logits, targets});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, options.name, location);
  absl::Status status = mtf::internal::CheckInputs(*graph, {logits, targets});
  if (status.ok()) status = CheckPositions(logits, vocab, targets);
  if (status.ok()) status = CheckOptions(targets, options);
  if (status.ok() && options.kernel.valid()) {
    status = absl::InvalidArgumentError(absl::StrCat(
        "a kernel is given, but logits need no projection",
        DescribeInputs({logits, options.kernel}),
        "\n  help     pass the kernel and its input to CrossEntropy()"));
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
                       location, ResultShape(targets, options));
  }
  const Shape positions = logits.shape().Without(vocab.name);
  const Tensor factors = FactorsOf(positions, options);
  return Reduce(PositionLosses(logits, vocab, targets, options), factors,
                options);
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
                       location, ResultShape(targets, options));
  };
  absl::Status status = mtf::internal::CheckInputs(*graph, {x, targets});
  if (!status.ok()) return fail(status);
  const auto d_model = internal::ModelDimension(x, targets.shape());
  if (!d_model.ok()) return fail(d_model.status());
  status = CheckPositions(x, *d_model, targets);
  if (status.ok() && targets.shape().Contains(vocab.name)) {
    status = absl::InvalidArgumentError(
        absl::StrCat("the targets have the dimension \"", vocab.name,
                     "\" of the vocabulary", DescribeInputs({targets})));
  }
  Tensor kernel = options.kernel;
  if (status.ok() && kernel.valid()) {
    status = mtf::internal::CheckInputs(*graph, {kernel});
    if (status.ok()) status = internal::CheckFloat(kernel, "the kernel");
    if (status.ok() && !kernel.shape().SameDimensions({*d_model, vocab})) {
      status = absl::InvalidArgumentError(absl::StrCat(
          "the kernel is [", kernel.shape().ToString(), "], not [",
          Shape({*d_model, vocab}).ToString(), "]", DescribeInputs({kernel})));
    }
  }
  if (status.ok()) status = CheckBlocks(targets.shape(), options);
  if (status.ok() && options.blocks > 1) {
    status = CheckOptions(targets, options);
  }
  if (!status.ok()) return fail(status);
  x = internal::To(ActivationDType(x), x);
  kernel = kernel.valid()
               ? internal::To(x.dtype(), kernel)
               : Kernel(*graph, "kernel", {*d_model}, {vocab}, x.dtype());
  if (options.blocks > 1) {
    return MeanByBlocks(x, *d_model, kernel, vocab, targets, options);
  }
  const Tensor logits = Einsum(
      {x, kernel}, internal::Join(x.shape().Without(d_model->name), {vocab}));
  options.name = "softmax";
  options.kernel = Tensor();
  return SoftmaxCrossEntropy(logits, vocab, targets, options);
}

}  // namespace mtf::nn
