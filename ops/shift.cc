// SPDX-License-Identifier: Apache-2.0
#include "ops/shift.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/graph.h"
#include "ops/checks.h"

namespace mtf {
namespace {

class ShiftOp : public Operation {
 public:
  ShiftOp(Tensor x, std::string dim, int64_t offset, bool wrap)
      : Operation({x}, x.shape(), x.dtype()),
        dim_(std::move(dim)),
        offset_(offset),
        wrap_(wrap) {}
  absl::string_view kind() const override { return "shift"; }
  std::string attributes() const override {
    return absl::StrCat(dim_, " offset=", offset_, wrap_ ? " wrap" : "");
  }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    const Tensor dy = of_results[0];
    return {Shift(dy, dim_, -offset_, wrap_)};
  }

  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    const int64_t size = shape().SizeOf(dim_);
    if (offset_ == 0) {
      return emitter.Map(internal::IdentityMap(dtype()), inputs, shape());
    }
    if (!wrap_ && (offset_ >= size || -offset_ >= size)) {
      return emitter.Map(MapExpression::Literal(0, dtype()), {}, shape());
    }
    return emitter.Shift(inputs[0], dim_, offset_, wrap_);
  }

 private:
  const std::string dim_;
  const int64_t offset_;
  const bool wrap_;
};

}  // namespace

Tensor Shift(Tensor x, absl::string_view dim, int64_t offset, bool wrap,
             std::source_location location) {
  if (!x.valid()) return {};
  const absl::Status status = internal::CheckHasDimension(x, dim);
  if (!status.ok()) {
    return x.graph().Fail(status, "shift", location, x.shape(), x.dtype());
  }
  // Reduce the offset to [-size, size], or [0, size) with wrap, so that nothing
  // can overflow. An offset beyond the size shifts out all elements.
  const int64_t size = x.shape().SizeOf(dim);
  if (wrap) {
    offset = size == 0 ? 0 : (offset % size + size) % size;
  } else {
    offset = std::min(std::max(offset, -size), size);
  }
  return x.graph().Add(
      std::make_unique<ShiftOp>(x, std::string(dim), offset, wrap), location);
}

}  // namespace mtf
