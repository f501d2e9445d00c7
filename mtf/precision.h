// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_PRECISION_H_
#define MTF_PRECISION_H_

#include <optional>

#include "absl/status/status.h"
#include "mtf/dtype.h"

namespace mtf {

// The dtypes of a model, said once for all of its layers (PrecisionScope). The
// default is f32 throughout. That of Megatron, 18 bytes for each parameter with
// Adam (2 + 4 of the gradient + 4 of the master copy + 8 of moments):
//
//   PrecisionScope precision(graph, {.parameters = kBFloat16,
//                                    .activations = kBFloat16,
//                                    .gradients = kFloat32});
//
// A norm, a softmax, a loss and the update of an optimizer compute in f32
// whatever is said here.
struct Precision {
  // What the optimizer updates and a checkpoint keeps. Where it differs from
  // `parameters`, the optimizer keeps it as state of its own, and after each
  // update a parameter is its master, rounded.
  DType master = kFloat32;
  // What parameters rest in, are read in and sent in.
  DType parameters = kFloat32;
  // What layers compute in, of which they make their results. Empty: each in
  // the dtype of its input.
  std::optional<DType> activations = std::nullopt;
  // What the gradients of parameters are made in and added up in, over the uses
  // of a parameter and over devices. Empty: the dtype of each use.
  std::optional<DType> gradients = std::nullopt;

  // OK, or kInvalidArgument: for a dtype that is no float, and for a master
  // that does not hold every value of a parameter.
  absl::Status Validate() const;

  friend bool operator==(const Precision&, const Precision&) = default;
};

}  // namespace mtf

#endif  // MTF_PRECISION_H_
