// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/fuse_epilogues.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lowering/fusion/fusion_window.h"
#include "lowering/program/einsum_kind.h"
#include "lowering/program/is_no_op.h"
#include "lowering/program/reader_lists.h"
#include "lowering/program/readers.h"

namespace mtf {
namespace {

using F = ScalarFunction;

// The maximum distance from an einsum to a late sum, because the operands of
// the einsum stay alive until the sum. Covers the gradients of one or two
// weights and their biases.
constexpr int kMaxGap = 12;

bool SameMemory(const ProgramValue& x, const ProgramValue& y) {
  return x.dtype == y.dtype && x.shape == y.shape && x.local == y.local;
}

// A map that adds its operands, each once, and may end with GELU; MatchSum
// returns nullopt for any other map.
struct SumMap {
  std::vector<int> operands;
  bool gelu = false;
};
std::optional<SumMap> MatchSum(const Instruction& map, DType dtype,
                               int64_t gelu_bytes) {
  const MapExpression& expression = map.Get<MapAttributes>().expression;
  // The operands added up by each operand and step so far.
  std::vector<std::vector<int>> sums;
  for (int i = 0; i < expression.num_operands; ++i) sums.push_back({i});
  SumMap sum;
  for (size_t i = 0; i < expression.steps.size(); ++i) {
    const MapStep& step = expression.steps[i];
    const bool last = i + 1 == expression.steps.size();
    if (step.dtype != dtype) return std::nullopt;
    if (step.function == F::kAdd) {
      std::vector<int> both = sums[step.arguments[0]];
      const std::vector<int>& other = sums[step.arguments[1]];
      both.insert(both.end(), other.begin(), other.end());
      sums.push_back(std::move(both));
    } else if (step.function == F::kGelu && last &&
               DTypeSize(dtype) <= gelu_bytes) {
      sum.gelu = true;
      sums.push_back(sums[step.arguments[0]]);
    } else {
      return std::nullopt;
    }
  }
  for (int index : sums.back()) {
    const int operand = map.operands[index];
    if (std::count(sum.operands.begin(), sum.operands.end(), operand) > 0) {
      return std::nullopt;
    }
    sum.operands.push_back(operand);
  }
  return sum;
}

// A product of at most one operand, `slope`, and the derivative of GELU at at
// most one operand, `x`; -1 if absent.
struct GeluGradient {
  int slope = -1, x = -1;
};

// Returns nullopt if the map does not compute both factors and nothing else.
// Factors of 1, which are left where a gradient starts, do not count.
std::optional<GeluGradient> MatchGeluGradient(const Instruction& map,
                                              DType dtype) {
  const MapExpression& expression = map.Get<MapAttributes>().expression;
  // The product that is each operand and step so far.
  std::vector<GeluGradient> products;
  for (int i = 0; i < expression.num_operands; ++i) products.push_back({i, -1});
  for (const MapStep& step : expression.steps) {
    if (step.dtype != dtype) return std::nullopt;
    if (step.function == F::kLiteral && step.number() == 1) {
      products.emplace_back();
    } else if (step.function == F::kGeluDerivative) {
      const GeluGradient& at = products[step.arguments[0]];
      if (at.slope < 0 || at.x >= 0) return std::nullopt;
      products.push_back({-1, at.slope});
    } else if (step.function == F::kMultiply) {
      const GeluGradient& a = products[step.arguments[0]];
      const GeluGradient& b = products[step.arguments[1]];
      if (a.slope >= 0 && b.slope >= 0) return std::nullopt;
      if (a.x >= 0 && b.x >= 0) return std::nullopt;
      products.push_back({std::max(a.slope, b.slope), std::max(a.x, b.x)});
    } else {
      return std::nullopt;
    }
  }
  const GeluGradient& result = products.back();
  if (result.slope < 0 || result.x < 0) return std::nullopt;
  return result;
}

// A group under construction.
struct Epilogue {
  std::vector<int> members;  // the einsum, then maps
  int result = -1;           // value: that of the last member
  EpilogueGroup group;
};

class EpilogueFinder {
 public:
  EpilogueFinder(const FusionCapabilities::Epilogues& device,
                 const Program& program)
      : device_(device),
        program_(program),
        readers_(CountReaders(program)),
        producers_(FindProducers(program)),
        reader_lists_(program),
        window_(program) {}

  std::optional<Epilogue> MatchAt(int index) const {
    switch (program_.instructions[index].opcode) {
      case Opcode::kEinsum:
        return MatchEinsum(index);
      case Opcode::kScatterAdd:
        return MatchScatterAdd(index);
      default:
        return std::nullopt;
    }
  }

 private:
  std::optional<Epilogue> MatchEinsum(int index) const {
    const Instruction& einsum = program_.instructions[index];
    const int y = einsum.results[0];
    const ProgramValue& value = program_.values[y];
    const ProgramValue& x = program_.values[einsum.operands[0]];
    if (einsum.Get<EinsumAttributes>().plan == nullptr) return std::nullopt;
    const EinsumPlan& plan = *einsum.Get<EinsumAttributes>().plan;
    if (!IsFloat(value.dtype) ||
        KindOfEinsum(plan, x.dtype) != EinsumKind::kMatmul ||
        !IsOneMatmul(plan)) {
      return std::nullopt;
    }
    Epilogue epilogue = {{index}, y, {}};
    if (AddGeluGradient(&epilogue)) return epilogue;
    // At most one map adds operands, and at most one more is the GELU.
    while (AddMap(plan, NextMap(epilogue.members.back()), &epilogue)) {
    }
    if (epilogue.members.size() == 1 && !AddLateMap(plan, &epilogue)) {
      return std::nullopt;
    }
    return epilogue;
  }

  // Matches a scatter_add whose only reader adds another tensor.
  std::optional<Epilogue> MatchScatterAdd(int index) const {
    const int y = program_.instructions[index].results[0];
    const ProgramValue& value = program_.values[y];
    if (!device_.scatter_addend || readers_[y] != 1 || !IsFloat(value.dtype)) {
      return std::nullopt;
    }
    const int next = reader_lists_[y][0];
    const Instruction& map = program_.instructions[next];
    if (map.opcode != Opcode::kMap || !window_.InSameWindow(index, next) ||
        next - index > kMaxGap || IsWritten(map.results[0])) {
      return std::nullopt;
    }
    const std::optional<SumMap> sum =
        MatchSum(map, value.dtype, /*gelu_bytes=*/0);
    if (!sum.has_value() || sum->operands.size() != 2) return std::nullopt;
    const int addend = sum->operands[sum->operands[0] == y ? 1 : 0];
    if (!SameMemory(program_.values[addend], value) ||
        !SameMemory(program_.values[map.results[0]], value) ||
        !window_.IsComputedBefore(addend, index)) {
      return std::nullopt;
    }
    return Epilogue{{index, next}, map.results[0], {.addend = addend}};
  }

  // The next instruction that runs, if it is a map; else -1.
  int NextMap(int index) const {
    for (size_t i = index + 1; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (IsNoOp(program_, instruction)) continue;
      return instruction.opcode == Opcode::kMap ? static_cast<int>(i) : -1;
    }
    return -1;
  }

  // Whether `bias` has one element per column of the matmul, the last
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

  // Adds the gradient of GELU whose slope is the result of the einsum, if that
  // is its only reader.
  bool AddGeluGradient(Epilogue* group) const {
    const int einsum = group->members[0], slope = group->result;
    const ProgramValue& before = program_.values[slope];
    if (readers_[slope] != 1 || DTypeSize(before.dtype) > device_.gelu_bytes) {
      return false;
    }
    const int index = reader_lists_[slope][0];
    const Instruction& map = program_.instructions[index];
    if (map.opcode != Opcode::kMap || !window_.InSameWindow(einsum, index) ||
        !SameMemory(before, program_.values[map.results[0]])) {
      return false;
    }
    const std::optional<GeluGradient> gradient =
        MatchGeluGradient(map, before.dtype);
    if (!gradient.has_value()) return false;
    const int x = map.operands[gradient->x];
    if (map.operands[gradient->slope] != slope ||
        !SameMemory(program_.values[x], before) ||
        !window_.IsComputedBefore(x, einsum)) {
      return false;
    }
    group->group.gelu_gradient = x;
    group->result = map.results[0];
    group->members.push_back(index);
    return true;
  }

  // Whether `value` is written to a variable: the map that computes it may do
  // so in place, which the members of a group could not.
  bool IsWritten(int value) const {
    for (int reader : reader_lists_[value]) {
      const Instruction& reads = program_.instructions[reader];
      if (reads.opcode == Opcode::kWriteVariable) return true;
      if (IsNoOp(program_, reads) && !reads.results.empty() &&
          IsWritten(reads.results[0])) {
        return true;
      }
    }
    return false;
  }

  // Whether an instruction computes `value` in memory of its own, which only
  // one instruction reads: a sum may then overwrite it.
  bool HasOneReader(int value) const {
    if (readers_[value] != 1 || producers_[value] < 0) return false;
    const Instruction& producer = program_.instructions[producers_[value]];
    if (!IsNoOp(program_, producer)) return true;
    return IsView(program_, producer) && HasOneReader(producer.operands[0]);
  }

  // Adds the only reader of the result, a map, if it can run at the einsum.
  bool AddLateMap(const EinsumPlan& plan, Epilogue* group) const {
    const int einsum = group->members[0], y = group->result;
    if (readers_[y] != 1) return false;
    const int index = reader_lists_[y][0];
    const Instruction& map = program_.instructions[index];
    if (map.opcode != Opcode::kMap || !window_.InSameWindow(einsum, index) ||
        index - einsum > kMaxGap) {
      return false;
    }
    for (int operand : map.operands) {
      if (operand != y && !window_.IsComputedBefore(operand, einsum))
        return false;
    }
    return AddMap(plan, index, group);
  }

  // Adds one more map to the group if the matmul supports it.
  bool AddMap(const EinsumPlan& plan, int next, Epilogue* group) const {
    if (next < 0 || group->group.gelu || group->group.accumulates) return false;
    const Instruction& map = program_.instructions[next];
    const ProgramValue& before = program_.values[group->result];
    const ProgramValue& result = program_.values[map.results[0]];
    if (!SameMemory(before, result) || IsWritten(map.results[0])) return false;
    const std::optional<SumMap> sum =
        MatchSum(map, result.dtype, device_.gelu_bytes);
    if (!sum.has_value()) return false;
    Epilogue extended = *group;
    bool found = false;
    for (int operand : sum->operands) {
      const ProgramValue& value = program_.values[operand];
      if (operand == group->result) {
        found = true;
      } else if (device_.addend && extended.group.addend < 0 &&
                 SameMemory(value, result)) {
        extended.group.addend = operand;
      } else if (device_.accumulates && group->members.size() == 1 &&
                 sum->operands.size() == 2 && !sum->gelu &&
                 SameMemory(value, result) && HasOneReader(operand)) {
        extended.group.addend = operand;
        extended.group.accumulates = true;
      } else if (device_.bias && extended.group.bias < 0 &&
                 IsBias(value, result, plan)) {
        extended.group.bias = operand;
      } else {
        return false;
      }
    }
    if (!found) return false;
    const bool adds = sum->operands.size() > 1;
    // The input of GELU can be written as well; the terms of a sum cannot.
    const bool has_other_readers = readers_[group->result] > 1;
    if (has_other_readers && (adds || !sum->gelu)) return false;
    extended.group.gelu = sum->gelu;
    extended.result = map.results[0];
    extended.members.push_back(next);
    *group = std::move(extended);
    return true;
  }

  const FusionCapabilities::Epilogues& device_;
  const Program& program_;
  const std::vector<int> readers_;
  const std::vector<int> producers_;
  const ReaderLists reader_lists_;
  const FusionWindow window_;
};

}  // namespace

absl::Status FuseEpilogues(const FusionCapabilities& device, Program& program) {
  EraseGroupsFrom<EpilogueGroup>(program.groups);
  const FusionCapabilities::Epilogues& epilogues = device.epilogues;
  if (epilogues == FusionCapabilities::Epilogues()) return absl::OkStatus();
  std::vector<FusedGroup> groups;
  const EpilogueFinder finder(epilogues, program);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    std::optional<Epilogue> found = finder.MatchAt(static_cast<int>(i));
    if (!found.has_value()) continue;
    groups.push_back({std::move(found->members), found->group});
  }
  AddGroups(std::move(groups), program);
  return absl::OkStatus();
}

}  // namespace mtf
