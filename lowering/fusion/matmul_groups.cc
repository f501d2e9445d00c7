// SPDX-License-Identifier: Apache-2.0
#include "lowering/fusion/matmul_groups.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lowering/fusion/fusion_window.h"
#include "lowering/fusion/gelu_gradient.h"
#include "lowering/program/einsum_kind.h"
#include "lowering/program/is_no_op.h"
#include "lowering/program/reader_lists.h"
#include "lowering/program/readers.h"

namespace mtf {
namespace {

using F = ScalarFunction;

// How far behind its product a sum may stand: what the product reads is kept
// until there. The gradient of one weight or two, and of their biases.
constexpr int kFarthest = 12;

bool SameMemory(const ProgramValue& x, const ProgramValue& y) {
  return x.dtype == y.dtype && x.shape == y.shape && x.local == y.local;
}

// What a map is where it adds its operands and, perhaps, ends with a gelu: the
// places of the operands, each once; nullopt for any other map.
struct Sum {
  std::vector<int> operands;
  bool gelu = false;
};
std::optional<Sum> SumOf(const Instruction& map, DType dtype) {
  const MapExpression& expression = map.Get<MapAttributes>().expression;
  // Sums so far: operands alone, then one per step.
  std::vector<std::vector<int>> sums;
  for (int i = 0; i < expression.num_operands; ++i) sums.push_back({i});
  Sum sum;
  for (size_t i = 0; i < expression.steps.size(); ++i) {
    const MapStep& step = expression.steps[i];
    const bool last = i + 1 == expression.steps.size();
    if (step.dtype != dtype) return std::nullopt;
    if (step.function == F::kAdd) {
      std::vector<int> both = sums[step.arguments[0]];
      const std::vector<int>& other = sums[step.arguments[1]];
      both.insert(both.end(), other.begin(), other.end());
      sums.push_back(std::move(both));
    } else if (step.function == F::kGelu && last && DTypeSize(dtype) == 2) {
      sum.gelu = true;
      sums.push_back(sums[step.arguments[0]]);
    } else {
      return std::nullopt;
    }
  }
  for (int place : sums.back()) {
    const int operand = map.operands[place];
    if (std::count(sum.operands.begin(), sum.operands.end(), operand) > 0) {
      return std::nullopt;
    }
    sum.operands.push_back(operand);
  }
  return sum;
}

class Finder {
 public:
  Finder(const Program& program, const std::vector<bool>& taken)
      : program_(program),
        taken_(taken),
        readers_(CountReaders(program)),
        lists_(program),
        reach_(program) {}

  std::optional<MatmulGroup> At(int place) const {
    const Instruction& einsum = program_.instructions[place];
    const int y = einsum.results[0];
    const ProgramValue& value = program_.values[y];
    const ProgramValue& x = program_.values[einsum.operands[0]];
    const EinsumPlan& plan = *einsum.Get<EinsumAttributes>().plan;
    if (!IsFloat(value.dtype) ||
        KindOfEinsum(plan, x.dtype) != EinsumKind::kMatmul ||
        !IsOneMatmul(plan)) {
      return std::nullopt;
    }
    MatmulGroup group;
    group.members = {place};
    group.result = y;
    if (TakesGeluGradient(&group)) return group;
    // At most one map adds, and at most one more is the gelu.
    while (Extend(plan, NextMap(group.members.back()), &group)) {
    }
    if (group.members.size() == 1 && !TakesLateMap(plan, &group)) {
      return std::nullopt;
    }
    return group;
  }

 private:
  // The next instruction that runs, if it is a map that is free.
  int NextMap(int place) const {
    for (size_t i = place + 1; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (taken_[i]) return -1;
      if (IsNoOp(program_, instruction)) continue;
      return instruction.opcode == Opcode::kMap ? static_cast<int>(i) : -1;
    }
    return -1;
  }

  // Whether `bias` lies along the columns of the matmul, which are the last
  // dimensions of its result.
  bool IsBias(const ProgramValue& bias, const ProgramValue& result,
              const EinsumPlan& plan) const {
    const int rank = bias.shape.rank(), skipped = result.shape.rank() - rank;
    if (bias.dtype != result.dtype || skipped < 0) return false;
    int64_t elements = 1;
    for (int i = 0; i < rank; ++i) {
      if (bias.shape[i] != result.shape[skipped + i]) return false;
      if (bias.local[i] != result.local[skipped + i]) return false;
      elements *= bias.local[i];
    }
    return elements == plan.n.extent && plan.n.z == 1;
  }

  // Adds the gradient of a gelu whose slope is the einsum, if it is read by
  // that alone.
  bool TakesGeluGradient(MatmulGroup* group) const {
    const int einsum = group->members[0], slope = group->result;
    const ProgramValue& before = program_.values[slope];
    if (readers_[slope] != 1 || DTypeSize(before.dtype) != 2) return false;
    const int place = lists_[slope][0];
    const Instruction& map = program_.instructions[place];
    if (map.opcode != Opcode::kMap || taken_[place] ||
        !reach_.Joins(einsum, place) ||
        !SameMemory(before, program_.values[map.results[0]])) {
      return false;
    }
    const MapExpression& expression = map.Get<MapAttributes>().expression;
    for (const MapStep& step : expression.steps) {
      if (step.dtype != before.dtype) return false;
    }
    const std::optional<GeluGradient> gradient = FindGeluGradient(expression);
    if (!gradient.has_value()) return false;
    const int x = map.operands[gradient->x];
    if (map.operands[gradient->slope] != slope ||
        !SameMemory(program_.values[x], before) ||
        !reach_.IsMadeBefore(x, einsum)) {
      return false;
    }
    group->slope_at = x;
    group->late = true;
    group->result = map.results[0];
    group->members.push_back(place);
    return true;
  }

  // Whether a variable is written from `value`: the map that makes it may do so
  // in place, which the parts of a group could not.
  bool IsWritten(int value) const {
    for (int reader : lists_[value]) {
      const Instruction& reads = program_.instructions[reader];
      if (reads.opcode == Opcode::kWriteVariable) return true;
      if (IsNoOp(program_, reads) && !reads.results.empty() &&
          IsWritten(reads.results[0])) {
        return true;
      }
    }
    return false;
  }

  // Adds the one map that reads the result, if that may stand where the einsum
  // does.
  bool TakesLateMap(const EinsumPlan& plan, MatmulGroup* group) const {
    const int einsum = group->members[0], y = group->result;
    if (readers_[y] != 1) return false;
    const int place = lists_[y][0];
    const Instruction& map = program_.instructions[place];
    if (map.opcode != Opcode::kMap || taken_[place] ||
        !reach_.Joins(einsum, place) || place - einsum > kFarthest ||
        IsWritten(map.results[0])) {
      return false;
    }
    for (int operand : map.operands) {
      if (operand != y && !reach_.IsMadeBefore(operand, einsum)) return false;
    }
    group->late = Extend(plan, place, group);
    return group->late;
  }

  // Adds one more map to the group, if it goes with it.
  bool Extend(const EinsumPlan& plan, int next, MatmulGroup* group) const {
    if (next < 0 || group->gelu) return false;
    const Instruction& map = program_.instructions[next];
    const ProgramValue& before = program_.values[group->result];
    const ProgramValue& result = program_.values[map.results[0]];
    if (!SameMemory(before, result)) return false;
    const std::optional<Sum> sum = SumOf(map, result.dtype);
    if (!sum.has_value()) return false;
    MatmulGroup extended = *group;
    bool found = false;
    for (int operand : sum->operands) {
      const ProgramValue& value = program_.values[operand];
      if (operand == group->result) {
        found = true;
      } else if (extended.addend < 0 && SameMemory(value, result)) {
        extended.addend = operand;
      } else if (extended.bias < 0 && IsBias(value, result, plan)) {
        extended.bias = operand;
      } else {
        return false;
      }
    }
    if (!found) return false;
    const bool adds = sum->operands.size() > 1;
    // What gelu is of may be kept; a sum leaves nothing of its parts.
    const bool others = readers_[group->result] > 1;
    if (others && (adds || !sum->gelu)) return false;
    if (sum->gelu) {
      extended.gelu = true;
      if (others) extended.kept = group->result;
    }
    extended.result = map.results[0];
    extended.members.push_back(next);
    *group = std::move(extended);
    return true;
  }

  const Program& program_;
  const std::vector<bool>& taken_;
  std::vector<int> readers_;
  const ReaderLists lists_;
  const FusionWindow reach_;
};

}  // namespace

std::vector<MatmulGroup> FindMatmulGroups(const Program& program,
                                          const std::vector<bool>& taken) {
  std::vector<MatmulGroup> groups;
  const Finder finder(program, taken);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].opcode != Opcode::kEinsum || taken[i]) continue;
    std::optional<MatmulGroup> group = finder.At(static_cast<int>(i));
    if (group.has_value()) groups.push_back(*std::move(group));
  }
  return groups;
}

std::vector<FusedGroup> FusedMatmuls(const std::vector<MatmulGroup>& groups) {
  std::vector<FusedGroup> fused;
  for (const MatmulGroup& group : groups) {
    if (!group.late) continue;
    FusedGroup& one = fused.emplace_back();
    one.members = group.members;
    one.outputs = {group.result};
  }
  return fused;
}

}  // namespace mtf
