// SPDX-License-Identifier: Apache-2.0
#include "ops/observe.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "ops/checks.h"
#include "ops/slice.h"
#include "ops/stop_gradient.h"

namespace mtf {
namespace {

// The part of `x` that begins with its first `count` elements: of the major
// dimensions index 0, of one dimension as many elements as needed, and the
// others complete.
Tensor FirstElements(Tensor x, int64_t count, std::source_location location) {
  const Shape shape = x.shape();
  int64_t minor = shape.num_elements();
  if (minor == 0) return x;
  count = std::min(count, minor);
  for (const Dimension& dim : shape) {
    minor /= dim.size;
    const int64_t rows = std::min(dim.size, (count + minor - 1) / minor);
    if (rows < dim.size) x = Slice(x, dim.name, 0, rows, location);
    if (rows != 1) break;
  }
  return x;
}

}  // namespace

Tensor Print(Tensor x, absl::string_view message, int64_t first_n,
             std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  if (first_n < 0) {
    graph.Fail(absl::InvalidArgumentError(absl::StrCat("first_n is ", first_n,
                                                       ", which is negative",
                                                       DescribeInputs({x}))),
               "print", location);
    return x;
  }
  // An operation of its own: `x` may be fetched as shards.
  const Tensor first =
      StopGradient(FirstElements(x, first_n, location), location);
  graph.AddObservation({.kind = Observation::Kind::kPrint,
                        .of = x,
                        .shown = first,
                        .text = std::string(message),
                        .count = first_n},
                       location);
  return x;
}

Tensor ScalarSummary(absl::string_view name, Tensor x,
                     std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  absl::Status status = internal::CheckName(name);
  if (status.ok()) status = internal::CheckNumber(x, "scalar_summary");
  if (status.ok() && x.shape().rank() > 0) {
    status = absl::InvalidArgumentError(absl::StrCat(
        "summary \"", name, "\" is not a scalar", DescribeInputs({x}),
        "\n  help     reduce it first, as with ReduceMean(x, {})"));
  }
  if (!status.ok()) {
    graph.Fail(status, "scalar_summary", location);
    return x;
  }
  graph.AddObservation({.kind = Observation::Kind::kSummary,
                        .of = x,
                        .shown = x,
                        .text = std::string(name)},
                       location);
  return x;
}

}  // namespace mtf
