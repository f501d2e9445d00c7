// SPDX-License-Identifier: Apache-2.0
//
// The loops of kernels that every device has.
#ifndef BACKENDS_INDEX_SPACE_H_
#define BACKENDS_INDEX_SPACE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "backends/backend.h"

namespace mtf {

// A dimension of the index space that a kernel runs over.
struct SpaceDimension {
  std::string name;
  int64_t extent = 1;
  int64_t offset = 0;  // global index of the first element, for iotas
};

// The dimensions of `value`, without the last ones if `rank` is smaller.
std::vector<SpaceDimension> SpaceOf(const BoundValue& value);
std::vector<SpaceDimension> SpaceOf(const BoundValue& value, int rank);

// The dimensions that the reduction `reduce` iterates over.
std::vector<SpaceDimension> IterationOf(const Binding& reduce);

// The dimensions of all values, those of earlier values first.
std::vector<SpaceDimension> UnionOf(
    std::initializer_list<const BoundValue*> values);

// An order of an index space in which a reduction reads memory sequentially:
// that of the largest operand.
struct MemoryOrder {
  std::vector<SpaceDimension> space;
  // From this dimension on all are kept, or have one element.
  size_t first_inner = 0;
};
MemoryOrder OrderByMemory(absl::Span<const BoundValue> operands,
                          absl::Span<const SpaceDimension> space,
                          const Shape& kept);

}  // namespace mtf

#endif  // BACKENDS_INDEX_SPACE_H_
