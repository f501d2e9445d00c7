// SPDX-License-Identifier: Apache-2.0
//
// Gradients added up over several steps. Not for users, who set the option
// `accumulate_steps` of an optimizer.
#ifndef NN_OPTIMIZERS_ACCUMULATE_H_
#define NN_OPTIMIZERS_ACCUMULATE_H_

#include <cstdint>
#include <vector>

#include "mtf/tensor.h"

namespace mtf::nn::internal {

struct Accumulated {
  // Means of the gradients since the last update, f32. Empty if that of the
  // variable is.
  std::vector<Tensor> gradients;
  Tensor commit;  // scalar bool: whether this step is one that updates
  std::vector<Tensor> assignments;
};

// Adds the gradients of `steps` successive steps, in the f32 state
// "<variable>/gradient_sum" of the current scope; "accumulated" counts them. A
// step for which the scalar bool `finite` is false adds nothing; empty: all
// steps do.
Accumulated Accumulate(int64_t steps, const std::vector<Tensor>& gradients,
                       const std::vector<Tensor>& variables, Tensor finite);

}  // namespace mtf::nn::internal

#endif  // NN_OPTIMIZERS_ACCUMULATE_H_
