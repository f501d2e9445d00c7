// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/accumulate.h"

#include <cstddef>

#include "mtf/graph.h"
#include "nn/layers/layer.h"
#include "nn/optimizers/state.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/variable.h"

namespace mtf::nn::internal {

Accumulated Accumulate(int64_t steps, const std::vector<Tensor>& gradients,
                       const std::vector<Tensor>& variables, Tensor finite) {
  Graph& graph = variables[0].graph();
  const Tensor count =
      Variable(graph, "accumulated", Zeros(graph, kInt32, {}), kState);
  const Tensor last = Equal(count, static_cast<double>(steps - 1));
  Accumulated result = {
      .gradients = gradients,
      .commit = finite.valid() ? LogicalAnd(finite, last) : last,
      .assignments = {}};
  result.assignments.push_back(
      AssignIf(finite, count, Select(last, Like(count, 0), count + 1.0)));
  for (size_t i = 0; i < variables.size(); ++i) {
    if (!gradients[i].valid()) continue;
    const VariableInfo& info = *graph.FindVariable(variables[i]);
    const RulesScope rules(info.read);
    const Scope scope(graph, info.name);
    const Tensor state = Variable(graph, "gradient_sum",
                                  Zeros(graph, kFloat32, info.shape), kState);
    const Tensor sum = state + To(kFloat32, gradients[i]);
    result.assignments.push_back(
        AssignIf(finite, state, Select(last, 0.0, sum)));
    result.gradients[i] = sum * (1.0 / static_cast<double>(steps));
  }
  return result;
}

}  // namespace mtf::nn::internal
