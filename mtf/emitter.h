// SPDX-License-Identifier: Apache-2.0
//
// The interface between operations and lowering: the instructions in which
// every operation is written. Operation::Emit calls an Emitter and knows
// nothing else about execution. There are two implementations: the recorder in
// lowering/emit, which writes the SPMD program, and the oracle in
// backends/reference, which evaluates each call immediately in double precision
// on unsharded tensors.
//
//   // Emit() of the operation that Einsum() creates:
//   return emitter.Einsum(inputs, shape(), dtype());
//
// All shapes are global (unsharded). Dimensions are matched by name, so the
// order of dimensions in an operand does not matter. The factories in ops/ have
// already checked names, sizes and dtypes; an Emitter may treat a violation as
// a broken invariant. Errors that depend on data, such as an index out of
// range, are errors of the step, not of emission.
#ifndef MTF_EMITTER_H_
#define MTF_EMITTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "mtf/attention.h"
#include "mtf/dtype.h"
#include "mtf/map_expression.h"
#include "mtf/shape.h"
#include "mtf/window_spec.h"

namespace mtf {

struct VariableInfo;

// A handle to a value of the program being emitted. Only the emitter that
// returned it can interpret it.
struct Value {
  int id = -1;  // -1: none
  bool valid() const { return id >= 0; }
  friend bool operator==(const Value&, const Value&) = default;
};

enum class ReduceKind : uint8_t { kSum, kMax, kMin };

// The elements that Emitter::TopK finds, and their indices.
struct RankedValues {
  Value values, indices;
};

enum class RandomKind : uint8_t {
  kUniform,  // in [0, 1): the top 24 bits of one word times 2^-24, in f32
  kNormal,   // mean 0, variance 1: Box-Muller on two words
};

class Emitter {
 public:
  virtual ~Emitter() = default;

  // Sources.

  // The tensor that each step is fed under `name`.
  virtual Value Input(const std::string& name, DType dtype,
                      const Shape& shape) = 0;

  // The value of `variable` at the beginning of the step.
  virtual Value ReadVariable(const VariableInfo& variable) = 0;

  // Sets `variable` to `value` at the end of the step, and returns `value`.
  virtual Value WriteVariable(const VariableInfo& variable, Value value) = 0;

  // A constant with the row-major elements `data`. A double represents the
  // elements of every dtype exactly up to 2^53.
  virtual Value Constant(std::vector<double> data, DType dtype,
                         const Shape& shape) = 0;

  // Random numbers by Philox4x32-10 (mtf/philox.h). The key is (seed of the
  // run, `stream`); the counter is the global row-major index of the element in
  // `shape` and the step number. Without `per_step` the step number is 0, so
  // every step draws the same numbers.
  virtual Value Random(RandomKind kind, uint32_t stream, bool per_step,
                       DType dtype, const Shape& shape) = 0;

  // Arithmetic.

  // Applies an elementwise function to operands that are broadcast by name to
  // `shape`. `shape` has every dimension of every operand and may have more.
  virtual Value Map(const MapExpression& expression,
                    absl::Span<const Value> operands, const Shape& shape) = 0;

  // Multiplies the operands and sums over every dimension that `shape` lacks.
  // `dtype` is the dtype of the operands, or kFloat32 for operands of 16-bit
  // floats: then the sums are not rounded to 16 bits.
  virtual Value Einsum(absl::Span<const Value> operands, const Shape& shape,
                       DType dtype) = 0;

  // Reduces over every dimension of `value` that `shape` lacks.
  virtual Value Reduce(ReduceKind kind, Value value, const Shape& shape) = 0;

  // Inclusive prefix reduction along `dimension`: element i of the result is
  // the reduction of elements 0..i. With `exclusive`, of elements 0..i-1, where
  // element 0 is the identity of `kind`. With `reverse`, from the last element
  // to the first. Sums of 16-bit floats accumulate in f32.
  virtual Value Scan(ReduceKind kind, Value value, const std::string& dimension,
                     bool exclusive, bool reverse) = 0;

  // The k.size greatest elements along `dimension` in descending order, or with
  // `least` the least ones in ascending order, and their indices along it, as
  // i32. Of equal elements the lower index comes first. NaN is greater than
  // every number and equal to NaN. The results have the other dimensions of
  // `value`, followed by `k`. Values that nothing reads may be left out.
  virtual RankedValues TopK(Value value, const std::string& dimension,
                            const Dimension& k, bool least) = 0;

  // Attention.

  // OK if Attention or AttentionGradient can be called for `attention`, else why
  // not: the decomposition of the operation is emitted
  // (Operation::CheckEmit).
  virtual absl::Status CheckAttention(
      const AttentionSignature& attention) const = 0;

  // Attention as AttentionSpec defines it, in memory that is linear in the
  // lengths. The output has the shape `output`.
  virtual AttentionResults<Value> Attention(
      const AttentionSpec& spec, const AttentionOperands<Value>& operands,
      const Shape& output) = 0;

  // The gradients of the operands, given the results and their gradients, of
  // which that of the logsumexp may be none. Gradients that nothing reads may
  // be left out, as that of a constant bias.
  virtual AttentionGradients<Value> AttentionGradient(
      const AttentionSpec& spec, const AttentionOperands<Value>& operands,
      const AttentionResults<Value>& results,
      const AttentionResults<Value>& gradients) = 0;

  // Movement.

  // The same elements in row-major order under other dimensions: renames,
  // merges and splits. `shape` has as many elements as `value`.
  virtual Value Reshape(Value value, const Shape& shape) = 0;

  // Elements [begin, begin + size) along `dimension`.
  virtual Value Slice(Value value, const std::string& dimension, int64_t begin,
                      int64_t size) = 0;

  // Adds `before` and `after` elements equal to `fill` at the ends of
  // `dimension`.
  virtual Value Pad(Value value, const std::string& dimension, int64_t before,
                    int64_t after, double fill) = 0;

  // Concatenates the values along `dimension`.
  virtual Value Concat(absl::Span<const Value> values,
                       const std::string& dimension) = 0;

  // Element i along `dimension` is element i - offset of `value`: 0 where
  // `value` has none, or with `wrap` the one at that index modulo the size.
  virtual Value Shift(Value value, const std::string& dimension, int64_t offset,
                      bool wrap) = 0;

  // The windows of `value` along a dimension. The result has spec.window as its
  // last dimension.
  virtual Value Windows(Value value, const WindowSpec& spec) = 0;

  // The transpose of Windows: adds the elements of windows back into a
  // dimension of `size`, in a fixed order. `windows` has both dimensions of
  // `spec`, in any order; the result lacks spec.window.
  virtual Value FoldWindows(Value windows, const WindowSpec& spec,
                            int64_t size) = 0;

  // Selects rows of `table` along `dimension`:
  //
  //   result[indices' dims..., table's other dims...] =
  //       table[dimension = indices[...], table's other dims...]
  //
  // A dimension of both `indices` and `table` is matched. An index outside
  // [0, size of dimension) ends the step with kOutOfRange.
  virtual Value Gather(Value table, Value indices, const std::string& dimension,
                       const Shape& shape) = 0;

  // The transpose of Gather: adds each update to row `indices` of a zero tensor
  // of `shape`, in a fixed order. Dimensions of `indices` that `shape` lacks
  // are summed over. Indices out of range are errors as in Gather.
  virtual Value ScatterAdd(Value updates, Value indices,
                           const std::string& dimension,
                           const Shape& shape) = 0;

  // Rows [index, index + rows) of `value` along `dimension`, with an index for
  // each element of `index`, whose dimensions `value` has. `shape` is that of
  // `value` with the rows in the place of `dimension`: under its name, under a
  // name that `value` lacks, or, for one row, without a dimension. Rows outside
  // [0, size of dimension) end the step with kOutOfRange.
  virtual Value DynamicSlice(Value value, Value index,
                             const std::string& dimension,
                             const Shape& shape) = 0;

  // `value` with the same rows replaced by `update`, which has the shape of the
  // result of such a DynamicSlice.
  virtual Value UpdateSlice(Value value, Value update, Value index,
                            const std::string& dimension) = 0;

  // Order.

  // `value`, for readers that run after all of `after` are computed.
  virtual Value Depend(Value value, absl::Span<const Value> after) = 0;

  // Layout.

  // The same value, with `dimensions` replicated: every device holds all of
  // their elements. An operation requests this if it cannot work on shards of
  // `dimensions`, as Concat cannot along its dimension.
  virtual Value Unshard(Value value,
                        absl::Span<const std::string> dimensions) = 0;
};

}  // namespace mtf

#endif  // MTF_EMITTER_H_
