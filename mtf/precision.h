// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_PRECISION_H_
#define MTF_PRECISION_H_

#include <optional>

#include "absl/status/status.h"
#include "mtf/dtype.h"

namespace mtf {

// The dtypes of a model, set once for all of its layers by a PrecisionScope.
// The default is f32 throughout. Megatron's mixed precision, which takes 18
// bytes per parameter with Adam (2 for the parameter, 4 for the gradient, 4 for
// the master copy, 8 for the moments), is
//
//   PrecisionScope precision(graph, {.parameters = kBFloat16,
//                                    .activations = kBFloat16,
//                                    .gradients = kFloat32});
//
// Norms, softmax, losses and optimizer updates compute in f32 regardless.
struct Precision {
  // The dtype that the optimizer updates and a checkpoint stores. If it differs
  // from `parameters`, the optimizer keeps a master copy as part of its state,
  // and each update sets the parameter to the rounded master copy.
  DType master = kFloat32;
  // The dtype in which parameters are stored, read and communicated.
  DType parameters = kFloat32;
  // The dtype of the computation and of the results of layers. Empty: each
  // layer uses the dtype of its input.
  std::optional<DType> activations = std::nullopt;
  // The dtype in which gradients of parameters are computed and accumulated,
  // over the uses of a parameter and over devices. Empty: the dtype of each
  // use.
  std::optional<DType> gradients = std::nullopt;

  // Returns kInvalidArgument if a dtype is not a float, or if `master` cannot
  // represent every value of `parameters`.
  absl::Status Validate() const;

  friend bool operator==(const Precision&, const Precision&) = default;
};

}  // namespace mtf

#endif  // MTF_PRECISION_H_
