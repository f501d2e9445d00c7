// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/fuse_bias_gradients.h"

#include <algorithm>
#include <utility>
#include <vector>

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

// Whether the matmul of `einsum` can compute `reduce` too, which sums one of
// its operands.
bool CanSum(const Program& program, const Instruction& einsum,
            const Instruction& reduce) {
  if (einsum.Get<EinsumAttributes>().plan == nullptr ||
      einsum.operands.size() != 2 || einsum.operands[0] == einsum.operands[1] ||
      !IsPlainSum(program, reduce)) {
    return false;
  }
  const int operand = reduce.operands[0] == einsum.operands[0] ? 0 : 1;
  if (reduce.operands[0] != einsum.operands[operand]) return false;
  const EinsumPlan& plan = *einsum.Get<EinsumAttributes>().plan;
  const ProgramValue& from = program.values[reduce.operands[0]];
  const ProgramValue& product = program.values[einsum.results[0]];
  const ProgramValue& sum = program.values[reduce.results[0]];
  if (sum.dtype != product.dtype || !KeepsDimensionsOf(sum, from, product) ||
      KindOfEinsum(plan, from.dtype) != EinsumKind::kMatmul ||
      !IsOneMatmul(plan) || !FoldBatch(plan.batch).empty()) {
    return false;
  }
  // The rows or columns of the matmul must be contiguous in memory.
  const bool is_x = (operand == 0) != plan.swapped;
  const EinsumLoop& kept = is_x ? plan.m : plan.n;
  const bool in_place = is_x ? !plan.copy_x : !plan.copy_y;
  const bool contiguous = (is_x ? kept.x : kept.y) == 1;
  const bool all = kept.extent == sum.local_elements() &&
                   kept.extent * plan.k.extent == from.local_elements();
  return in_place && contiguous && all && kept.extent > 1;
}

}  // namespace

absl::Status FuseBiasGradients(const FusionCapabilities& device,
                               Program& program) {
  EraseGroupsFrom<BiasGradientGroup>(program.groups);
  if (!device.epilogues.bias_gradient) return absl::OkStatus();
  const std::vector<int> group_of = FindGroups(program);
  // By operand, the first plain sum.
  absl::flat_hash_map<int, int> sums;
  const auto& instructions = program.instructions;
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (group_of[i] < 0 && IsPlainSum(program, instructions[i])) {
      sums.try_emplace(instructions[i].operands[0], static_cast<int>(i));
    }
  }
  if (sums.empty()) return absl::OkStatus();
  const FusionWindow window(program);
  std::vector<FusedGroup> groups;
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& einsum = instructions[i];
    if (einsum.opcode != Opcode::kEinsum || group_of[i] >= 0) continue;
    for (int operand : einsum.operands) {
      const auto sum = sums.find(operand);
      if (sum == sums.end() ||
          !CanSum(program, einsum, instructions[sum->second])) {
        continue;
      }
      const int first = std::min(sum->second, static_cast<int>(i));
      const int last = std::max(sum->second, static_cast<int>(i));
      const bool can_run_first = std::all_of(
          einsum.operands.begin(), einsum.operands.end(),
          [&](int value) { return window.IsComputedBefore(value, first); });
      if (window.InSameWindow(first, last) && can_run_first) {
        groups.push_back({{first, last}, BiasGradientGroup{operand}});
      }
      sums.erase(sum);
      break;
    }
  }
  AddGroups(std::move(groups), program);
  return absl::OkStatus();
}

}  // namespace mtf
