// SPDX-License-Identifier: Apache-2.0
#include "ops/pad.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "ops/checks.h"
#include "ops/slice.h"

namespace mtf {
namespace {

class PadOp : public Operation {
 public:
  PadOp(Tensor x, Shape shape, std::string dim, int64_t before, double value)
      : Operation({x}, std::move(shape), x.dtype()),
        dim_(std::move(dim)),
        before_(before),
        value_(value) {}
  absl::string_view kind() const override { return "pad"; }
  std::string attributes() const override {
    return absl::StrCat(dim_, " before=", before_, " fill=", value_);
  }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    const Tensor dy = of_results[0];
    return {Slice(dy, dim_, before_, input(0).shape().SizeOf(dim_))};
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    const int64_t after =
        shape().SizeOf(dim_) - before_ - input(0).shape().SizeOf(dim_);
    return emitter.Pad(inputs[0], dim_, before_, after, value_);
  }

 private:
  const std::string dim_;
  const int64_t before_;
  const double value_;
};

absl::Status Check(Tensor x, absl::string_view dim, int64_t before,
                   int64_t after, double value) {
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, dim));
  constexpr int64_t kMost = int64_t{1} << 60;
  if (before < 0 || after < 0 || before > kMost || after > kMost) {
    return absl::InvalidArgumentError(absl::StrCat(
        "padding of dimension \"", dim, "\" of \"", x.name(), "\" is ", before,
        " before and ", after, " after; each must be from 0 to 2^60",
        DescribeInputs({x})));
  }
  return internal::CheckHolds(x.dtype(), value);
}

}  // namespace

Tensor Pad(Tensor x, absl::string_view dim, int64_t before, int64_t after,
           double value, std::source_location location) {
  if (!x.valid()) return {};
  const absl::Status status = Check(x, dim, before, after, value);
  if (!status.ok()) {
    return x.graph().Fail(status, "pad", location, x.shape(), x.dtype());
  }
  const Shape shape =
      x.shape().Resized(dim, x.shape().SizeOf(dim) + before + after);
  return x.graph().Add(
      std::make_unique<PadOp>(x, shape, std::string(dim), before, value),
      location);
}

}  // namespace mtf
