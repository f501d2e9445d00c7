// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/delay_all_reduces.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "lowering/program/linearity.h"
#include "lowering/program/readers.h"

namespace mtf {
namespace {

class Delay {
 public:
  explicit Delay(Program& program)
      : program_(program),
        readers_(CountReaders(program)),
        made_by_(program.values.size(), -1) {}

  void Run() {
    std::vector<Instruction> before = std::move(program_.instructions);
    program_.instructions.clear();
    out_.reserve(before.size() + before.size() / 4);
    const std::vector<bool> roots = FindRoots(before);
    for (size_t i = 0; i < before.size(); ++i) {
      Instruction& instruction = before[i];
      for (int& operand : instruction.operands) {
        if (operand < static_cast<int>(instead_.size()) &&
            instead_[operand] >= 0) {
          operand = instead_[operand];
        }
      }
      if (roots[i]) GroupTerms(instruction);
      Visit(std::move(instruction));
    }
    std::vector<bool> dead(out_.size(), false);
    for (size_t i = 0; i < dead.size(); ++i) {
      const Instruction& instruction = out_[i];
      dead[i] = !instruction.results.empty() &&
                instruction.opcode != Opcode::kWriteVariable &&
                readers_[instruction.results[0]] == 0 &&
                dropped_[instruction.results[0]];
    }
    program_.instructions = std::move(out_);
    EraseInstructions(dead, program_);
  }

 private:
  using Values = absl::InlinedVector<int, 8>;

  // Marks the last addition of every chain: whose result somebody else reads
  // than one further addition.
  std::vector<bool> FindRoots(const std::vector<Instruction>& before) const {
    std::vector<bool> roots(before.size(), false);
    std::vector<int> made_by(program_.values.size(), -1);
    for (size_t i = 0; i < before.size(); ++i) {
      const Instruction& instruction = before[i];
      roots[i] = instruction.opcode == Opcode::kMap && IsSumTree(instruction);
      if (!roots[i]) continue;
      made_by[instruction.results[0]] = static_cast<int>(i);
      for (int operand : instruction.operands) {
        if (readers_[operand] == 1 && made_by[operand] >= 0) {
          roots[made_by[operand]] = false;
        }
      }
    }
    return roots;
  }

  // The reshard that does nothing but reduce `value`, if `value` is read once.
  const Instruction* PendingReshard(int value) const {
    const int producer = made_by_[value];
    if (producer < 0 || readers_[value] != 1) return nullptr;
    const Instruction& reshard = out_[producer];
    if (reshard.opcode != Opcode::kReshard) return nullptr;
    const TensorLayout& from = program_.values[reshard.operands[0]].layout;
    const TensorLayout& to = program_.values[value].layout;
    if (from.unreduced == 0 || to.unreduced != 0 || from.dims != to.dims ||
        from.reduction != ReduceKind::kSum) {
      return nullptr;
    }
    return &reshard;
  }

  AxisSet PendingAxes(int value) const {
    const Instruction* reshard = PendingReshard(value);
    return reshard == nullptr
               ? 0
               : program_.values[reshard->operands[0]].layout.unreduced;
  }

  // Whether every operand is pending over the same axes and the instruction is
  // linear in them, without making the value larger.
  bool CanDelay(const Instruction& instruction) const {
    if (instruction.operands.empty() || instruction.results.size() != 1) {
      return false;
    }
    const ProgramValue& result = program_.values[instruction.results[0]];
    const AxisSet axes = PendingAxes(instruction.operands[0]);
    if (axes == 0 || (result.layout.Sharded() & axes) != 0) return false;
    int64_t largest = 0;
    std::vector<DType> dtypes;
    for (int operand : instruction.operands) {
      if (PendingAxes(operand) != axes) return false;
      largest =
          std::max(largest, program_.values[operand].shape.num_elements());
      dtypes.push_back(program_.values[operand].dtype);
    }
    switch (instruction.opcode) {
      case Opcode::kMap:
        return result.shape.num_elements() <= largest &&
               (IsLinear(ExpressionOf(instruction), dtypes) ||
                CastsLookUp(instruction));
      case Opcode::kReduce:
        return ReductionOf(instruction) == ReduceKind::kSum;
      case Opcode::kReshape:
      case Opcode::kSlice:
      case Opcode::kConcat:
        return true;
      case Opcode::kPad:
        return FillOf(instruction) == 0;
      default:
        return false;
    }
  }

  // Whether a map does nothing but cast the pending sum of a look-up. However
  // it rounds, it rounds one summand as it would their sum: the others are 0.
  bool CastsLookUp(const Instruction& map) const {
    if (map.operands.size() != 1 || !IsCast(map)) return false;
    const int source = made_by_[PendingReshard(map.operands[0])->operands[0]];
    return source >= 0 && out_[source].opcode == Opcode::kGather;
  }

  void Emit(Instruction&& instruction) {
    for (int result : instruction.results) {
      Grow(result);
      made_by_[result] = static_cast<int>(out_.size());
    }
    out_.push_back(std::move(instruction));
  }

  void Grow(int value) {
    if (value >= static_cast<int>(made_by_.size())) {
      made_by_.resize(value + 1, -1);
    }
    if (value >= static_cast<int>(readers_.size())) {
      readers_.resize(value + 1, 0);
    }
    if (value >= static_cast<int>(dropped_.size())) {
      dropped_.resize(program_.values.size(), false);
    }
  }

  // Takes the pending operand of a reshard in place of its result.
  int Unwrap(int value) {
    const int inner = out_[made_by_[value]].operands[0];
    readers_[value] = 0;
    Grow(value);
    dropped_[value] = true;
    return inner;
  }

  void Visit(Instruction&& instruction) {
    if (instruction.opcode == Opcode::kReshard) {
      JoinReshard(instruction);
      const int from = instruction.operands[0], to = instruction.results[0];
      if (program_.values[from].layout == program_.values[to].layout) {
        // There and back again: whoever reads the result reads the operand.
        instead_.resize(program_.values.size(), -1);
        instead_[to] = from;
        readers_[from] += readers_[to] - 1;
        return;
      }
      Emit(std::move(instruction));
      return;
    }
    if (!CanDelay(instruction)) {
      Emit(std::move(instruction));
      return;
    }
    const Instruction first = *PendingReshard(instruction.operands[0]);
    const ProgramValue pending = program_.values[first.operands[0]];
    for (int& operand : instruction.operands) operand = Unwrap(operand);
    // The result's own value stays what its readers see. A sum over axes of its
    // own stays pending over those; its reader's reshard joins the one here.
    const int reduced = instruction.results[0];
    const ProgramValue result = program_.values[reduced];
    TensorLayout layout = result.layout;
    layout.unreduced |= pending.layout.unreduced;
    layout.reduction = ReduceKind::kSum;
    const int delayed =
        program_.AddValue(result.name, result.dtype, result.shape, layout);
    program_.values[delayed].causes = result.causes;
    for (const Cause& cause : pending.causes) {
      program_.values[delayed].causes.push_back(cause);
    }
    Instruction reshard(Opcode::kReshard);
    reshard.operands = {delayed};
    reshard.results = {reduced};
    reshard.origin = first.origin;
    reshard.causes = first.causes;
    instruction.results = {delayed};
    Emit(std::move(instruction));
    Grow(delayed);
    readers_[delayed] = 1;
    Emit(std::move(reshard));
  }

  // reshard(reshard(x)) is one reshard where nobody reads what is between.
  void JoinReshard(Instruction& outer) {
    const int value = outer.operands[0];
    const int producer = made_by_[value];
    if (producer < 0 || readers_[value] != 1) return;
    const Instruction& inner = out_[producer];
    if (inner.opcode != Opcode::kReshard) return;
    for (const Cause& cause : inner.causes) outer.causes.push_back(cause);
    outer.operands = {Unwrap(value)};
  }

  // A map of additions only, in which every operand and step is used once.
  bool IsSumTree(const Instruction& map) const {
    const MapExpression& expression = map.Get<MapAttributes>().expression;
    if (expression.num_operands < 2) return false;
    for (const MapStep& step : expression.steps) {
      if (step.function != ScalarFunction::kAdd) return false;
    }
    const ProgramValue& result = program_.values[map.results[0]];
    absl::InlinedVector<int, 16> uses(
        expression.num_operands + expression.steps.size(), 0);
    for (const MapStep& step : expression.steps) {
      for (int argument : step.arguments) ++uses[argument];
    }
    for (size_t i = 0; i + 1 < uses.size(); ++i) {
      if (uses[i] != 1) return false;
    }
    for (int operand : map.operands) {
      if (!program_.values[operand].shape.SameDimensions(result.shape)) {
        return false;
      }
    }
    return true;
  }

  void CollectTerms(const Instruction& map, Values& terms,
                    Values& inner) const {
    // Without recursion: a chain may be as long as the user's program.
    absl::InlinedVector<std::pair<const Instruction*, size_t>, 8> open = {
        {&map, 0}};
    while (!open.empty()) {
      auto& [sum, next] = open.back();
      if (next == sum->operands.size()) {
        open.pop_back();
        continue;
      }
      const int operand = sum->operands[next++];
      const int producer = made_by_[operand];
      if (producer >= 0 && readers_[operand] == 1 &&
          out_[producer].opcode == Opcode::kMap && IsSumTree(out_[producer])) {
        inner.push_back(operand);
        open.push_back({&out_[producer], 0});
      } else {
        terms.push_back(operand);
      }
    }
  }

  // Adds the terms that are pending over the same axes to each other first,
  // where a chain of additions mixes them with others.
  void GroupTerms(Instruction& map) {
    Values terms, inner;
    CollectTerms(map, terms, inner);
    if (std::none_of(terms.begin(), terms.end(),
                     [this](int term) { return PendingAxes(term) != 0; })) {
      return;
    }
    std::vector<std::pair<AxisSet, std::vector<int>>> groups;
    bool worthwhile = false;
    for (int term : terms) {
      const AxisSet axes = PendingAxes(term);
      auto group = std::find_if(groups.begin(), groups.end(),
                                [&](const auto& g) { return g.first == axes; });
      if (group == groups.end()) {
        groups.push_back({axes, {}});
        group = groups.end() - 1;
      }
      group->second.push_back(term);
      worthwhile = worthwhile || (axes != 0 && group->second.size() > 1);
    }
    if (!worthwhile || groups.size() < 2) return;

    for (int value : inner) {
      readers_[value] = 0;
      Grow(value);
      dropped_[value] = true;
    }
    const ProgramValue result = program_.values[map.results[0]];
    const auto add = [&](int x, int y, int into) {
      Instruction sum(Opcode::kMap,
                      MapAttributes{MapExpression::Single(ScalarFunction::kAdd,
                                                          result.dtype, 2)});
      sum.operands = {x, y};
      sum.results = {into};
      sum.origin = map.origin;
      return sum;
    };
    int total = -1;
    for (size_t g = 0; g < groups.size(); ++g) {
      int partial = -1;
      for (int term : groups[g].second) {
        if (partial < 0) {
          partial = term;
          continue;
        }
        const int next = program_.AddValue(result.name, result.dtype,
                                           result.shape, result.layout);
        Grow(next);
        readers_[next] = 1;
        Visit(add(partial, term, next));
        partial = next;
      }
      if (total < 0) {
        total = partial;
      } else if (g + 1 < groups.size()) {
        const int next = program_.AddValue(result.name, result.dtype,
                                           result.shape, result.layout);
        Grow(next);
        readers_[next] = 1;
        Visit(add(total, partial, next));
        total = next;
      } else {
        map = add(total, partial, map.results[0]);
      }
    }
  }

  Program& program_;
  std::vector<Instruction> out_;
  std::vector<int> readers_;
  std::vector<int> made_by_;  // by value, place in out_
  std::vector<int> instead_;  // by value: what is read in its place, or -1
  std::vector<bool> dropped_ = std::vector<bool>(program_.values.size(), false);
};

}  // namespace

absl::Status DelayAllReduces(Program& program) {
  Delay(program).Run();
  return absl::OkStatus();
}

}  // namespace mtf
