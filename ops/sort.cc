// SPDX-License-Identifier: Apache-2.0
#include "ops/sort.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "ops/checks.h"
#include "ops/index.h"
#include "ops/reshape.h"
#include "ops/top_k.h"

namespace mtf {
namespace {

// A name for ranks that `x` does not use.
std::string RankName(Tensor x) {
  std::string name = "rank";
  while (x.shape().Contains(name)) name += "_";
  return name;
}

// Ranks `count` elements along `dim`, in a dimension called RankName(x).
TopKResult Rank(Tensor x, absl::string_view dim, int64_t count, bool greatest,
                std::source_location location) {
  const Dimension rank{RankName(x), count};
  return greatest ? TopK(x, dim, rank, location)
                  : BottomK(x, dim, rank, location);
}

// The values or indices of a ranking of all elements, in the shape of `x`.
Tensor Sorted(Tensor x, absl::string_view dim, bool indices, bool descending,
              absl::string_view what, std::source_location location) {
  if (!x.valid()) return {};
  const absl::Status status = internal::CheckHasDimension(x, dim);
  if (!status.ok()) {
    return x.graph().Fail(status, what, location, x.shape(),
                          indices ? DType{kInt32} : x.dtype());
  }
  const TopKResult ranked =
      Rank(x, dim, x.shape().SizeOf(dim), descending, location);
  const Tensor sorted = Rename(indices ? ranked.indices : ranked.values,
                               RankName(x), dim, location);
  return internal::InOrderOf(sorted, x.shape(), location);
}

Tensor OfRank(Tensor x, absl::string_view dim, int64_t n, bool greatest,
              absl::string_view what, std::source_location location) {
  if (!x.valid()) return {};
  absl::Status status = internal::CheckHasDimension(x, dim);
  if (status.ok()) {
    const int64_t size = x.shape().SizeOf(dim);
    if (n < 0 || n >= size) {
      status = absl::InvalidArgumentError(
          absl::StrCat("rank ", n, " is outside dimension \"", dim, "\" of \"",
                       x.name(), "\", which is ", size, DescribeInputs({x})));
    }
  }
  if (!status.ok()) {
    return x.graph().Fail(status, what, location, x.shape().Without(dim),
                          x.dtype());
  }
  return Index(Rank(x, dim, n + 1, greatest, location).values, RankName(x), n,
               location);
}

}  // namespace

Tensor Sort(Tensor x, absl::string_view dim, SortOptions options,
            std::source_location location) {
  return Sorted(x, dim, /*indices=*/false, options.descending, "sort",
                location);
}

Tensor ArgSort(Tensor x, absl::string_view dim, SortOptions options,
               std::source_location location) {
  return Sorted(x, dim, /*indices=*/true, options.descending, "argsort",
                location);
}

Tensor NthLargest(Tensor x, absl::string_view dim, int64_t n,
                  std::source_location location) {
  return OfRank(x, dim, n, /*greatest=*/true, "nth_largest", location);
}

Tensor NthSmallest(Tensor x, absl::string_view dim, int64_t n,
                   std::source_location location) {
  return OfRank(x, dim, n, /*greatest=*/false, "nth_smallest", location);
}

}  // namespace mtf
