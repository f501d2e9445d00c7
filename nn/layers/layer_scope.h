// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_LAYER_SCOPE_H_
#define NN_LAYERS_LAYER_SCOPE_H_

#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/graph.h"

namespace mtf::nn {

// While alive, attributes new operations to a layer: their names begin with
// "<name>/", and their call site, which errors and explanations show, is
// `location`. The second layer of the same name in a scope is called
// "<name>_1", so that no two layers share a parameter.
//
//   Tensor Twice(Tensor x, std::source_location location =
//                              std::source_location::current()) {
//     nn::LayerScope layer(x.graph(), "twice", location);
//     return x + x;  // "twice/add", at the line of the caller
//   }
//
// Within another layer the call site of the outer one wins. Records
// kInvalidArgument in the graph for a name that Scope rejects.
class LayerScope {
 public:
  LayerScope(Graph& graph, absl::string_view name,
             std::source_location location);

 private:
  CallSiteScope call_site_;
  Scope scope_;
};

}  // namespace mtf::nn

#endif  // NN_LAYERS_LAYER_SCOPE_H_
