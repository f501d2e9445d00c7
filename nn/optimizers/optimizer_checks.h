// SPDX-License-Identifier: Apache-2.0
//
// Checks of what an optimizer is given. Not for users.
#ifndef NN_OPTIMIZERS_OPTIMIZER_CHECKS_H_
#define NN_OPTIMIZERS_OPTIMIZER_CHECKS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "mtf/graph.h"
#include "mtf/tensor.h"
#include "nn/optimizers/optimizer.h"

namespace mtf::nn::internal {

// Checks that each non-empty gradient belongs to a float variable of its shape
// and that no variable occurs twice.
absl::Status CheckGradients(const Graph& graph,
                            const std::vector<Tensor>& gradients,
                            const std::vector<Tensor>& variables);

// Checks the options that all optimizers have, except for names.
absl::Status CheckOptions(const OptimizerOptions& options);

// Checks that each pattern and each dimension of the options, and `only` if it
// is not empty, occurs in one of `variables`.
absl::Status CheckNames(const OptimizerOptions& options,
                        const std::vector<Tensor>& variables,
                        absl::string_view only = "");

// The error about `what`, which should be a function.
absl::Status MissingRule(absl::string_view what);

// Checks that the result of a learning rate schedule is an f32 scalar.
absl::Status CheckRate(Tensor rate);

// Checks that `value`, the result of an update rule, can be assigned to the
// parameter of `update`.
absl::Status CheckResult(const ParameterUpdate& update, Tensor value);

}  // namespace mtf::nn::internal

#endif  // NN_OPTIMIZERS_OPTIMIZER_CHECKS_H_
