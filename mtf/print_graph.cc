// SPDX-License-Identifier: Apache-2.0
#include "mtf/print_graph.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtf {

std::string PrintGraph(const Graph& graph) {
  std::string text;
  for (const auto& operation : graph.operations()) {
    absl::StrAppend(&text, "%", operation->name(), " : ",
                    DTypeName(operation->dtype()), "[",
                    absl::StrJoin(operation->shape(), ", ",
                                  [](std::string* out, const Dimension& dim) {
                                    absl::StrAppend(out, dim.name, ":",
                                                    dim.size);
                                  }),
                    "] = ", operation->kind());
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
