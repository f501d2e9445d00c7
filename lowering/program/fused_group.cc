// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/fused_group.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "lowering/program/is_no_op.h"
#include "lowering/program/program.h"

namespace mtf {

void AddGroups(std::vector<FusedGroup> groups, Program& program) {
  for (FusedGroup& group : groups) program.groups.push_back(std::move(group));
  std::vector<std::pair<int, size_t>> order;  // first member, group
  for (size_t g = 0; g < program.groups.size(); ++g) {
    order.emplace_back(program.groups[g].members.front(), g);
  }
  std::sort(order.begin(), order.end());
  std::vector<FusedGroup> sorted;
  sorted.reserve(order.size());
  for (const auto& [first, g] : order) {
    sorted.push_back(std::move(program.groups[g]));
  }
  program.groups = std::move(sorted);
}

std::vector<int> FindGroups(const Program& program) {
  std::vector<int> group_of(program.instructions.size(), -1);
  for (size_t g = 0; g < program.groups.size(); ++g) {
    for (int member : program.groups[g].members) {
      group_of[member] = static_cast<int>(g);
    }
  }
  return group_of;
}

std::vector<bool> FindInternalValues(const Program& program) {
  const std::vector<int> group_of = FindGroups(program);
  std::vector<int> computed_by(program.values.size(), -1);  // group, by value
  std::vector<bool> internal(program.values.size(), false);
  for (size_t g = 0; g < program.groups.size(); ++g) {
    const FusedGroup& group = program.groups[g];
    if (!group.is_planned() || group.Find<BiasGradientGroup>() != nullptr) {
      continue;
    }
    for (int member : group.members) {
      // The result of a product is stored even if nothing reads it.
      const bool is_product = group.Find<EpilogueGroup>() != nullptr ||
                              group.Find<ConvolutionGroup>() != nullptr ||
                              group.Find<PoolGroup>() != nullptr;
      if (is_product && member == group.members.back()) {
        continue;
      }
      for (int result : program.instructions[member].results) {
        computed_by[result] = static_cast<int>(g);
        internal[result] = true;
      }
    }
  }
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    for (int operand : program.instructions[i].operands) {
      if (computed_by[operand] != group_of[i]) internal[operand] = false;
    }
  }
  return internal;
}

std::vector<int> FindComputedAt(const Program& program) {
  std::vector<int> computed_at(program.values.size(), -1);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const auto& operands = instruction.operands;
    for (int result : instruction.results) {
      if (!IsNoOp(program, instruction)) {
        computed_at[result] = static_cast<int>(i);
      } else if (!operands.empty()) {
        computed_at[result] = computed_at[operands[0]];
      }
    }
  }
  return computed_at;
}

bool MayOverwrite(const Program& program, const FusedGroup& group, int result) {
  if (const auto* epilogue = group.Find<EpilogueGroup>()) {
    return epilogue->accumulates ||
           program.instructions[group.members[0]].opcode == Opcode::kScatterAdd;
  }
  if (group.Find<RowGroup>() == nullptr) return false;
  for (int member : group.members) {
    const auto* reduce = program.instructions[member].Find<ReduceAttributes>();
    if (reduce == nullptr) continue;
    return program.values[result].shape == reduce->iteration;
  }
  return false;
}

}  // namespace mtf
