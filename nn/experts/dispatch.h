// SPDX-License-Identifier: Apache-2.0
//
// Moves tokens to the slots of their experts and back. Not for users.
#ifndef NN_EXPERTS_DISPATCH_H_
#define NN_EXPERTS_DISPATCH_H_

#include "mtf/dtype.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "nn/experts/experts.h"
#include "nn/experts/router.h"

namespace mtf::nn::internal {

class Dispatcher {
 public:
  Dispatcher(const ExpertDimensions& dims, const Routes& routes,
             Dispatch dispatch);

  // [each..., groups..., tokens, d_model], in any order, to [each..., experts,
  // groups..., capacity, d_model].
  Tensor ToSlots(Tensor x) const;

  // The sum over the slots of each token, times their weights. `y` has the
  // dimensions of `source`, then any others, which the result has instead of
  // the d_model of `x`.
  Tensor ToTokens(Tensor y, const Shape& x) const;

 private:
  // 1 where a token is in a slot: [each..., experts, groups..., capacity,
  // tokens]. Rows of empty slots are 0.
  Tensor OneHotOfSlots(DType dtype) const;

  const ExpertDimensions& dims_;
  const Routes& routes_;
  const bool sorted_;
};

}  // namespace mtf::nn::internal

#endif  // NN_EXPERTS_DISPATCH_H_
