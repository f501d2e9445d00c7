// SPDX-License-Identifier: Apache-2.0
//
// The state of optimizers. Not for users.
#ifndef NN_OPTIMIZERS_STATE_H_
#define NN_OPTIMIZERS_STATE_H_

#include "mtf/graph.h"
#include "mtf/tensor.h"
#include "ops/elementwise.h"
#include "ops/variable.h"

namespace mtf::nn::internal {

inline constexpr VariableOptions kState = {
    .kind = VariableKind::kOptimizerState, .trainable = false};

// Assigns `value` to `variable`, unless `commit` is given and false.
inline Tensor AssignIf(Tensor commit, Tensor variable, Tensor value) {
  if (commit.valid()) value = Select(commit, value, variable);
  return Assign(variable, value);
}

}  // namespace mtf::nn::internal

#endif  // NN_OPTIMIZERS_STATE_H_
