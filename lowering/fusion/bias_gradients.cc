// SPDX-License-Identifier: Apache-2.0
#include "lowering/fusion/bias_gradients.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "lowering/fusion/fusion_window.h"
#include "lowering/program/einsum_kind.h"

namespace mtf {
namespace {

// Whether `reduce` sums one operand unchanged or cast to float32.
bool IsPlainSum(const Program& program, const Instruction& reduce) {
  const auto* sum = reduce.Find<ReduceAttributes>();
  if (sum == nullptr || sum->kind != ReduceKind::kSum ||
      reduce.operands.size() != 1 || sum->expression.steps.size() != 1) {
    return false;
  }
  const ProgramValue& from = program.values[reduce.operands[0]];
  const MapStep& step = sum->expression.steps[0];
  if (!IsFloat(from.dtype) || sum->iteration != from.shape ||
      sum->iteration_local != from.local) {
    return false;
  }
  return (step.function == ScalarFunction::kIdentity &&
          step.dtype == from.dtype) ||
         (step.function == ScalarFunction::kCast && step.dtype == kFloat32);
}

// Whether `kept` has exactly those dimensions of `from` that `result` has, in
// the order of `from`.
bool KeepsDimensionsOf(const ProgramValue& kept, const ProgramValue& from,
                       const ProgramValue& result) {
  int next = 0;
  for (const Dimension& dim : from.shape) {
    if (!result.shape.Contains(dim.name)) continue;
    if (next >= kept.shape.rank() || kept.shape[next] != dim) return false;
    ++next;
  }
  return next == kept.shape.rank();
}

// Whether the group can run at its first member.
bool FitsWindow(const FusionWindow& window, const Program& program,
                const BiasGradient& group) {
  const int first = group.members().front();
  const auto& operands = program.instructions[group.einsum].operands;
  return window.InSameWindow(group.reduce, group.einsum) &&
         std::all_of(operands.begin(), operands.end(), [&](int value) {
           return window.IsComputedBefore(value, first);
         });
}

}  // namespace

std::vector<int> BiasGradient::members() const {
  return {std::min(reduce, einsum), std::max(reduce, einsum)};
}

int SummedOperand(const Program& program, const Instruction& einsum,
                  const Instruction& reduce) {
  if (einsum.opcode != Opcode::kEinsum || einsum.operands.size() != 2 ||
      einsum.operands[0] == einsum.operands[1] ||
      !IsPlainSum(program, reduce)) {
    return -1;
  }
  const int operand = reduce.operands[0] == einsum.operands[0] ? 0 : 1;
  if (reduce.operands[0] != einsum.operands[operand]) return -1;
  const EinsumPlan& plan = *einsum.Get<EinsumAttributes>().plan;
  const ProgramValue& from = program.values[reduce.operands[0]];
  const ProgramValue& product = program.values[einsum.results[0]];
  const ProgramValue& sum = program.values[reduce.results[0]];
  if (sum.dtype != product.dtype || !KeepsDimensionsOf(sum, from, product) ||
      KindOfEinsum(plan, from.dtype) != EinsumKind::kMatmul ||
      !IsOneMatmul(plan) || !FoldBatch(plan.batch).empty()) {
    return -1;
  }
  // The rows or columns of the matmul must be contiguous in memory.
  const bool is_x = (operand == 0) != plan.swapped;
  const EinsumLoop& kept = is_x ? plan.m : plan.n;
  const bool in_place = is_x ? !plan.copy_x : !plan.copy_y;
  const bool contiguous = (is_x ? kept.x : kept.y) == 1;
  const bool all = kept.extent == sum.local_elements() &&
                   kept.extent * plan.k.extent == from.local_elements();
  return in_place && contiguous && all && kept.extent > 1 ? operand : -1;
}

std::vector<BiasGradient> FindBiasGradients(
    const Program& program, const std::vector<bool>& is_grouped) {
  // By operand, the first plain sum.
  absl::flat_hash_map<int, int> sums;
  const auto& instructions = program.instructions;
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (!is_grouped[i] && IsPlainSum(program, instructions[i])) {
      sums.try_emplace(instructions[i].operands[0], static_cast<int>(i));
    }
  }
  std::vector<BiasGradient> groups;
  for (size_t i = 0; i < instructions.size() && !sums.empty(); ++i) {
    if (instructions[i].opcode != Opcode::kEinsum || is_grouped[i]) continue;
    for (int operand : instructions[i].operands) {
      const auto sum = sums.find(operand);
      if (sum == sums.end() || SummedOperand(program, instructions[i],
                                             instructions[sum->second]) < 0) {
        continue;
      }
      groups.push_back({sum->second, static_cast<int>(i)});
      sums.erase(sum);
      break;
    }
  }
  if (groups.empty()) return groups;
  const FusionWindow window(program);
  groups.erase(std::remove_if(groups.begin(), groups.end(),
                              [&](const BiasGradient& group) {
                                return !FitsWindow(window, program, group);
                              }),
               groups.end());
  std::sort(groups.begin(), groups.end(),
            [](const BiasGradient& a, const BiasGradient& b) {
              return a.reduce < b.reduce;
            });
  return groups;
}

std::vector<FusedGroup> FusedBiasGradients(
    const Program& program, const std::vector<BiasGradient>& groups) {
  std::vector<FusedGroup> fused;
  for (const BiasGradient& group : groups) {
    FusedGroup& one = fused.emplace_back();
    one.members = group.members();
    for (int member : one.members) {
      one.outputs.push_back(program.instructions[member].results[0]);
    }
  }
  return fused;
}

}  // namespace mtf
