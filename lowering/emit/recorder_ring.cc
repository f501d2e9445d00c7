// SPDX-License-Identifier: Apache-2.0
//
// Recorder: attention whose keys are sharded over the axes that shard its
// queries ("ring attention", Liu et al. 2023). Each rank keeps its queries, and
// keys and values go round: in step s a rank attends to the keys of the rank s
// positions before it, while those of the next step are on their way.
//
//   %k.1 = collective_permute(%k) shift 1 over{model}, %v.1 likewise
//   %o, %l = attention(%q, %k, %v) ring 0
//   %o.1, %l.1 = attention(%q, %k.1, %v.1, %o, %l) ring 1 continues
//
// In the backward pass the gradients of keys and values go round with them, and
// home at the end.
//
// Under causality the last queries see the most keys. So that all ranks have
// equal work, rows are put into stripes first: rank r of n has rows r, r + n,
// r + 2 n... ("striped attention", Brandon et al. 2023). docs/design/0016
// states what that costs.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/emit/recorder.h"

namespace mtf {
// One attention, or the gradient of one.
class Recorder::Ring {
 public:
  Ring(Recorder& recorder, const AttentionSpec& spec,
       const AttentionOperands<Value>& operands)
      : recorder_(recorder),
        spec_(spec),
        axes_(recorder.AxesOf(spec.length)),
        ranks_(recorder.binding_.mesh.SizeOf(axes_)) {
    attributes_.spec = spec;
    attributes_.SetGiven(operands);
    attributes_.ring = true;
    ChooseSteps(operands);
    operands_ = {Demand(operands.q),          Demand(operands.k),
                 Demand(operands.v),          Demand(operands.mask),
                 Demand(operands.bias),       Demand(operands.offset),
                 Demand(operands.extra_logit)};
  }

  AttentionResults<Value> EmitAttention(const Shape& output,
                                        const Shape& rows) {
    const DType dtype = at(operands_.v).dtype;
    AttentionResults<Value> results;
    for (int64_t step = 0; step < steps_; ++step) {
      const AttentionOperands<Value> next = OperandsAfter(step);
      Instruction attention = MakeStep(Opcode::kAttention, step);
      attention.Get<AttentionAttributes>().continues = step > 0;
      if (step > 0) {
        attention.operands.push_back(results.output.id);
        attention.operands.push_back(results.logsumexp.id);
      }
      // Sums are rounded to 16 bits once.
      const bool is_last = step + 1 == steps_;
      results.output = recorder_.Append(
          std::move(attention), is_last ? dtype : DType{kFloat32}, output,
          TensorLayout(recorder_.RuleLayout(output)));
      results.logsumexp = AddResult(kFloat32, rows, recorder_.RuleLayout(rows));
      operands_ = next;
    }
    return {OutOfStripes(results.output), OutOfStripes(results.logsumexp)};
  }

  AttentionGradients<Value> EmitGradient(
      const AttentionResults<Value>& results,
      const AttentionResults<Value>& gradients, bool of_bias,
      bool of_extra_logit) {
    attributes_.logsumexp_gradient = gradients.logsumexp.valid();
    attributes_.bias_gradient = of_bias;
    const Value further[] = {Demand(results.output), Demand(results.logsumexp),
                             Demand(gradients.output),
                             Demand(gradients.logsumexp)};
    AttentionGradients<Value> sums;
    for (int64_t step = 0; step < steps_; ++step) {
      const AttentionOperands<Value> next = OperandsAfter(step);
      // The sums of earlier steps move on while this step computes.
      for (Value* sum : {&sums.k, &sums.v, &sums.bias}) {
        if (sum->valid()) *sum = Shift(*sum, 1);
      }
      Instruction gradient = MakeStep(Opcode::kAttentionGradient, step);
      gradient.Get<AttentionAttributes>().extra_logit_gradient =
          of_extra_logit && step == 0;
      for (Value value : further) {
        if (value.valid()) gradient.operands.push_back(value.id);
      }
      gradient.Get<AttentionAttributes>().continues = step > 0;
      if (step > 0) gradient.operands.push_back(sums.q.id);
      recorder_.program_.instructions.push_back(std::move(gradient));
      sums.q = AddGradient(operands_.q);
      // As the output, the sum over keys is rounded once.
      if (step + 1 < steps_) {
        recorder_.program_.values[sums.q.id].dtype = kFloat32;
      }
      AttentionGradients<Value> of;
      of.k = AddGradient(operands_.k);
      of.v = AddGradient(operands_.v);
      if (of_bias) of.bias = AddGradient(operands_.bias);
      if (of_extra_logit && step == 0) {
        sums.extra_logit = AddGradient(operands_.extra_logit);
      }
      for (const auto& [sum, term] :
           {std::pair(&sums.k, of.k), std::pair(&sums.v, of.v),
            std::pair(&sums.bias, of.bias)}) {
        if (term.valid()) *sum = sum->valid() ? Add(*sum, term) : term;
      }
      operands_ = next;
    }
    for (Value* sum : {&sums.k, &sums.v, &sums.bias}) {
      if (sum->valid() && steps_ > 1) *sum = Shift(*sum, ranks_ - steps_ + 1);
    }
    for (Value* sum :
         {&sums.q, &sums.k, &sums.v, &sums.bias, &sums.extra_logit}) {
      *sum = OutOfStripes(*sum);
    }
    return sums;
  }

 private:
  using Stripes = CollectiveAttributes::Stripes;
  static constexpr absl::string_view kShifted = ".shifted";

  const ProgramValue& at(Value value) const { return recorder_.at(value); }

  void ChooseSteps(const AttentionOperands<Value>& operands) {
    steps_ = ranks_;
    const Shape &q = at(operands.q).shape, &k = at(operands.k).shape;
    const Dimension length = q[q.Find(spec_.length)];
    const Dimension memory = k[k.Find(spec_.memory_length)];
    TensorLayout layout;
    layout.dims.push_back(axes_);
    const Grains& grains = recorder_.binding_.grains;
    const int64_t shard = LocalExtent(grains, {length}, layout, 0);
    if (!spec_.causal || attributes_.offset || length.size != memory.size ||
        LocalExtent(grains, {memory}, layout, 0) != shard) {
      return;
    }
    if (spec_.window == 0) {
      attributes_.striped = ranks_ > 1 && shard % ranks_ == 0;
      return;
    }
    // The keys of step s are at least (s - 1) * shard + 1 positions before the
    // queries of a rank; more than window - 1 positions back, none is seen.
    while (steps_ > 1 && (steps_ - 2) * shard + 1 >= spec_.window) --steps_;
  }

  // The dimension of `value` whose rows the ring orders, or "".
  std::string RowsOf(Value value) const {
    for (const std::string& name : {spec_.memory_length, spec_.length}) {
      if (at(value).shape.Contains(name)) return name;
    }
    return "";
  }
  bool Travels(Value value) const {
    return value.valid() && at(value).shape.Contains(spec_.memory_length);
  }

  // Appends a collective that moves elements within the dimension RowsOf.
  Value Reorder(Value value, absl::string_view suffix, int64_t shift,
                Stripes stripes) {
    const ProgramValue from = at(value);  // Append may reallocate
    const std::string rows = RowsOf(value);
    const bool is_shift = stripes == Stripes::kNone;
    CollectiveAttributes attributes;
    attributes.axes = axes_;
    attributes.shift = shift;
    attributes.stripes = stripes;
    if (!is_shift) attributes.dim = from.shape.Find(rows);
    Instruction reorder(
        is_shift ? Opcode::kCollectivePermute : Opcode::kAllToAll, attributes);
    for (int axis : axes_) {
      Cause cause{axis, rows, -1};
      cause.rule = recorder_.FindRule(cause);
      reorder.causes.push_back(std::move(cause));
    }
    reorder.operands = {value.id};
    recorder_.program_.instructions.push_back(std::move(reorder));
    // Named after the operand as it was before its first shift.
    const absl::string_view base = from.name;
    const std::string name =
        absl::StrCat(base.substr(0, base.find(kShifted)), suffix);
    const Value result = recorder_.AddFirstResult(
        from.dtype, from.shape, TensorLayout(from.layout), name);
    recorder_.program_.values[result.id].causes = from.causes;
    return result;
  }
  Value Shift(Value value, int64_t positions) {
    if (!Travels(value)) return value;
    return Reorder(value, kShifted, positions, Stripes::kNone);
  }
  Value IntoStripes(Value value) {
    if (!attributes_.striped || RowsOf(value).empty()) return value;
    const auto known = recorder_.striped_.find({value.id, RowsOf(value)});
    if (known != recorder_.striped_.end()) return {known->second};
    const Value striped = Reorder(value, ".striped", 0, Stripes::kForm);
    recorder_.striped_[{value.id, RowsOf(value)}] = striped.id;
    return striped;
  }
  Value OutOfStripes(Value value) {
    if (!attributes_.striped || !value.valid() || RowsOf(value).empty()) {
      return value;
    }
    const Value rows = Reorder(value, "", 0, Stripes::kDissolve);
    recorder_.striped_[{rows.id, RowsOf(rows)}] = value.id;
    return rows;
  }

  // The operand in the layout of the rules and in the order of the ring.
  Value Demand(Value operand) {
    if (!operand.valid()) return {};
    return IntoStripes({recorder_.DemandRules(operand)});
  }

  // The operands of the step after `step`.
  AttentionOperands<Value> OperandsAfter(int64_t step) {
    AttentionOperands<Value> next = operands_;
    if (step + 1 == steps_) return next;
    for (Value* operand : {&next.k, &next.v, &next.mask, &next.bias}) {
      *operand = Shift(*operand, 1);
    }
    return next;
  }

  // An instruction with the operands of attention. The extra logit takes part
  // in one step only.
  Instruction MakeStep(Opcode opcode, int64_t step) const {
    AttentionAttributes attributes = attributes_;
    attributes.shift = step;
    attributes.extra_logit = attributes.extra_logit && step == 0;
    Instruction instruction(opcode, std::move(attributes));
    for (Value operand : {operands_.q, operands_.k, operands_.v, operands_.mask,
                          operands_.bias, operands_.offset}) {
      if (operand.valid()) instruction.operands.push_back(operand.id);
    }
    if (operands_.extra_logit.valid() && step == 0) {
      instruction.operands.push_back(operands_.extra_logit.id);
    }
    return instruction;
  }

  // A further result of the last instruction.
  Value AddResult(DType dtype, const Shape& shape, const TensorLayout& layout) {
    const Value result = recorder_.AddResult(
        static_cast<int>(recorder_.program_.instructions.size()) - 1, dtype,
        shape);
    recorder_.program_.values[result.id].layout = layout;
    return result;
  }

  // A result of the last instruction for the gradient of `operand`. What
  // travels is summed over all queries on its way.
  Value AddGradient(Value operand) {
    const Shape q = at(operands_.q).shape;
    Shape summed = q.Without(spec_.d_kv);
    if (Travels(operand)) summed = summed.Without(spec_.length);
    return recorder_.AddAttentionGradient(operand, summed,
                                          recorder_.RuleLayout(summed));
  }

  // A map keeps the order of the ring and leaves sums unreduced.
  Value Add(Value sum, Value term) {
    const ProgramValue like = at(sum);
    Instruction map(Opcode::kMap, MapAttributes{MapExpression::Single(
                                      ScalarFunction::kAdd, like.dtype, 2)});
    map.operands = {sum.id, term.id};
    const Value result = recorder_.Append(
        std::move(map), like.dtype, like.shape, TensorLayout(like.layout));
    recorder_.program_.values[result.id].causes = like.causes;
    return result;
  }

  Recorder& recorder_;
  const AttentionSpec& spec_;
  const AxisList axes_;
  const int64_t ranks_;
  int64_t steps_ = 1;
  AttentionAttributes attributes_;
  AttentionOperands<Value> operands_;  // of the next step
};

bool Recorder::IsRing(const AttentionSpec& spec) const {
  const AxisList& memory = AxesOf(spec.memory_length);
  return !memory.empty() && memory == AxesOf(spec.length);
}

AttentionResults<Value> Recorder::RingAttention(
    const AttentionSpec& spec, const AttentionOperands<Value>& operands,
    const Shape& output, const Shape& rows) {
  return Ring(*this, spec, operands).EmitAttention(output, rows);
}

AttentionGradients<Value> Recorder::RingAttentionGradient(
    const AttentionSpec& spec, const AttentionOperands<Value>& operands,
    const AttentionResults<Value>& results,
    const AttentionResults<Value>& gradients, bool of_bias,
    bool of_extra_logit) {
  return Ring(*this, spec, operands)
      .EmitGradient(results, gradients, of_bias, of_extra_logit);
}

}  // namespace mtf
