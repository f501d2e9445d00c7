// SPDX-License-Identifier: Apache-2.0
//
// The router of a mixture of experts. Not for users.
#ifndef NN_EXPERTS_ROUTER_H_
#define NN_EXPERTS_ROUTER_H_

#include <cstdint>

#include "mtf/dimension.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "nn/experts/experts.h"

namespace mtf::nn::internal {

// The dimensions of a layer. `x` has [each..., groups..., tokens, d_model] in
// any order.
struct ExpertDimensions {
  Shape each;  // a router and experts of their own for each element
  Shape groups;
  Dimension tokens, d_model, experts, capacity;
};

// Which token occupies each slot.
struct Routes {
  // [each..., experts, groups..., capacity]: the index of the token, i32, or -1
  // if the slot is empty; and the weight of the expert for it, f32.
  Tensor source, weight;
  // The same shape, i32: 0 where the slot has the first choice of its token, or
  // one of a routing without an order of choices.
  Tensor choice;
  Tensor load_balancing_loss, z_loss, dropped, load;
};

// Chooses the tokens of each slot. Creates the parameter "router". The options
// have been checked.
//
// Within the router the dimension of the experts is called "router_<name>",
// which layouts do not shard: ranking the experts of a token would gather them.
Routes RouteTokens(Tensor x, const ExpertDimensions& dims,
                   const ExpertsOptions& options);

}  // namespace mtf::nn::internal

#endif  // NN_EXPERTS_ROUTER_H_
