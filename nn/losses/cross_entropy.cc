// SPDX-License-Identifier: Apache-2.0
#include "nn/losses/cross_entropy.h"

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/one_hot.h"
#include "ops/reduce.h"
#include "ops/reshape.h"

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

// The factor of the loss of each position: its weight, or its fraction of all
// weights. Empty without weights. It has all positions and is created before
// the loss, so that the loss and its gradient are adjacent and fuse into one
// pass over the logits (lowering/passes/fuse_rows.h).
Tensor FactorsOf(const Shape& positions, const CrossEntropyOptions& options) {
  if (!options.weights.valid()) return {};
  Tensor factors = internal::To(kFloat32, options.weights);
  if (!options.per_position) {
    const Tensor total =
        ReduceSum(factors, {}) * CountOf(positions, factors.shape());
    factors = factors / Select(Equal(total, 0.0), 1.0, total);
  }
  return Broadcast(factors, positions);
}

// The mean of `loss` over positions, weighted by `factors` if not empty.
Tensor Reduce(Tensor loss, Tensor factors, const CrossEntropyOptions& options) {
  if (!factors.valid()) {
    return options.per_position ? loss : ReduceMean(loss, {});
  }
  // An infinite loss times a weight of 0 would be NaN.
  const Tensor weighted = Select(Equal(factors, 0.0), 0.0, loss * factors);
  return options.per_position ? weighted : ReduceSum(weighted, {});
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
  if (!status.ok()) {
    return graph->Fail(status,
                       internal::DescribeLayer("cross_entropy", options.name),
                       location, ResultShape(targets, options));
  }
  const Shape positions = logits.shape().Without(vocab.name);
  const Tensor factors = FactorsOf(positions, options);
  const Tensor wide = internal::To(kFloat32, logits);
  const Tensor max = internal::SafeMax(wide, positions);
  // Both sums below depend only on `shifted`, so one all_reduce serves both.
  // Large logits cancel here, without loss of precision.
  const Tensor shifted = wide - max;
  const Tensor is_target =
      Equal(targets, Range(*graph, vocab, targets.dtype()));
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
  return Reduce(loss, factors, options);
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
  if (!status.ok()) return fail(status);
  x = internal::To(ActivationDType(x), x);
  kernel = kernel.valid()
               ? internal::To(x.dtype(), kernel)
               : Kernel(*graph, "kernel", {*d_model}, {vocab}, x.dtype());
  const Tensor logits = Einsum(
      {x, kernel}, internal::Join(x.shape().Without(d_model->name), {vocab}));
  options.name = "softmax";
  options.kernel = Tensor();
  return SoftmaxCrossEntropy(logits, vocab, targets, options);
}

}  // namespace mtf::nn
