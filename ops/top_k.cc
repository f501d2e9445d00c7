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
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/reshape.h"

namespace mtf {
namespace {

// The greatest or least elements, and their indices.
class TopKOp : public Operation {
 public:
  TopKOp(Tensor x, std::string dim, Dimension k, bool least)
      : Operation({x}, {{x.shape().Without(dim).With(k), x.dtype()},
                        {x.shape().Without(dim).With(k), kInt32}}),
        dim_(std::move(dim)),
        k_(std::move(k)),
        least_(least) {}
  absl::string_view kind() const override {
    return least_ ? "bottom_k" : "top_k";
  }
  std::string attributes() const override { return dim_; }
  absl::string_view ResultName(int) const override { return "indices"; }
  // The indices are piecewise constant.
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    if (!of_results[0].valid()) return {{}};
    const Tensor updates = Cast(of_results[0], input(0).gradient_dtype());
    return {ScatterAdd(updates, result(1), dim_, input(0).shape())};
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    const RankedValues ranked = emitter.TopK(inputs[0], dim_, k_, least_);
    return {ranked.values, ranked.indices};
  }

 private:
  const std::string dim_;
  const Dimension k_;
  const bool least_;
};

absl::Status Check(Tensor x, absl::string_view dim, const Dimension& k,
                   absl::string_view what) {
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, dim));
  const std::string k_name = absl::CHexEscape(k.name);
  if (x.shape().Contains(k.name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", x.name(), "\" already has a dimension \"", k_name,
                     "\", the name of k", DescribeInputs({x}),
                     "\n  help     give k another name"));
  }
  MTF_RETURN_IF_ERROR(internal::CheckNumber(x, what));
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

TopKResult Rank(Tensor x, absl::string_view dim, const Dimension& k, bool least,
                std::source_location location) {
  if (!x.valid()) return {};
  const absl::string_view what = least ? "bottom_k" : "top_k";
  const absl::Status status = Check(x, dim, k, what);
  if (!status.ok()) {
    const Shape shape = x.shape().Without(dim).With(k);
    return {x.graph().Fail(status, what, location, shape, x.dtype()),
            x.graph().Fail(status, what, location, shape, kInt32)};
  }
  const Tensor values = x.graph().Add(
      std::make_unique<TopKOp>(x, std::string(dim), k, least), location);
  return {values, values.operation()->result(1)};
}

// The index of the first element in the order of a ranking.
Tensor First(Tensor x, absl::string_view dim, bool least,
             std::source_location location) {
  if (!x.valid()) return {};
  std::string first = "first";
  while (x.shape().Contains(first)) first += "_";
  const Tensor indices = Rank(x, dim, {first, 1}, least, location).indices;
  return Reshape(indices, indices.shape().Without(first), location);
}

}  // namespace

TopKResult TopK(Tensor x, absl::string_view dim, Dimension k,
                std::source_location location) {
  return Rank(x, dim, k, /*least=*/false, location);
}

TopKResult BottomK(Tensor x, absl::string_view dim, Dimension k,
                   std::source_location location) {
  return Rank(x, dim, k, /*least=*/true, location);
}

Tensor ArgMax(Tensor x, absl::string_view dim, std::source_location location) {
  return First(x, dim, /*least=*/false, location);
}

Tensor ArgMin(Tensor x, absl::string_view dim, std::source_location location) {
  return First(x, dim, /*least=*/true, location);
}

}  // namespace mtf
