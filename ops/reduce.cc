// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/reshape.h"
#include "ops/slice.h"
#include "ops/stop_gradient.h"

namespace mtf {
namespace {

absl::string_view KindName(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return "reduce_sum";
    case ReduceKind::kMax:
      return "reduce_max";
    case ReduceKind::kMin:
      return "reduce_min";
  }
  return "";
}

class ReduceOp : public Operation {
 public:
  ReduceOp(ReduceKind reduce_kind, Tensor x, Shape shape)
      : Operation({x}, std::move(shape), x.dtype()),
        reduce_kind_(reduce_kind) {}
  absl::string_view kind() const override { return KindName(reduce_kind_); }

  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    const Tensor dy = of_results[0];
    const Tensor x = input(0);
    if (reduce_kind_ == ReduceKind::kSum) return {Broadcast(dy, x.shape())};
    // Each element that equals the extreme gets an equal share of the gradient.
    const Tensor hit = Equal(x, result());
    // Count in f32: f16 has no number above 65504.
    const Tensor hits = ReduceSum(Cast(hit, kFloat32), shape());
    const Tensor share = Cast(Cast(dy, kFloat32) / hits, dy.dtype());
    return {Select(hit, share, 0.0)};
  }

  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.Reduce(reduce_kind_, inputs[0], shape());
  }

 private:
  const ReduceKind reduce_kind_;
};

absl::Status Check(Tensor x, const Shape& output, absl::string_view what,
                   bool float_only) {
  MTF_RETURN_IF_ERROR(internal::CheckSubset(x, output));
  if (!float_only) return internal::CheckNumber(x, what);
  if (IsFloat(x.dtype())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " takes a float dtype, not ", DTypeName(x.dtype()),
                   DescribeInputs({x}), "\n  help     Cast() the input"));
}

Tensor Reduce(ReduceKind kind, Tensor x, Shape output,
              std::source_location location) {
  if (!x.valid()) return {};
  const absl::Status status = Check(x, output, KindName(kind), false);
  if (!status.ok()) {
    return x.graph().Fail(status, KindName(kind), location, output, x.dtype());
  }
  return x.graph().Add(std::make_unique<ReduceOp>(kind, x, std::move(output)),
                       location);
}

}  // namespace

Tensor ReduceSum(Tensor x, Shape output, std::source_location location) {
  return Reduce(ReduceKind::kSum, x, std::move(output), location);
}

Tensor ReduceMax(Tensor x, Shape output, std::source_location location) {
  return Reduce(ReduceKind::kMax, x, std::move(output), location);
}

Tensor ReduceMin(Tensor x, Shape output, std::source_location location) {
  return Reduce(ReduceKind::kMin, x, std::move(output), location);
}

Tensor ReduceMean(Tensor x, Shape output, std::source_location location) {
  if (!x.valid()) return {};
  const absl::Status status = Check(x, output, "reduce_mean", true);
  if (!status.ok()) {
    return x.graph().Fail(status, "reduce_mean", location, output, x.dtype());
  }
  double count = 1;
  for (const Dimension& dim : x.shape()) {
    if (!output.Contains(dim.name)) count *= static_cast<double>(dim.size);
  }
  // In f32, because the sum and the count may exceed the range of f16.
  const Tensor sum =
      ReduceSum(Cast(x, kFloat32, location), std::move(output), location);
  const Tensor mean = Divide({sum, location}, {count, location});
  return Cast(mean, x.dtype(), location);
}

Tensor ReduceLogSumExp(Tensor x, Shape output, std::source_location location) {
  if (!x.valid()) return {};
  const absl::Status status = Check(x, output, "reduce_logsumexp", true);
  if (!status.ok()) {
    return x.graph().Fail(status, "reduce_logsumexp", location, output,
                          x.dtype());
  }
  CallSiteScope site(x.graph(), location);
  if (x.dtype() != kFloat32) {
    // The sum is at least the number of maxima, which may exceed the range of
    // f16.
    const Tensor wide = ReduceLogSumExp(Cast(x, kFloat32), std::move(output));
    return Cast(wide, x.dtype());
  }
  const Tensor max = StopGradient(ReduceMax(x, output));
  // x - max would be NaN for an infinite maximum.
  const Tensor origin = Select(Equal(max - max, 0.0), max, 0.0);
  const Tensor sum = ReduceSum(Exp(x - origin), output);
  // The sum is 0 only if every x, and so max, is -infinity. The inner Select
  // keeps the infinite derivative of log at 0 out of the gradient.
  const Tensor none = Equal(sum, 0.0);
  return Select(none, max, Log(Select(none, 1.0, sum)) + origin);
}

namespace {

// All or any, as the minimum or maximum of 0 and 1. In bf16, which has half the
// bytes of i32.
Tensor ReduceBool(ReduceKind kind, Tensor x, Shape output,
                  absl::string_view what, std::source_location location) {
  if (!x.valid()) return {};
  absl::Status status = internal::CheckSubset(x, output);
  if (status.ok() && x.dtype() != kBool) {
    status = absl::InvalidArgumentError(
        absl::StrCat(what, " takes bool, not ", DTypeName(x.dtype()),
                     DescribeInputs({x}), "\n  help     Cast() the input"));
  }
  if (!status.ok()) {
    return x.graph().Fail(status, what, location, output, kBool);
  }
  CallSiteScope site(x.graph(), location);
  // Not a cast back to bool: over no elements the result is an infinity.
  return Greater(Reduce(kind, Cast(x, kBFloat16), std::move(output), location),
                 0.0);
}

}  // namespace

Tensor ReduceAll(Tensor x, Shape output, std::source_location location) {
  return ReduceBool(ReduceKind::kMin, x, std::move(output), "reduce_all",
                    location);
}

Tensor ReduceAny(Tensor x, Shape output, std::source_location location) {
  return ReduceBool(ReduceKind::kMax, x, std::move(output), "reduce_any",
                    location);
}

Tensor ReduceFirst(Tensor x, Shape output, std::source_location location) {
  if (!x.valid()) return {};
  absl::Status status = internal::CheckSubset(x, output);
  for (const Dimension& dim : x.shape()) {
    if (!status.ok() || output.Contains(dim.name) || dim.size > 0) continue;
    status = absl::InvalidArgumentError(
        absl::StrCat("dimension \"", dim.name, "\" of \"", x.name(),
                     "\" has no first element", DescribeInputs({x})));
  }
  if (!status.ok()) {
    return x.graph().Fail(status, "reduce_first", location, output, x.dtype());
  }
  Tensor first = x;
  for (const Dimension& dim : x.shape()) {
    if (output.Contains(dim.name)) continue;
    first = Slice(first, dim.name, 0, 1, location);
  }
  Shape kept;
  for (const Dimension& dim : x.shape()) {
    if (output.Contains(dim.name)) kept = kept.With(dim);
  }
  return internal::InOrderOf(Reshape(first, kept, location), output, location);
}

namespace {

// Applies `reduce`, which takes the dimensions to keep, to the dimensions of
// `x` without `dims`.
Tensor Over(Tensor (*reduce)(Tensor, Shape, std::source_location), Tensor x,
            const Shape& dims, absl::string_view what,
            std::source_location location) {
  if (!x.valid()) return {};
  Shape kept = x.shape();
  for (const Dimension& dim : dims) kept = kept.Without(dim.name);
  const absl::Status status = internal::CheckSubset(x, dims);
  if (!status.ok()) {
    return x.graph().Fail(status, what, location, kept, x.dtype());
  }
  return reduce(x, kept, location);
}

}  // namespace

Tensor SumOver(Tensor x, Shape dims, std::source_location location) {
  return Over(ReduceSum, x, dims, "sum_over", location);
}

Tensor MeanOver(Tensor x, Shape dims, std::source_location location) {
  return Over(ReduceMean, x, dims, "mean_over", location);
}

Tensor MaxOver(Tensor x, Shape dims, std::source_location location) {
  return Over(ReduceMax, x, dims, "max_over", location);
}

Tensor MinOver(Tensor x, Shape dims, std::source_location location) {
  return Over(ReduceMin, x, dims, "min_over", location);
}

Tensor LogSumExpOver(Tensor x, Shape dims, std::source_location location) {
  return Over(ReduceLogSumExp, x, dims, "logsumexp_over", location);
}

Tensor AllOver(Tensor x, Shape dims, std::source_location location) {
  return Over(ReduceAll, x, dims, "all_over", location);
}

Tensor AnyOver(Tensor x, Shape dims, std::source_location location) {
  return Over(ReduceAny, x, dims, "any_over", location);
}

Tensor FirstOver(Tensor x, Shape dims, std::source_location location) {
  return Over(ReduceFirst, x, dims, "first_over", location);
}

}  // namespace mtf
