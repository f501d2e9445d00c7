// SPDX-License-Identifier: Apache-2.0
#include "mtf/print_graph.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtf {
namespace {

// "f32[batch:8, length:4]".
std::string TypeText(const Tensor& tensor) {
  const auto print = [](std::string* out, const Dimension& dim) {
    absl::StrAppend(out, dim.name, ":", dim.size);
  };
  return absl::StrCat(DTypeName(tensor.dtype()), "[",
                      absl::StrJoin(tensor.shape(), ", ", print), "]");
}

}  // namespace

std::string PrintGraph(const Graph& graph) {
  std::string text;
  for (const auto& operation : graph.operations()) {
    for (int i = 0; i < operation->num_results(); ++i) {
      const Tensor result = operation->result(i);
      absl::StrAppend(&text, i == 0 ? "" : ", ", "%", result.name(), " : ",
                      TypeText(result));
    }
    absl::StrAppend(&text, " = ", operation->kind());
    if (!operation->inputs().empty()) {
      absl::StrAppend(&text, "(",
                      absl::StrJoin(operation->inputs(), ", ",
                                    [](std::string* out, const Tensor& input) {
                                      absl::StrAppend(out, "%", input.name());
                                    }),
                      ")");
    }
    const std::string attributes = operation->attributes();
    if (!attributes.empty()) absl::StrAppend(&text, " ", attributes);
    text += "\n";
  }
  return text;
}

}  // namespace mtf
