// SPDX-License-Identifier: Apache-2.0
//
// The narrow waist: the instructions in which every operation is written.
// Operations talk to an Emitter and know nothing behind it. Two stand behind
// it: lowering's recorder, which writes the SPMD program, and the oracle,
// which computes each call at once in double precision on whole tensors.
//
// All shapes are global. Values meet by name; an argument's dimension order is
// free. The checked factories in ops/ have already verified names, sizes and
// dtypes, so implementations may check them as invariants.
#ifndef MTF_EMITTER_H_
#define MTF_EMITTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "mtf/dtype.h"
#include "mtf/map_expression.h"
#include "mtf/shape.h"

namespace mtf {

struct VariableInfo;

// A value of the program under emission. Only its emitter can read it.
struct Value {
  int id = -1;
  friend bool operator==(const Value&, const Value&) = default;
};

enum class ReduceKind : uint8_t { kSum, kMax, kMin };

enum class RandomKind : uint8_t {
  kUniform,  // [0, 1): the top 24 bits of a word times 2^-24, in float32
  kNormal,   // Box-Muller of two words
};

class Emitter {
 public:
  virtual ~Emitter() = default;

  // What a step is fed under `name`.
  virtual Value Input(const std::string& name, DType dtype,
                      const Shape& shape) = 0;

  // The value a variable has when the step begins.
  virtual Value ReadVariable(const VariableInfo& variable) = 0;
  // Gives the variable a value when the step ends; returns that value.
  virtual Value WriteVariable(const VariableInfo& variable, Value value) = 0;

  // Row-major `data` of `shape`, one double per element (exact for every dtype
  // up to 2^53).
  virtual Value Constant(std::vector<double> data, DType dtype,
                         const Shape& shape) = 0;

  // Philox4x32-10 numbers: key (seed of the run, `stream`), counter the global
  // row-major index of the element in `shape` and the number of the step.
  // `per_step` false leaves the step out: the same numbers in every step.
  virtual Value Random(RandomKind kind, uint32_t stream, bool per_step,
                       DType dtype, const Shape& shape) = 0;

  // An elementwise function of operands broadcast by name to `shape`, which
  // holds every dimension of every operand; it may hold more.
  virtual Value Map(const MapExpression& expression,
                    absl::Span<const Value> operands, const Shape& shape) = 0;

  // Multiplies the operands and sums over every dimension that `shape` lacks.
  // The result is of `dtype`: that of the operands, or f32 of 16-bit floats,
  // whose sum is then not rounded.
  virtual Value Einsum(absl::Span<const Value> operands, const Shape& shape,
                       DType dtype) = 0;

  // Reduces over every dimension of `value` that `shape` lacks.
  virtual Value Reduce(ReduceKind kind, Value value, const Shape& shape) = 0;

  // The same elements in row-major order under other dimensions: renames,
  // merges and splits. `shape` has as many elements as `value`.
  virtual Value Reshape(Value value, const Shape& shape) = 0;

  // Elements [begin, begin + size) along `dimension`.
  virtual Value Slice(Value value, const std::string& dimension, int64_t begin,
                      int64_t size) = 0;

  // `before` and `after` new elements equal to `fill` around `dimension`.
  virtual Value Pad(Value value, const std::string& dimension, int64_t before,
                    int64_t after, double fill) = 0;

  // The values one behind the other along `dimension`.
  virtual Value Concat(absl::Span<const Value> values,
                       const std::string& dimension) = 0;

  // result[indices' dims..., table's other dims...] = table[.. indices ..]
  // along `dimension` of `table`. Dimensions shared by both are matched. An
  // index outside [0, size of dimension) ends the step with kOutOfRange.
  virtual Value Gather(Value table, Value indices, const std::string& dimension,
                       const Shape& shape) = 0;

  // The transpose of Gather: adds each update to row `indices` of a tensor of
  // zeros of `shape`, in a fixed order. Dimensions of `indices` that `shape`
  // lacks are summed over.
  virtual Value ScatterAdd(Value updates, Value indices,
                           const std::string& dimension,
                           const Shape& shape) = 0;

  // At each place along `dimension`, the elements up to it reduced; without its
  // own if `exclusive`, which starts at the identity of `kind`; from the last
  // place down if `reverse`. Sums of 16-bit floats are taken in f32.
  virtual Value Scan(ReduceKind kind, Value value, const std::string& dimension,
                     bool exclusive, bool reverse) = 0;

  // The places along `dimension` of its k.size greatest elements, the greatest
  // first, equal ones in order; a NaN is above all numbers and equal to another
  // NaN. i32 of the other dimensions of `value`, then `k`.
  virtual Value TopK(Value value, const std::string& dimension,
                     const Dimension& k) = 0;

  // The same value with `dimensions` whole on every device: what an operation
  // asks for when it cannot work on shards.
  virtual Value Unshard(Value value,
                        absl::Span<const std::string> dimensions) = 0;
};

}  // namespace mtf

#endif  // MTF_EMITTER_H_
