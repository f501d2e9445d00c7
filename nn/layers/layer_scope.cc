// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/layer_scope.h"

namespace mtf::nn {

LayerScope::LayerScope(Graph& graph, absl::string_view name,
                       std::source_location location)
    : call_site_(graph, location), scope_(graph, name, Scope::kUnique) {}

}  // namespace mtf::nn
