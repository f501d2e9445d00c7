// SPDX-License-Identifier: Apache-2.0
#include "ops/scan.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/graph.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/one_hot.h"
#include "ops/reshape.h"

namespace mtf {
namespace {

absl::string_view KindName(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return "cumulative_sum";
    case ReduceKind::kMax:
      return "cumulative_max";
    case ReduceKind::kMin:
      return "cumulative_min";
  }
  return "";
}

Tensor Scan(ReduceKind kind, Tensor x, absl::string_view dim,
            ScanOptions options, std::source_location location);

class ScanOp : public Operation {
 public:
  ScanOp(ReduceKind scan_kind, Tensor x, std::string dim, ScanOptions options)
      : Operation({x}, x.shape(), x.dtype()),
        scan_kind_(scan_kind),
        dim_(std::move(dim)),
        options_(options) {}
  absl::string_view kind() const override { return KindName(scan_kind_); }
  std::string attributes() const override {
    return absl::StrCat(dim_, options_.exclusive ? " exclusive" : "",
                        options_.reverse ? " reverse" : "");
  }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    const Tensor dy = of_results[0];
    if (scan_kind_ != ReduceKind::kSum) return {ExtremeGradient(dy)};
    ScanOptions back = options_;
    back.reverse = !back.reverse;
    return {CumulativeSum(dy, dim_, back)};
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.Scan(scan_kind_, inputs[0], dim_, options_.exclusive,
                        options_.reverse);
  }

 private:
  // Each gradient goes to the position of the last record (an element beyond
  // all elements before it), which is the cumulative maximum over the positions
  // of records.
  Tensor ExtremeGradient(Tensor dy) const {
    const Tensor x = input(0);
    const Dimension dim{dim_, shape().SizeOf(dim_)};
    const DType index =
        dim.size <= std::numeric_limits<int32_t>::max() ? kInt32 : kInt64;
    const Tensor position = Range(graph(), dim, index);
    const double last = static_cast<double>(dim.size) - 1;
    // The number of elements before each in the direction of the scan.
    const Tensor order = options_.reverse ? last - position : position;
    ScanOptions before = options_;
    before.exclusive = true;
    const Tensor so_far =
        Scan(scan_kind_, x, dim_, before, std::source_location::current());
    const Tensor beats =
        scan_kind_ == ReduceKind::kMax ? Greater(x, so_far) : Less(x, so_far);
    const Tensor first_nan = LogicalAnd(NotEqual(x, x), Equal(so_far, so_far));
    const Tensor record =
        LogicalOr(Equal(order, 0.0), LogicalOr(beats, first_nan));
    const Tensor found =
        CumulativeMax(Select(record, order, -1.0), dim_, options_);
    // The first element of an exclusive scan has no record before it.
    const Tensor any = GreaterEqual(found, 0.0);
    const Tensor order_found = Select(any, found, 0.0);
    const Tensor from = options_.reverse ? last - order_found : order_found;
    const Tensor gradient = Select(any, dy, 0.0);
    std::string other = absl::StrCat(dim_, "_to");
    while (shape().Contains(other)) other += "_";
    return ScatterAdd(Rename(gradient, dim_, other), Rename(from, dim_, other),
                      dim_, shape());
  }

  const ReduceKind scan_kind_;
  const std::string dim_;
  const ScanOptions options_;
};

Tensor Scan(ReduceKind kind, Tensor x, absl::string_view dim,
            ScanOptions options, std::source_location location) {
  if (!x.valid()) return {};
  absl::Status status = internal::CheckHasDimension(x, dim);
  if (status.ok()) status = internal::CheckNumber(x, KindName(kind));
  if (!status.ok()) {
    return x.graph().Fail(status, KindName(kind), location, x.shape(),
                          x.dtype());
  }
  return x.graph().Add(
      std::make_unique<ScanOp>(kind, x, std::string(dim), options), location);
}

}  // namespace

Tensor CumulativeSum(Tensor x, absl::string_view dim, ScanOptions options,
                     std::source_location location) {
  return Scan(ReduceKind::kSum, x, dim, options, location);
}

Tensor CumulativeMax(Tensor x, absl::string_view dim, ScanOptions options,
                     std::source_location location) {
  return Scan(ReduceKind::kMax, x, dim, options, location);
}

Tensor CumulativeMin(Tensor x, absl::string_view dim, ScanOptions options,
                     std::source_location location) {
  return Scan(ReduceKind::kMin, x, dim, options, location);
}

}  // namespace mtf
