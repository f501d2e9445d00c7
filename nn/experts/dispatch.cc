// SPDX-License-Identifier: Apache-2.0
#include "nn/experts/dispatch.h"

#include "nn/layers/layer.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/one_hot.h"

namespace mtf::nn::internal {
namespace {

// A one-hot product has 2 * slots operations per element of a token, where
// moving its rows by index is a few copies of it.
constexpr int64_t kMostSlotsOfOneHot = 16;

bool IsSorted(const ExpertDimensions& dims, Dispatch dispatch) {
  if (dispatch != Dispatch::kAutomatic) return dispatch == Dispatch::kSorted;
  return dims.experts.size * dims.capacity.size > kMostSlotsOfOneHot;
}

// For an empty slot the first token: its result has the weight 0.
Tensor SomeToken(Tensor source) { return Maximum(source, 0.0); }

}  // namespace

Dispatcher::Dispatcher(const ExpertDimensions& dims, const Routes& routes,
                       Dispatch dispatch)
    : dims_(dims), routes_(routes), sorted_(IsSorted(dims, dispatch)) {}

Tensor Dispatcher::ToSlots(Tensor x) const {
  if (sorted_) {
    return Gather(x, SomeToken(routes_.source), dims_.tokens.name);
  }
  return Einsum({OneHotOfSlots(x.dtype()), x},
                routes_.source.shape().With(dims_.d_model));
}

Tensor Dispatcher::ToTokens(Tensor y, const Shape& x) const {
  Shape shape = x.Without(dims_.d_model.name);
  for (const Dimension& dim : y.shape()) {
    if (!routes_.source.shape().Contains(dim.name)) shape = shape.With(dim);
  }
  y = y * To(y.dtype(), routes_.weight);
  if (sorted_) {
    return ScatterAdd(y, SomeToken(routes_.source), dims_.tokens.name, shape);
  }
  return Einsum({OneHotOfSlots(y.dtype()), y}, shape);
}

Tensor Dispatcher::OneHotOfSlots(DType dtype) const {
  return OneHot(routes_.source, dims_.tokens, dtype);
}

}  // namespace mtf::nn::internal
