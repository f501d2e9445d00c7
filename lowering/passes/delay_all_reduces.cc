// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/delay_all_reduces.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "lowering/passes/sum_chains.h"
#include "lowering/program/linearity.h"
#include "lowering/program/readers.h"

namespace mtf {
namespace {

// A term of a chain of additions and subtractions.
struct Term {
  int value = -1;
  bool subtracted = false;
};
using Terms = absl::InlinedVector<Term, 8>;

// The terms of a sum that are unreduced over the same axes.
struct TermGroup {
  AxisSet axes = 0;
  std::vector<Term> terms;
};

// Groups terms by their axes, in the order of their first terms.
template <class AxesOf>
std::vector<TermGroup> GroupByAxes(const Terms& terms, const AxesOf& axes_of) {
  std::vector<TermGroup> groups;
  for (const Term& term : terms) {
    const AxisSet axes = axes_of(term.value);
    auto group =
        std::find_if(groups.begin(), groups.end(),
                     [&](const TermGroup& each) { return each.axes == axes; });
    if (group == groups.end()) group = groups.insert(group, {axes, {}});
    group->terms.push_back(term);
  }
  return groups;
}

// Rewrites a program in order. A value is unwrapped when an instruction reads
// the operand of its reduction in place of it.
class ReductionDelayer {
 public:
  explicit ReductionDelayer(Program& program)
      : program_(program),
        readers_(CountReaders(program)),
        converging_(FindConvergingSums(program)),
        producer_(program.values.size(), -1) {}

  void Run() {
    const std::vector<int> chain_ends = FindChainEnds(program_);
    std::vector<Instruction> before = std::move(program_.instructions);
    program_.instructions.clear();
    rewritten_.reserve(before.size() + before.size() / 4);
    for (size_t i = 0; i < before.size(); ++i) {
      Instruction& instruction = before[i];
      for (int& operand : instruction.operands) {
        if (operand < static_cast<int>(replacement_.size()) &&
            replacement_[operand] >= 0) {
          operand = replacement_[operand];
        }
      }
      if (chain_ends[i] == static_cast<int>(i)) GroupTerms(instruction);
      Visit(std::move(instruction));
    }
    // Removes the reshards whose results are no longer read.
    std::vector<bool> dead(rewritten_.size(), false);
    for (size_t i = 0; i < dead.size(); ++i) {
      const Instruction& instruction = rewritten_[i];
      dead[i] = !instruction.results.empty() &&
                instruction.opcode != Opcode::kWriteVariable &&
                readers_[instruction.results[0]] == 0 &&
                unwrapped_[instruction.results[0]];
    }
    program_.instructions = std::move(rewritten_);
    EraseInstructions(dead, program_);
  }

 private:
  using Values = absl::InlinedVector<int, 8>;

  // The reshard that produces `value` by a reduction alone, if `value` has one
  // reader or its readers converge; else nullptr.
  const Instruction* ReducingReshard(int value) const {
    const int producer = producer_[value];
    const bool converges =
        value < static_cast<int>(converging_.size()) && converging_[value];
    if (producer < 0 || (readers_[value] != 1 && !converges)) return nullptr;
    const Instruction& reshard = rewritten_[producer];
    return IsSumReduction(program_, reshard) ? &reshard : nullptr;
  }

  AxisSet UnreducedAxesBefore(int value) const {
    const Instruction* reshard = ReducingReshard(value);
    return reshard == nullptr
               ? 0
               : program_.values[reshard->operands[0]].layout.unreduced;
  }

  // Whether every operand is the reduction of a value over the same axes, the
  // instruction is linear in them, and a map does not increase the bytes to
  // reduce.
  bool CanDelay(const Instruction& instruction) const {
    if (instruction.operands.empty() || instruction.results.size() != 1) {
      return false;
    }
    const ProgramValue& result = program_.values[instruction.results[0]];
    const AxisSet axes = UnreducedAxesBefore(instruction.operands[0]);
    if (axes == 0 || (result.layout.Sharded() & axes) != 0) return false;
    int64_t largest = 0;
    std::vector<DType> dtypes;
    for (int operand : instruction.operands) {
      if (UnreducedAxesBefore(operand) != axes) return false;
      largest =
          std::max(largest, program_.values[operand].shape.num_elements());
      dtypes.push_back(program_.values[operand].dtype);
    }
    if (instruction.opcode == Opcode::kMap &&
        result.shape.num_elements() > largest) {
      return false;
    }
    return IsLinear(instruction, dtypes) || IsCastOfLookup(instruction);
  }

  // Whether a map only casts the reduction of a lookup in a sharded table.
  // Rounding before the reduction gives the same result: all summands but one
  // are 0.
  bool IsCastOfLookup(const Instruction& map) const {
    if (map.operands.size() != 1 || !IsCast(map)) return false;
    const int source = producer_[ReducingReshard(map.operands[0])->operands[0]];
    return source >= 0 && LooksUpRows(rewritten_[source].opcode);
  }

  void Write(Instruction&& instruction) {
    for (int result : instruction.results) {
      Grow(result);
      producer_[result] = static_cast<int>(rewritten_.size());
    }
    rewritten_.push_back(std::move(instruction));
  }

  void Grow(int value) {
    if (value >= static_cast<int>(producer_.size())) {
      producer_.resize(value + 1, -1);
    }
    if (value >= static_cast<int>(readers_.size())) {
      readers_.resize(value + 1, 0);
    }
    if (value >= static_cast<int>(unwrapped_.size())) {
      unwrapped_.resize(program_.values.size(), false);
    }
  }

  // Returns the unreduced operand of the reshard that produces `value`, which
  // loses a reader.
  int Unwrap(int value) {
    const int inner = rewritten_[producer_[value]].operands[0];
    // The last reader takes the place of the reshard.
    if (--readers_[value] > 0) ++readers_[inner];
    Grow(value);
    unwrapped_[value] = true;
    return inner;
  }

  void Visit(Instruction&& instruction) {
    if (instruction.opcode == Opcode::kReshard) {
      JoinReshard(instruction);
      const int from = instruction.operands[0], to = instruction.results[0];
      if (program_.values[from].layout == program_.values[to].layout) {
        // The two reshards cancel: readers of the result read the operand.
        replacement_.resize(program_.values.size(), -1);
        replacement_[to] = from;
        readers_[from] += readers_[to] - 1;
        return;
      }
      Write(std::move(instruction));
      return;
    }
    if (!CanDelay(instruction)) {
      Write(std::move(instruction));
      return;
    }
    // Rewrites op(reshard(x)) as reshard(op(x)).
    const Instruction first = *ReducingReshard(instruction.operands[0]);
    const ProgramValue unreduced_sum = program_.values[first.operands[0]];
    for (int& operand : instruction.operands) operand = Unwrap(operand);
    // The readers keep reading the original result, now produced by the
    // reshard. If the instruction itself leaves its result unreduced over
    // further axes, the result stays unreduced over those; the reshard of its
    // reader is merged with this one.
    const int reduced = instruction.results[0];
    const ProgramValue result = program_.values[reduced];
    TensorLayout layout = result.layout;
    layout.unreduced |= unreduced_sum.layout.unreduced;
    layout.reduction = ReduceKind::kSum;
    const int delayed =
        program_.AddValue(result.name, result.dtype, result.shape, layout);
    program_.values[delayed].causes = result.causes;
    for (const Cause& cause : unreduced_sum.causes) {
      program_.values[delayed].causes.push_back(cause);
    }
    Instruction reshard(Opcode::kReshard);
    reshard.operands = {delayed};
    reshard.results = {reduced};
    reshard.origin = first.origin;
    reshard.causes = first.causes;
    instruction.results = {delayed};
    Write(std::move(instruction));
    Grow(delayed);
    readers_[delayed] = 1;
    Write(std::move(reshard));
  }

  // reshard(reshard(x)) is one reshard if the intermediate value has no other
  // reader.
  void JoinReshard(Instruction& outer) {
    const int value = outer.operands[0];
    const int producer = producer_[value];
    if (producer < 0 || readers_[value] != 1) return;
    const Instruction& inner = rewritten_[producer];
    if (inner.opcode != Opcode::kReshard) return;
    for (const Cause& cause : inner.causes) outer.causes.push_back(cause);
    outer.operands = {Unwrap(value)};
  }

  // The terms of the chain of sums that ends in `map`, and the values in
  // between. The first term is added.
  void CollectTerms(const Instruction& map, Terms& terms, Values& inner) const {
    // Not recursive: a chain can be as long as the user's program.
    struct Open {
      const Instruction* sum;
      absl::InlinedVector<bool, 8> subtracted;  // by operand
      size_t next = 0;
    };
    const auto signs_of = [](const Instruction& sum, bool negative) {
      auto signs = SubtractedOperands(ExpressionOf(sum));
      for (bool& sign : signs) sign = sign != negative;
      return signs;
    };
    absl::InlinedVector<Open, 8> open = {{&map, signs_of(map, false)}};
    while (!open.empty()) {
      Open& last = open.back();
      if (last.next == last.sum->operands.size()) {
        open.pop_back();
        continue;
      }
      const bool subtracted = last.subtracted[last.next];
      const int operand = last.sum->operands[last.next++];
      const int producer = producer_[operand];
      if (producer >= 0 && readers_[operand] == 1 &&
          IsSumTree(program_, rewritten_[producer])) {
        const Instruction& sum = rewritten_[producer];
        inner.push_back(operand);
        open.push_back({&sum, signs_of(sum, subtracted)});
      } else {
        terms.push_back({operand, subtracted});
      }
    }
    const auto added = std::find_if(terms.begin(), terms.end(),
                                    [](Term term) { return !term.subtracted; });
    std::iter_swap(terms.begin(), added);
  }

  // If a chain of sums mixes terms of different unreduced axes, first adds
  // those that are unreduced over the same axes to each other.
  void GroupTerms(Instruction& map) {
    Terms terms;
    Values inner;
    CollectTerms(map, terms, inner);
    if (std::none_of(terms.begin(), terms.end(), [this](Term term) {
          return UnreducedAxesBefore(term.value) != 0;
        })) {
      return;
    }
    const std::vector<TermGroup> groups = GroupByAxes(
        terms, [this](int term) { return UnreducedAxesBefore(term); });
    const bool has_pair =
        std::any_of(groups.begin(), groups.end(), [](const TermGroup& group) {
          return group.axes != 0 && group.terms.size() > 1;
        });
    if (!has_pair || groups.size() < 2) return;

    // Adds up each group, then the sums of the groups.
    for (int value : inner) {
      readers_[value] = 0;
      Grow(value);
      unwrapped_[value] = true;
    }
    const ProgramValue result = program_.values[map.results[0]];
    // The result has the sign of `x`: -a - b is -(a + b), -a + b is -(a - b).
    const auto add = [&](Term x, Term y, int into) {
      const ScalarFunction function = x.subtracted == y.subtracted
                                          ? ScalarFunction::kAdd
                                          : ScalarFunction::kSubtract;
      Instruction sum(Opcode::kMap, MapAttributes{MapExpression::Single(
                                        function, result.dtype, 2)});
      sum.operands = {x.value, y.value};
      sum.results = {into};
      sum.origin = map.origin;
      return sum;
    };
    const auto add_value = [&](Term x, Term y) {
      const int sum = program_.AddValue(result.name, result.dtype, result.shape,
                                        result.layout);
      Grow(sum);
      readers_[sum] = 1;
      Visit(add(x, y, sum));
      return Term{sum, x.subtracted};
    };
    Term total;
    for (size_t g = 0; g < groups.size(); ++g) {
      Term partial = groups[g].terms[0];
      for (size_t i = 1; i < groups[g].terms.size(); ++i) {
        partial = add_value(partial, groups[g].terms[i]);
      }
      if (total.value < 0) {
        total = partial;
      } else if (g + 1 < groups.size()) {
        total = add_value(total, partial);
      } else {
        map = add(total, partial, map.results[0]);
      }
    }
  }

  Program& program_;
  std::vector<Instruction> rewritten_;
  std::vector<int> readers_;
  const std::vector<bool> converging_;  // FindConvergingSums
  std::vector<int> producer_;           // by value: index in rewritten_, or -1
  // By value: the value read in place of it, or -1.
  std::vector<int> replacement_;
  std::vector<bool> unwrapped_ =
      std::vector<bool>(program_.values.size(), false);
};

}  // namespace

absl::Status DelayAllReduces(Program& program) {
  ReductionDelayer(program).Run();
  return absl::OkStatus();
}

}  // namespace mtf
