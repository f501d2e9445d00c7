// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/fusion/matmul_group.h"

#include <vector>

#include "absl/status/status.h"
#include "backends/cuda/fusion/group_dataflow.h"
#include "backends/cuda/matmul/einsum.h"
#include "lowering/fusion/bias_gradients.h"

namespace mtf::cuda {
namespace {

using Epilogue = MatmulProblem::Epilogue;

Epilogue EpilogueOf(const MatmulGroup& group) {
  if (group.gelu_gradient_input >= 0) return Epilogue::kGeluSlope;
  if (group.bias < 0) return group.gelu ? Epilogue::kGelu : Epilogue::kNone;
  return group.gelu ? Epilogue::kBiasGelu : Epilogue::kBias;
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(
    Runtime& runtime, Scratch& scratch, const MatmulGroup& group,
    absl::Span<const Binding> members) {
  const BoundValue& x = members[0].operands[0];
  const BoundValue& y = members[0].operands[1];
  const BoundValue& z = *FindValue(members, group.result);
  MatmulFinish finish;
  finish.epilogue = EpilogueOf(group);
  // The result must not overlap operands of the matmul, except that it may
  // replace the addend.
  std::vector<const BoundValue*> reads = {&x, &y};
  if (group.addend >= 0) {
    const BoundValue& addend = *FindValue(members, group.addend);
    finish.addend = addend.data;
    if (addend.data != z.data) reads.push_back(&addend);
  }
  if (group.bias >= 0) {
    const BoundValue& bias = *FindValue(members, group.bias);
    finish.bias = bias.data;
    reads.push_back(&bias);
  }
  if (group.gelu_gradient_input >= 0) {
    const BoundValue& x = *FindValue(members, group.gelu_gradient_input);
    finish.gelu_input = x.data;
    reads.push_back(&x);
  }
  std::vector<const BoundValue*> writes = {&z};
  if (group.kept >= 0) {
    const BoundValue& kept = *FindValue(members, group.kept);
    finish.gelu_input = kept.data;
    finish.stores_gelu_input = true;
    writes.push_back(&kept);
    if (Overlap(kept, z)) return std::unique_ptr<Kernel>();
  }
  for (const BoundValue* write : writes) {
    for (const BoundValue* read : reads) {
      if (Overlap(*write, *read)) return std::unique_ptr<Kernel>();
    }
  }
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = PrepareMatmul(
      runtime, scratch, *members[0].instruction().Get<EinsumAttributes>().plan,
      x, y, z, finish);
  if (absl::IsUnimplemented(kernel.status())) return std::unique_ptr<Kernel>();
  return kernel;
}

// A matmul that also sums one of its operands.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareBiasGradient(
    Runtime& runtime, Scratch& scratch, const Binding& einsum,
    const Binding& reduce) {
  const int operand = SummedOperand(*einsum.program, einsum.instruction(),
                                    reduce.instruction());
  if (operand < 0) return std::unique_ptr<Kernel>();
  const EinsumPlan& plan = *einsum.instruction().Get<EinsumAttributes>().plan;
  const BoundValue &x = einsum.operands[0], &y = einsum.operands[1];
  const BoundValue &z = einsum.results[0], &sums = reduce.results[0];
  for (const BoundValue* read : {&x, &y}) {
    if (Overlap(z, *read) || Overlap(sums, *read)) {
      return std::unique_ptr<Kernel>();
    }
  }
  if (Overlap(z, sums)) return std::unique_ptr<Kernel>();
  MatmulFinish finish;
  finish.epilogue =
      (operand == 0) != plan.swapped ? Epilogue::kSumsOfX : Epilogue::kSumsOfY;
  finish.bias = sums.data;
  absl::StatusOr<std::unique_ptr<Kernel>> kernel =
      PrepareMatmul(runtime, scratch, plan, x, y, z, finish);
  if (absl::IsUnimplemented(kernel.status())) return std::unique_ptr<Kernel>();
  return kernel;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareMatmulGroup(
    Runtime& runtime, Scratch& scratch, absl::Span<const Binding> members) {
  const auto is_sum = [](const Binding& member) {
    return member.instruction().opcode == Opcode::kReduce;
  };
  const Binding &first = members.front(), &last = members.back();
  if (is_sum(first)) return PrepareBiasGradient(runtime, scratch, last, first);
  if (is_sum(last)) return PrepareBiasGradient(runtime, scratch, first, last);
  const Program& program = *members[0].program;
  // Only the members themselves may form a group.
  std::vector<bool> taken(program.instructions.size(), true);
  for (int i = members.front().index; i <= members.back().index; ++i) {
    taken[i] = false;
  }
  for (const MatmulGroup& group : FindMatmulGroups(program, taken)) {
    if (group.members.size() != members.size() ||
        group.members.back() != members.back().index) {
      continue;
    }
    return Prepare(runtime, scratch, group, members);
  }
  return std::unique_ptr<Kernel>();
}

}  // namespace mtf::cuda
