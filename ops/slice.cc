// SPDX-License-Identifier: Apache-2.0
#include "ops/slice.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "ops/checks.h"
#include "ops/pad.h"

namespace mtf {
namespace {

class SliceOp : public Operation {
 public:
  SliceOp(Tensor x, std::string dim, int64_t begin, int64_t size)
      : Operation({x}, x.shape().Resized(dim, size), x.dtype()),
        dim_(std::move(dim)),
        begin_(begin) {}
  absl::string_view kind() const override { return "slice"; }
  std::string attributes() const override {
    return absl::StrCat(dim_, " begin=", begin_);
  }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    const Tensor dy = of_results[0];
    const int64_t after =
        input(0).shape().SizeOf(dim_) - begin_ - shape().SizeOf(dim_);
    return {Pad(dy, dim_, begin_, after)};
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.Slice(inputs[0], dim_, begin_, shape().SizeOf(dim_));
  }

 private:
  const std::string dim_;
  const int64_t begin_;
};

absl::Status Check(Tensor x, absl::string_view dim, int64_t begin,
                   int64_t size) {
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, dim));
  const int64_t extent = x.shape().SizeOf(dim);
  // begin + size could overflow; extent - begin cannot.
  if (begin >= 0 && size >= 0 && begin <= extent && size <= extent - begin) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      size, " elements from ", begin, " exceed dimension \"", dim, "\" of \"",
      x.name(), "\", which is ", extent, DescribeInputs({x})));
}

}  // namespace

Tensor Slice(Tensor x, absl::string_view dim, int64_t begin, int64_t size,
             std::source_location location) {
  if (!x.valid()) return {};
  const absl::Status status = Check(x, dim, begin, size);
  if (!status.ok()) {
    return x.graph().Fail(status, "slice", location,
                          x.shape().Resized(dim, size), x.dtype());
  }
  return x.graph().Add(
      std::make_unique<SliceOp>(x, std::string(dim), begin, size), location);
}

}  // namespace mtf
