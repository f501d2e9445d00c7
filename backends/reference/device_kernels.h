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

// The code of a kernel. Each Make... function below captures copies of what it
// needs from the binding.
using Body = std::function<void(StepContext&)>;

using Coordinates = std::vector<int64_t>;

// Calls `body` with every coordinate below `extents`, the last one fastest.
void ForEach(const std::vector<int64_t>& extents,
             const std::function<void(const Coordinates&)>& body);

// A rank's shard of a value or of an iteration space, with named dimensions.
struct Frame {
  Shape shape;  // global
  std::vector<ShardedDimension> dims;

  explicit Frame(const BoundValue& value)
      : shape(value.value->shape), dims(value.dims) {}
  Frame(Shape global, std::vector<ShardedDimension> local)
      : shape(std::move(global)), dims(std::move(local)) {}

  std::vector<int64_t> Extents() const;
  bool IsValid(const Coordinates& at) const;
  // Row-major offset in local memory.
  int64_t Offset(const Coordinates& at) const;
  // Row-major index in the global tensor.
  int64_t GlobalIndex(const Coordinates& at) const;
  // Converts coordinates `at` in `other` to coordinates in this frame; 0 in
  // dimensions that `other` lacks.
  Coordinates From(const Frame& other, const Coordinates& at) const;
};

// Where the elements of a value are, for coordinates of another frame: finds
// the dimensions by name once, not for each element.
class Projection {
 public:
  Projection() = default;
  Projection(const Frame& value, const Frame& space);

  // The offset of the element of the value that has the coordinates `at` of
  // the space; 0 in dimensions that the space lacks.
  int64_t Offset(const Coordinates& at) const;

 private:
  struct Stride {
    int dim = 0;  // of the space
    int64_t elements = 0;
  };
  std::vector<Stride> strides_;
};

// Holds an element of any dtype exactly: an int64 has more digits than a
// double. Arithmetic on floats is in double precision nevertheless.
using Number = long double;
static_assert(std::numeric_limits<Number>::digits >= 63);

// The index of dimension `name` in the shape of a value, which must have it.
int FindDim(const BoundValue& value, const std::string& name);

Number Load(const BoundValue& value, int64_t offset);
// As StoreElement() of mtf/host_tensor.h: rounds a float and clamps an integer
// to its range.
void Store(const BoundValue& value, int64_t offset, Number x);

// The value of a step with arguments `x`, in the dtype of the step: a float is
// rounded, an integer wraps around. `operands` is the dtype of the arguments,
// `index` the global index along the dimension of an iota.
Number EvaluateStep(const MapStep& step, DType operands, const Number (&x)[3],
                    int64_t index);
// Sums and products of one dtype; integers wrap around.
Number Sum(DType dtype, Number x, Number y);
Number Product(DType dtype, Number x, Number y);
// The initial value of a reduction, and one step of it; NaN propagates.
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
Body MakeRows(const Binding& binding);
Body MakeWindows(const Binding& binding);
Body MakeFoldWindows(const Binding& binding);
Body MakeGather(const Binding& binding);
Body MakeScatterAdd(const Binding& binding);
Body MakeCheckIndex(const Binding& binding);
Body MakeDynamicSlice(const Binding& binding);
Body MakeUpdateSlice(const Binding& binding);
Body MakeScan(const Binding& binding);
Body MakeReduceBlocks(const Binding& binding);
Body MakeTopK(const Binding& binding);
Body MakeAttention(const Binding& binding);
Body MakeAttentionGradient(const Binding& binding);
Body MakeMask(const Binding& binding);
Body MakeAllSlice(const Binding& binding);

}  // namespace mtf::reference

#endif  // BACKENDS_REFERENCE_DEVICE_KERNELS_H_
