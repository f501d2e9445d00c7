// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_REFERENCE_DEVICE_KERNELS_H_
#define BACKENDS_REFERENCE_DEVICE_KERNELS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/backend.h"

namespace mtf::reference {

// What a kernel does in a step. Each maker below captures copies of what it
// needs from the binding.
using Body = std::function<void(StepContext&)>;

using Coordinates = std::vector<int64_t>;

// Calls `body` with every coordinate below `extents`, the last one fastest.
void ForEach(const std::vector<int64_t>& extents,
             const std::function<void(const Coordinates&)>& body);

// The part of a value or of an iteration that a rank holds, by name.
struct Frame {
  Shape shape;  // global
  std::vector<ShardedDimension> dims;

  explicit Frame(const BoundValue& value)
      : shape(value.value->shape), dims(value.dims) {}
  Frame(Shape global, std::vector<ShardedDimension> local)
      : shape(std::move(global)), dims(std::move(local)) {}

  std::vector<int64_t> Extents() const;
  bool IsValid(const Coordinates& at) const;
  // Row-major place in local memory.
  int64_t Place(const Coordinates& at) const;
  // The coordinates here of what has coordinates `at` in `other`; 0 in
  // dimensions that `other` lacks.
  Coordinates From(const Frame& other, const Coordinates& at) const;
};

// Holds an element of any dtype exactly: an int64 has more digits than a
// double. Floats are computed with in double precision all the same.
using Number = long double;
static_assert(std::numeric_limits<Number>::digits >= 63);

Number Load(const BoundValue& value, int64_t place);
// As StoreElement() of mtf/host_tensor.h: rounds a float, and holds an integer
// within its range.
void Store(const BoundValue& value, int64_t place, Number x);

// The value of a step over `x`, of the dtype of the step: rounded as memory
// rounds a float, wrapped around as an integer. `operands` is the dtype of what
// the function works on, `index` the place along the dimension of an iota.
Number EvaluateStep(const MapStep& step, DType operands, const Number (&x)[3],
                    int64_t index);
// Sums and products of one dtype; integers wrap around.
Number Sum(DType dtype, Number x, Number y);
Number Product(DType dtype, Number x, Number y);
// What a reduction starts from, and a step of it; a NaN wins.
Number IdentityOf(ReduceKind kind, DType dtype);
Number Combine(ReduceKind kind, DType dtype, Number x, Number y);

Body MakeConstant(const Binding& binding);
Body MakeRandom(const Binding& binding);
Body MakeMap(const Binding& binding);
Body MakeEinsum(const Binding& binding);
Body MakeReduce(const Binding& binding);

Body MakeReshape(const Binding& binding);
Body MakeSlice(const Binding& binding);
Body MakePad(const Binding& binding);
Body MakeConcat(const Binding& binding);
Body MakeGather(const Binding& binding);
Body MakeScatterAdd(const Binding& binding);
Body MakeScan(const Binding& binding);
Body MakeReduceBlocks(const Binding& binding);
Body MakeTopK(const Binding& binding);
Body MakeMask(const Binding& binding);
Body MakeAllSlice(const Binding& binding);

}  // namespace mtf::reference

#endif  // BACKENDS_REFERENCE_DEVICE_KERNELS_H_
