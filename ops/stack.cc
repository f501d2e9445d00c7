// SPDX-License-Identifier: Apache-2.0
#include "ops/stack.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "ops/checks.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/reshape.h"

namespace mtf {
namespace {

absl::Status Check(const Graph& graph, const std::vector<Tensor>& xs,
                   absl::string_view dim) {
  MTF_RETURN_IF_ERROR(internal::CheckInputs(graph, xs));
  for (const Tensor& x : xs) {
    if (x.shape().Contains(dim)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", x.name(), "\" already has the dimension \"",
          absl::CHexEscape(dim), "\"", DescribeInputs(xs),
          "\n  help     Concat() joins along a dimension that tensors have"));
    }
    MTF_RETURN_IF_ERROR(internal::CheckSameDimensions(xs[0], x, xs));
  }
  return internal::CheckOneDType(xs);
}

// The dimensions of `shape` after a first one called `dim` of `size`.
Shape Stacked(absl::string_view dim, int64_t size, const Shape& shape) {
  std::vector<Dimension> dims = {{std::string(dim), size}};
  dims.insert(dims.end(), shape.begin(), shape.end());
  return Shape(std::move(dims));
}

}  // namespace

Tensor Stack(std::vector<Tensor> xs, absl::string_view dim,
             std::source_location location) {
  Graph* graph = internal::GraphOf(xs);
  if (graph == nullptr) return {};
  internal::AdoptDType(absl::MakeSpan(xs), location);
  const absl::Status status = Check(*graph, xs, dim);
  if (!status.ok()) {
    return graph->Fail(
        status, "stack", location,
        Stacked(dim, static_cast<int64_t>(xs.size()), xs[0].shape()),
        xs[0].dtype());
  }
  const Shape order = xs[0].shape(), one = Stacked(dim, 1, order);
  for (Tensor& x : xs) {
    x = Reshape(internal::InOrderOf(x, order, location), one, location);
  }
  return Concat(std::move(xs), dim, location);
}

}  // namespace mtf
