// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_EMIT_RECORDER_H_
#define LOWERING_EMIT_RECORDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lowering/emit/layout_binding.h"
#include "lowering/emit/lookup_layouts.h"
#include "lowering/program/fused_attention.h"
#include "lowering/program/program.h"
#include "lowering/program/shape_cache.h"
#include "mtf/emitter.h"
#include "mtf/graph.h"

namespace mtf {

// The emitter that writes operations as instructions of a program. Each call
// appends an instruction whose operands are in the layout that the rules give
// their dimensions, after reshards of those that are not (Demand).
class Recorder : public Emitter {
 public:
  // `attention` states for which attentions to write the instructions attention
  // and attention_gradient.
  Recorder(const LayoutBinding& binding, AttentionSupport attention,
           Program& program);

  // The rules that apply to `outer`, an operation of the graph, apply from now
  // on to `operation`: itself, or an operation of its decomposition.
  void UseRulesOf(const Operation& operation, const Operation& outer);
  // UseRulesOf, and the calls that follow are made by `operation`. Of its
  // results, those whose bit in `read_results` is set are read.
  void Begin(const Operation& operation, const Operation& outer,
             uint32_t read_results = ~uint32_t{0});
  // The calls that follow are made for fetches and initial values, not by an
  // operation: the rules of the default section apply.
  void BeginFetch(const Operation& operation);

  // OK, or the first error, which states the user's line.
  const absl::Status& status() const { return status_; }

  // Lists a variable once; returns its index in Program::variables.
  int AddVariable(const VariableInfo& variable);

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
  Value Shift(Value value, const std::string& dimension, int64_t offset,
              bool wrap) override;
  Value Windows(Value value, const WindowSpec& spec) override;
  Value FoldWindows(Value windows, const WindowSpec& spec,
                    int64_t size) override;
  Value Gather(Value table, Value indices, const std::string& dimension,
               const Shape& shape) override;
  Value ScatterAdd(Value updates, Value indices, const std::string& dimension,
                   const Shape& shape) override;
  Value DynamicSlice(Value value, Value index, const std::string& dimension,
                     const Shape& shape) override;
  Value UpdateSlice(Value value, Value update, Value index,
                    const std::string& dimension) override;
  Value Scan(ReduceKind kind, Value value, const std::string& dimension,
             bool exclusive, bool reverse) override;
  RankedValues TopK(Value value, const std::string& dimension,
                    const Dimension& k, bool least) override;
  Value Depend(Value value, absl::Span<const Value> after) override;
  Value Unshard(Value value, absl::Span<const std::string> dimensions) override;

  // Returns a value to the caller of the step: replicated, or as each rank's
  // shard.
  void Output(Value value, const std::string& name, bool as_shards);

 private:
  class Ring;      // recorder_ring.cc
  class RowMover;  // recorder_rows.cc

  const ProgramValue& at(Value value) const {
    return program_.values[value.id];
  }
  // Sets yielding_ and conflict_ for an operation with this conflict, or null.
  void UseConflict(const AxisConflict* conflict);
  // The axes over which the rules shard a dimension for the current operation.
  const AxisList& AxesOf(const std::string& dimension) const;
  // The layout that the rules give `shape` in the current operation.
  const TensorLayout& RuleLayout(const Shape& shape);
  // The layout in which the rules store a variable.
  TensorLayout StoredLayout(const VariableInfo& variable);
  // The user's name for input `i` of the current operation. The name of a value
  // would depend on its layout, and errors must not.
  std::string InputName(size_t i, Value value) const;
  // The help line of an error of CheckUnion about two dimensions of `shapes`.
  std::string WaysOut(absl::Span<const Shape* const> shapes,
                      const Dimension& first, const Dimension& second) const;
  // Records an error and returns false if the rules shard two dimensions of
  // `shapes` over one mesh axis.
  bool CheckUnion(absl::Span<const Shape* const> shapes);
  // `value` in layout `target`: itself, or a reshard of it.
  int Demand(int value, const TensorLayout& target);
  int DemandRules(Value value) {
    return Demand(value.id, RuleLayout(at(value).shape));
  }
  // `value`, in the layout that the rules here give it if it comes from a
  // module with other rules, or from an operation with another conflict. For
  // instructions that otherwise keep the layout of their operand: its other
  // readers in this module read it in that layout too.
  Value InThisModule(Value value) {
    const int origin = origin_of_value_[value.id];
    return module_of_origin_[origin] == module_ &&
                   conflict_of_origin_[origin] == conflict_
               ? value
               : Value{DemandRules(value)};
  }
  // Appends an instruction with one result of the given type.
  Value Append(Instruction&& instruction, DType dtype, const Shape& shape,
               TensorLayout layout) {
    program_.instructions.push_back(std::move(instruction));
    return AddFirstResult(dtype, shape, std::move(layout));
  }
  // Adds the first result of the last instruction, named after the operation.
  Value AddFirstResult(DType dtype, const Shape& shape, TensorLayout layout) {
    return AddFirstResult(dtype, shape, std::move(layout), name_);
  }
  Value AddFirstResult(DType dtype, const Shape& shape, TensorLayout layout,
                       absl::string_view name);
  // Appends the operands of an attention, each in the layout of the rules.
  void DemandAttentionOperands(const AttentionOperands<Value>& operands,
                               Instruction& instruction);
  // Adds a result of the last instruction for the gradient of `operand`: a sum
  // over the dimensions of `summed` that the operand lacks.
  Value AddAttentionGradient(Value operand, const Shape& summed,
                             const TensorLayout& summed_layout);
  // Whether the rules shard keys over the axes that shard queries. Then the two
  // functions below write the attention and its gradient, as a ring.
  bool IsRing(const AttentionSpec& spec) const;
  AttentionResults<Value> RingAttention(
      const AttentionSpec& spec, const AttentionOperands<Value>& operands,
      const Shape& output, const Shape& rows);
  AttentionGradients<Value> RingAttentionGradient(
      const AttentionSpec& spec, const AttentionOperands<Value>& operands,
      const AttentionResults<Value>& results,
      const AttentionResults<Value>& gradients, bool of_bias,
      bool of_extra_logit);
  // Places the rows of `values` along a dimension of `size`: row t of values[k]
  // at offsets[k] + t, `fill` elsewhere. The result has `layout`, which shards
  // the dimension. Returns an invalid value, and appends nothing, if no value
  // is sharded along the dimension, or if gathering them sends no more.
  Value PlaceRows(absl::Span<const Value> values,
                  const std::vector<int64_t>& offsets,
                  const std::string& dimension, int64_t size, double fill,
                  bool wrap, const TensorLayout& layout);
  Value AppendWindows(Value line, WindowAttributes attributes, int64_t count,
                      const Dimension& window);
  Value AppendFold(Value windows, WindowAttributes attributes,
                   const Dimension& line);
  // A name for the rows of several ranks, over the axes that shard them, that
  // `shape` and the rules do not use.
  std::string HaloName(const AxisList& axes, const Shape& shape) const;
  // Adds a further result to an instruction, in the layout of its first.
  Value AddResult(int instruction, DType dtype, const Shape& shape);
  // The bytes that Demand would add.
  int64_t DemandBytes(Value value, const TensorLayout& target) const;
  // Records an error and returns false if the table or the rows of a lookup
  // cannot have the layout of the rules.
  bool CheckLookup(const LookupShapes& shapes);
  // The layouts of a lookup, or of its transpose if it `adds_rows`, that send
  // the fewest bytes. `operand` is the table, or the rows to add.
  LookupLayouts ChooseLookup(const LookupShapes& shapes, Value operand,
                             Value indices, bool adds_rows);
  // Appends a lookup that sums over the dimensions of `operand` that are not
  // `kept`. Returns its result in the layout of the rules, perhaps unreduced.
  Value AppendLookup(Instruction&& instruction, DType dtype,
                     const Shape& operand, const TensorLayout& operand_layout,
                     const Shape& kept, const Shape& shape,
                     TensorLayout layout);
  // The index of `rows` rows of `value` along `dimension`, in the layout of
  // `value`, whose dimensions it has, and checked. Checks are shared.
  Value CheckedIndex(Value value, Value index, const std::string& dimension,
                     int64_t rows);
  // Marks the axes that shard dimensions of `operand` that are not `kept` as
  // unreduced in `layout`, and adds their causes.
  void LeaveUnreduced(const Shape& operand, const TensorLayout& operand_layout,
                      const Shape& kept, ReduceKind kind, TensorLayout& layout,
                      absl::InlinedVector<Cause, 1>& causes);
  // The index in Program::rules of the rule behind a cause, or -1. The cause is
  // a reshard of a value that was computed in `module`.
  int FindRule(const Cause& cause, int module);
  int FindRule(const Cause& cause) { return FindRule(cause, module_); }
  // The dimensions of `product` that `shape` or an operand from `next` on
  // contains.
  Shape KeptBy(absl::Span<const Value> operands, size_t next,
               const Shape& product, const Shape& shape) const;
  Value BinaryEinsum(Value x, Value y, const Shape& shape, DType dtype);
  Value CastTo(DType dtype, Value value);

  const LayoutBinding& binding_;
  const AttentionSupport attention_;
  Program& program_;
  absl::Status status_;
  const Operation* operation_ = nullptr;  // the current one
  uint32_t read_results_ = 0;             // of the current operation, by result
  absl::string_view name_;                // of the current operation
  int origin_ = -1;                       // its index in Program::origins
  RuleSection section_ = RuleSection::kDefault;
  int module_ = 0;                     // of the scope of the current operation
  absl::string_view scope_name_;       // of the current operation
  std::vector<int> module_of_origin_;  // by index in Program::origins
  // A dimension that yields axes to others in the current operation
  // (AxisConflict), with the axes that it keeps.
  struct YieldingDimension {
    std::string name;
    AxisList axes;
  };
  std::vector<YieldingDimension> yielding_;
  int conflict_ = 0;  // the number of what yielding_ holds; 0 if it is empty
  std::map<std::string, int> conflicts_;  // by content: their numbers
  std::vector<int> conflict_of_origin_;   // by index in Program::origins
  // By id of a variable: its index in Program::variables.
  absl::flat_hash_map<int, int> variables_;
  // By value: its reshards so far. All readers of one layout share a reshard.
  std::vector<absl::InlinedVector<int, 1>> reshards_;
  // By value that is a slice of the result of a reshape: that result. Other
  // reshards start from it, because the slice sends nothing.
  absl::flat_hash_map<int, int> gathered_;
  // By id of a variable: the index in Program::origins of the operation that
  // writes it.
  absl::flat_hash_map<int, int> writes_;
  std::vector<int> origin_of_value_;  // by value: index in Program::origins
  // By value and dimension: the value with the rows of it in stripes.
  absl::flat_hash_map<std::pair<int, std::string>, int> striped_;
  // By index, rows, and the dimension and its size: the checked index.
  absl::flat_hash_map<std::tuple<int, int64_t, std::string, int64_t>, int>
      checked_;
  using LayoutCache = internal::ShapeCache<TensorLayout>;
  // By section_, module_ and conflict_.
  std::map<std::tuple<RuleSection, int, int>, LayoutCache> rule_layouts_;
  LayoutCache* current_layouts_ = nullptr;  // of the current operation
};

}  // namespace mtf

#endif  // LOWERING_EMIT_RECORDER_H_
