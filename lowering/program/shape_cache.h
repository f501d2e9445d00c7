// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_SHAPE_CACHE_H_
#define LOWERING_PROGRAM_SHAPE_CACHE_H_

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "mtf/dimension.h"
#include "mtf/shape.h"

namespace mtf::internal {

// Caches a result per shape. Copies of a shape share their dimensions, and most
// shapes of a program are copies, so one pointer lookup replaces a lookup of
// every name.
template <class Result>
class ShapeCache {
 public:
  ShapeCache() = default;
  ShapeCache(const ShapeCache&) = delete;
  ShapeCache& operator=(const ShapeCache&) = delete;

  // `make(shape)`, or its cached result. Valid until the next call.
  template <class Make>
  const Result& Get(const Shape& shape, const Make& make) {
    // Most operations have the shape of the previous one.
    if (&shape.dims() == last_) return *last_result_;
    const auto [known, is_new] = known_.try_emplace(&shape.dims());
    if (is_new) known->second = {shape, make(shape)};
    last_ = known->first;
    last_result_ = &known->second.second;
    return *last_result_;
  }

 private:
  // Holds the shape, so that its address is not reused.
  absl::flat_hash_map<const std::vector<Dimension>*, std::pair<Shape, Result>>
      known_;
  const std::vector<Dimension>* last_ = nullptr;
  const Result* last_result_ = nullptr;
};

}  // namespace mtf::internal

#endif  // LOWERING_PROGRAM_SHAPE_CACHE_H_
