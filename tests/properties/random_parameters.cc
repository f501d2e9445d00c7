// SPDX-License-Identifier: Apache-2.0
#include "tests/properties/random_parameters.h"

#include "absl/strings/str_cat.h"
#include "ops/elementwise.h"
#include "ops/variable.h"

namespace mtf::testing {

Tensor NarrowVariable(Graph& graph, const std::string& name, Tensor initial) {
  const Tensor variable = Variable(
      graph, name, initial, {.dtype = kBFloat16, .gradient_dtype = kFloat32});
  Variable(graph, absl::StrCat(name, "/master"), initial,
           {.kind = VariableKind::kOptimizerState,
            .trainable = false,
            .master_of = variable});
  return variable;
}

void Descend(Tensor variable, Tensor gradient, std::vector<Tensor>& updates) {
  Graph& graph = variable.graph();
  const VariableInfo& info = *graph.FindVariable(variable);
  const Tensor master =
      info.master < 0 ? variable : graph.variables()[info.master].read;
  const Tensor value = master - gradient * 0.5;
  if (info.master >= 0) updates.push_back(Assign(master, value));
  updates.push_back(Assign(variable, Cast(value, info.dtype)));
}

}  // namespace mtf::testing
