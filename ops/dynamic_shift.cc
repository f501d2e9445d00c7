// SPDX-License-Identifier: Apache-2.0
#include "ops/dynamic_shift.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "ops/checks.h"
#include "ops/concat.h"
#include "ops/dynamic_slice.h"
#include "ops/elementwise.h"
#include "ops/pad.h"

namespace mtf {
namespace {

absl::Status Check(const Graph& graph, Tensor x, absl::string_view dim,
                   Tensor offset) {
  const Tensor inputs[] = {x, offset};
  MTF_RETURN_IF_ERROR(internal::CheckInputs(graph, inputs));
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, dim));
  MTF_RETURN_IF_ERROR(internal::CheckIndexDType(offset, inputs));
  for (const Dimension& each : offset.shape()) {
    if (each.name != dim && x.shape().Contains(each.name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the offset \"", offset.name(), "\" has the dimension \"", each.name,
        each.name == dim ? "\" that it shifts"
                         : absl::StrCat("\", which \"", x.name(), "\" lacks"),
        DescribeInputs(inputs),
        "\n  help     an offset is a scalar, or has some of the other "
        "dimensions of the tensor"));
  }
  return internal::CheckSizes(inputs);
}

}  // namespace

// A slice of two copies of `x`, one after the other, or of `x` between zeros.
Tensor DynamicShift(Tensor x, absl::string_view dim, Tensor offset, bool wrap,
                    std::source_location location) {
  Graph* graph = internal::GraphOf({x, offset});
  if (graph == nullptr) return {};
  const absl::Status status = Check(*graph, x, dim, offset);
  if (!status.ok()) {
    return graph->Fail(status, "dynamic_shift", location, x.shape(), x.dtype());
  }
  const int64_t size = x.shape().SizeOf(dim);
  if (size == 0) return x;
  CallSiteScope site(*graph, location);
  if (size > std::numeric_limits<int32_t>::max() / 3) {
    offset = Cast(offset, kInt64);
  }
  const double n = static_cast<double>(size);
  if (wrap) {
    return DynamicSlice(Concat({x, x}, dim), dim, n - Mod(offset, n), size);
  }
  return DynamicSlice(Pad(x, dim, size, size), dim,
                      n - Minimum(Maximum(offset, -n), n), size);
}

}  // namespace mtf
