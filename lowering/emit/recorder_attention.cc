// SPDX-License-Identifier: Apache-2.0
//
// Recorder: attention and its gradient. Batch, heads and the length of the
// queries may be sharded: each device attends from its queries to all keys. If
// rules shard the keys over the axes that shard the queries, it is a ring
// (recorder_ring.cc). If a rule shards another dimension that attention sums
// over, it is composed of einsums, whose sums are then unreduced.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/emit/recorder.h"

namespace mtf {

absl::Status Recorder::CheckAttention(
    const AttentionSignature& attention) const {
  const AttentionSpec& spec = attention.spec;
  if (attention_ == AttentionSupport::kNone) {
    return absl::UnimplementedError("the device has no kernel for attention");
  }
  const bool in_ring = IsRing(spec);
  for (const std::string& name : {spec.memory_length, spec.d_kv, spec.d_v}) {
    const bool goes_round = in_ring && name == spec.memory_length &&
                            attention_ == AttentionSupport::kAll;
    if (AxesOf(name).empty() || goes_round) continue;
    return absl::UnimplementedError(
        absl::StrCat("the layout shards ", name, " over ",
                     binding_.mesh.AxisNames(AxesOf(name)),
                     in_ring && name == spec.memory_length
                         ? absl::StrCat(", as ", spec.length,
                                        ", and fused kernels have no ring")
                         : ""));
  }
  if (attention_ == AttentionSupport::kAll) return absl::OkStatus();
  const Dimension length = attention.q[attention.q.Find(spec.length)];
  const AxisList& axes = AxesOf(length.name);
  if (axes.empty()) return CheckFusedAttention(attention, length.size);
  TensorLayout layout;
  layout.dims.push_back(axes);
  const int64_t shard = LocalExtent(binding_.grains, {length}, layout, 0);
  const bool is_even = shard * binding_.mesh.SizeOf(axes) == length.size;
  if (spec.causal || !is_even) {
    // The kernels count positions from 0 and know no padding.
    return absl::UnimplementedError(
        absl::StrCat("the layout shards ", length.name, " over ",
                     binding_.mesh.AxisNames(axes),
                     is_even ? " in causal attention" : " unevenly",
                     ", which fused kernels do not support"));
  }
  return CheckFusedAttention(attention, shard);
}

void Recorder::DemandAttentionOperands(const AttentionOperands<Value>& operands,
                                       Instruction& instruction) {
  for (Value operand : {operands.q, operands.k, operands.v, operands.mask,
                        operands.bias, operands.offset, operands.extra_logit}) {
    if (operand.valid()) instruction.operands.push_back(DemandRules(operand));
  }
}

AttentionResults<Value> Recorder::Attention(
    const AttentionSpec& spec, const AttentionOperands<Value>& operands,
    const Shape& output) {
  const DType dtype = at(operands.v).dtype;
  const Shape q = at(operands.q).shape, k = at(operands.k).shape;
  const Shape rows =
      q.Without(spec.length).Without(spec.d_kv).With(q[q.Find(spec.length)]);
  AttentionAttributes attributes;
  attributes.spec = spec;
  attributes.SetGiven(operands);
  Instruction attention(Opcode::kAttention, std::move(attributes));
  const bool in_ring = IsRing(spec);
  const Shape keys = in_ring ? k.Without(spec.memory_length) : k;
  const Shape* shapes[] = {&q, &keys};
  if (!CheckUnion(shapes)) {
    const auto nothing = [&](DType type, const Shape& shape) {
      return Append({}, type, shape, TensorLayout::Replicated(shape.rank()));
    };
    const Value none = nothing(dtype, output);
    return {none, nothing(kFloat32, rows)};
  }
  if (in_ring) return RingAttention(spec, operands, output, rows);
  DemandAttentionOperands(operands, attention);
  const Value result = Append(std::move(attention), dtype, output,
                              TensorLayout(RuleLayout(output)));
  const int index = static_cast<int>(program_.instructions.size()) - 1;
  const Value logsumexp = AddResult(index, kFloat32, rows);
  program_.values[logsumexp.id].layout = RuleLayout(rows);
  return {result, logsumexp};
}

Value Recorder::AddAttentionGradient(Value operand, const Shape& summed,
                                     const TensorLayout& summed_layout) {
  const DType dtype = at(operand).dtype;
  const Shape shape = at(operand).shape;
  TensorLayout layout = RuleLayout(shape);
  absl::InlinedVector<Cause, 1> causes;
  LeaveUnreduced(summed, summed_layout, shape, ReduceKind::kSum, layout,
                 causes);
  const int index = static_cast<int>(program_.instructions.size()) - 1;
  const Value result = program_.instructions[index].results.empty()
                           ? AddFirstResult(dtype, shape, layout)
                           : AddResult(index, dtype, shape);
  program_.values[result.id].layout = std::move(layout);
  program_.values[result.id].causes = std::move(causes);
  return result;
}

AttentionGradients<Value> Recorder::AttentionGradient(
    const AttentionSpec& spec, const AttentionOperands<Value>& operands,
    const AttentionResults<Value>& results,
    const AttentionResults<Value>& gradients) {
  const Shape q = at(operands.q).shape, k = at(operands.k).shape;
  const Shape logits = q.Without(spec.length)
                           .Without(spec.d_kv)
                           .With(q[q.Find(spec.length)])
                           .With(k[k.Find(spec.memory_length)]);
  AttentionAttributes attributes;
  attributes.spec = spec;
  attributes.SetGiven(operands);
  attributes.logsumexp_gradient = gradients.logsumexp.valid();
  // Results 0 to 2 are the gradients of q, k and v; those of the bias and the
  // extra logit follow if the operands are given.
  int next = 3;
  const auto is_read = [&](Value operand) {
    return operand.valid() && (read_results_ >> next++ & 1) != 0;
  };
  attributes.bias_gradient = is_read(operands.bias);
  attributes.extra_logit_gradient = is_read(operands.extra_logit);
  const bool of_bias = attributes.bias_gradient;
  const bool of_extra_logit = attributes.extra_logit_gradient;
  if (IsRing(spec)) {
    return RingAttentionGradient(spec, operands, results, gradients, of_bias,
                                 of_extra_logit);
  }
  Instruction gradient(Opcode::kAttentionGradient, std::move(attributes));
  DemandAttentionOperands(operands, gradient);
  for (Value value : {results.output, results.logsumexp, gradients.output,
                      gradients.logsumexp}) {
    if (value.valid()) gradient.operands.push_back(DemandRules(value));
  }
  program_.instructions.push_back(std::move(gradient));
  const TensorLayout layout = RuleLayout(logits);
  const auto add = [&](Value operand) {
    return AddAttentionGradient(operand, logits, layout);
  };
  AttentionGradients<Value> of;
  of.q = add(operands.q);
  of.k = add(operands.k);
  of.v = add(operands.v);
  if (of_bias) of.bias = add(operands.bias);
  if (of_extra_logit) of.extra_logit = add(operands.extra_logit);
  return of;
}

}  // namespace mtf
