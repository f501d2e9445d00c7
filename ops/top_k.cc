// SPDX-License-Identifier: Apache-2.0
#include "ops/top_k.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "ops/checks.h"
#include "ops/gather.h"
#include "ops/reshape.h"

namespace mtf {
namespace {

class TopKOp : public Operation {
 public:
  TopKOp(Tensor x, std::string dim, Dimension k)
      : Operation({x}, x.shape().Without(dim).With(k), kInt32),
        dim_(std::move(dim)),
        k_(std::move(k)) {}
  absl::string_view kind() const override { return "top_k"; }
  std::string attributes() const override { return dim_; }
  // The indices are piecewise constant. The values are a gather, which has a
  // gradient.
  std::vector<Tensor> Gradient(absl::Span<const Tensor>) const override {
    return {{}};
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.TopK(inputs[0], dim_, k_);
  }

 private:
  const std::string dim_;
  const Dimension k_;
};

absl::Status Check(Tensor x, absl::string_view dim, const Dimension& k) {
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, dim));
  const std::string k_name = absl::CHexEscape(k.name);
  if (x.shape().Contains(k.name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", x.name(), "\" already has a dimension \"", k_name,
                     "\", the name of k", DescribeInputs({x}),
                     "\n  help     give k another name"));
  }
  MTF_RETURN_IF_ERROR(internal::CheckNumber(x, "top_k"));
  if (k.size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("k is \"", k_name, "\" of size ", k.size,
                     ", which must be at least 1", DescribeInputs({x})));
  }
  const int64_t size = x.shape().SizeOf(dim);
  if (k.size > size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "k is \"", k_name, "\" of size ", k.size, ", but dimension \"", dim,
        "\" of \"", x.name(), "\" has ", size, DescribeInputs({x})));
  }
  if (size > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dimension \"", dim, "\" of \"", x.name(), "\" has ", size,
        " elements, more than the ", std::numeric_limits<int32_t>::max(),
        " that an i32 can index", DescribeInputs({x})));
  }
  return x.shape().Without(dim).With(k).Validate();
}

// The indices of the greatest elements.
Tensor GreatestIndices(Tensor x, absl::string_view dim, const Dimension& k,
                       std::source_location location) {
  const absl::Status status = Check(x, dim, k);
  if (!status.ok()) {
    return x.graph().Fail(status, "top_k", location,
                          x.shape().Without(dim).With(k), kInt32);
  }
  return x.graph().Add(std::make_unique<TopKOp>(x, std::string(dim), k),
                       location);
}

}  // namespace

TopKResult TopK(Tensor x, absl::string_view dim, Dimension k,
                std::source_location location) {
  if (!x.valid()) return {};
  const Tensor indices = GreatestIndices(x, dim, k, location);
  // After an error, return tensors of the intended shapes.
  if (!x.graph().status().ok()) {
    return {x.graph().Fail(x.graph().status(), "top_k", location,
                           indices.shape(), x.dtype()),
            indices};
  }
  return {Gather(x, indices, dim, location), indices};
}

Tensor ArgMax(Tensor x, absl::string_view dim, std::source_location location) {
  if (!x.valid()) return {};
  std::string first = "first";
  while (x.shape().Contains(first)) first += "_";
  const Tensor indices = GreatestIndices(x, dim, {first, 1}, location);
  return Reshape(indices, indices.shape().Without(first), location);
}

}  // namespace mtf
