// SPDX-License-Identifier: Apache-2.0
//
// What losses of single elements share. Not for users.
#ifndef NN_LOSSES_ELEMENTWISE_LOSS_H_
#define NN_LOSSES_ELEMENTWISE_LOSS_H_

#include <source_location>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf::nn::internal {

// The options that all of these losses have.
struct ElementwiseLossOptions {
  Tensor weights = Tensor();
  bool per_position = false;
  std::string name = "";
};

// The layer `kind`, such as "mean_squared_error": the weighted mean over all
// elements of loss(x, targets), or the loss of each element. `loss` gets f32
// operands with the same dimensions.
//
// Records kInvalidArgument in the graph if `x` is not a float, the targets have
// other dimensions, the weights have a dimension that `x` lacks, one of `x` and
// targets is empty, or a tensor belongs to another graph. Returns an empty
// Tensor if both are empty.
Tensor ElementwiseLoss(
    absl::string_view kind, Tensor x, Tensor targets,
    const ElementwiseLossOptions& options, std::source_location location,
    absl::FunctionRef<Tensor(Tensor x, Tensor targets)> loss);

}  // namespace mtf::nn::internal

#endif  // NN_LOSSES_ELEMENTWISE_LOSS_H_
