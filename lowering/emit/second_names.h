// SPDX-License-Identifier: Apache-2.0
//
// Second names of dimensions (SecondName of ops/reshape.h). If a layout has no
// rule for a second name, programs use the first name in its place, and the
// renaming emits no instruction.
#ifndef LOWERING_EMIT_SECOND_NAMES_H_
#define LOWERING_EMIT_SECOND_NAMES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lowering/program/program.h"
#include "lowering/program/shape_cache.h"
#include "mtf/emitter.h"
#include "mtf/graph.h"

namespace mtf {

using NamePairs = std::vector<std::pair<std::string, std::string>>;

// The pairs {second, first} of `graph`, in the order of its operations. Without
// second names that some operation has together with the first name, or with
// another name of the same dimension: they cannot be replaced.
NamePairs SecondNamesOf(const Graph& graph);

// By second name, the name that replaces it: a first name that is not replaced
// itself. `ruled` states for each element of `second_names` whether the second
// name has rules of its own; such a name is not replaced.
absl::flat_hash_map<std::string, std::string> FirstNames(
    const NamePairs& second_names, const std::vector<bool>& ruled);

// Forwards to `emitter`, which writes `program`, with second names replaced by
// first names. Inputs, variables and fetched values keep their names, which the
// caller sees.
class FirstNamesEmitter : public Emitter {
 public:
  FirstNamesEmitter(
      const absl::flat_hash_map<std::string, std::string>& first_names,
      Emitter& emitter, const Program& program)
      : first_names_(first_names), emitter_(emitter), program_(program) {}

  // `value` with the dimension names of `shape`, the shape in the graph.
  Value InNamesOf(Value value, const Shape& shape);

  Value Input(const std::string& name, DType dtype,
              const Shape& shape) override;
  Value ReadVariable(const VariableInfo& variable) override;
  Value WriteVariable(const VariableInfo& variable, Value value) override;
  Value Constant(std::vector<double> data, DType dtype,
                 const Shape& shape) override;
  Value Random(RandomKind kind, uint32_t stream, bool per_step, DType dtype,
               const Shape& shape) override;
  Value Map(const MapExpression& expression, absl::Span<const Value> operands,
            const Shape& shape) override;
  Value Einsum(absl::Span<const Value> operands, const Shape& shape,
               DType dtype) override;
  Value Reduce(ReduceKind kind, Value value, const Shape& shape) override;
  absl::Status CheckAttention(
      const AttentionSignature& attention) const override;
  AttentionResults<Value> Attention(const AttentionSpec& spec,
                                    const AttentionOperands<Value>& operands,
                                    const Shape& output) override;
  AttentionGradients<Value> AttentionGradient(
      const AttentionSpec& spec, const AttentionOperands<Value>& operands,
      const AttentionResults<Value>& results,
      const AttentionResults<Value>& gradients) override;
  Value Reshape(Value value, const Shape& shape) override;
  Value Slice(Value value, const std::string& dimension, int64_t begin,
              int64_t size) override;
  Value Pad(Value value, const std::string& dimension, int64_t before,
            int64_t after, double fill) override;
  Value Concat(absl::Span<const Value> values,
               const std::string& dimension) override;
  Value Gather(Value table, Value indices, const std::string& dimension,
               const Shape& shape) override;
  Value ScatterAdd(Value updates, Value indices, const std::string& dimension,
                   const Shape& shape) override;
  Value Scan(ReduceKind kind, Value value, const std::string& dimension,
             bool exclusive, bool reverse) override;
  Value TopK(Value value, const std::string& dimension,
             const Dimension& k) override;
  Value Unshard(Value value, absl::Span<const std::string> dimensions) override;

 private:
  const std::string& First(const std::string& name) const;
  AttentionSpec First(AttentionSpec spec) const;
  // `shape` with first names.
  const Shape& First(const Shape& shape) const;

  const absl::flat_hash_map<std::string, std::string>& first_names_;
  Emitter& emitter_;
  const Program& program_;
  mutable internal::ShapeCache<Shape> renamed_;
};

}  // namespace mtf

#endif  // LOWERING_EMIT_SECOND_NAMES_H_
