// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/check_budget.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "layouts/shard.h"
#include "layouts/text_items.h"
#include "lowering/passes/plan_for_machine.h"
#include "lowering/program/count_costs.h"
#include "planning/cost/lifetimes.h"
#include "planning/cost/memory_use.h"
#include "planning/machine/units.h"

namespace mtf {
namespace {

// How many collectives, or tensors, an error shows.
constexpr size_t kMostShown = 3;

// For each value, the variable that it is the old or the new value of, or null.
std::vector<const ProgramVariable*> VariablesBehind(const Program& program) {
  absl::flat_hash_map<absl::string_view, const ProgramVariable*> by_name;
  for (const ProgramVariable& variable : program.variables) {
    by_name[variable.name] = &variable;
  }
  std::vector<const ProgramVariable*> behind(program.values.size(), nullptr);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::kReadVariable) {
      behind[instruction.results[0]] =
          by_name[instruction.Get<NameAttributes>().name];
    } else if (PreservesValue(instruction)) {
      behind[instruction.results[0]] = behind[instruction.operands[0]];
    }
  }
  for (size_t i = program.instructions.size(); i-- > 0;) {
    const Instruction& instruction = program.instructions[i];
    const bool written = instruction.opcode == Opcode::kWriteVariable;
    if (!written && !PreservesValue(instruction)) continue;
    const ProgramVariable*& operand = behind[instruction.operands[0]];
    if (operand == nullptr) {
      operand = written ? by_name[instruction.Get<NameAttributes>().name]
                        : behind[instruction.results[0]];
    }
  }
  return behind;
}

// The values that are read to be returned to the host, and for nothing else.
std::vector<bool> OnlyReturned(const Program& program) {
  std::vector<bool> read(program.values.size(), false);
  std::vector<bool> returned(program.values.size(), true);
  for (size_t i = program.instructions.size(); i-- > 0;) {
    const Instruction& instruction = program.instructions[i];
    bool returns = instruction.opcode == Opcode::kOutput;
    if (PreservesValue(instruction)) {
      const int result = instruction.results[0];
      returns = read[result] && returned[result];
    }
    for (int operand : instruction.operands) {
      read[operand] = true;
      if (!returns) returned[operand] = false;
    }
  }
  for (size_t i = 0; i < read.size(); ++i) returned[i] = returned[i] && read[i];
  return returned;
}

bool IsStep(const Program& program) {
  bool reads = false, writes = false;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::kInput) return true;
    reads = reads || instruction.opcode == Opcode::kReadVariable;
    writes = writes || instruction.opcode == Opcode::kWriteVariable;
  }
  return reads && writes;
}

int64_t VariableBytes(const Program& program, const ProgramVariable& variable) {
  return LocalElements(program.grains, variable.shape, variable.layout) *
         DTypeSize(variable.dtype);
}

// Finds what a line speaks of among the collectives of a program.
class Matcher {
 public:
  explicit Matcher(const Program& program)
      : program_(program),
        variables_(VariablesBehind(program)),
        only_returned_(OnlyReturned(program)) {}

  // Whether `line` speaks of a tensor that `instruction` moves; `found` tells
  // of all such tensors.
  bool Match(const BudgetLine& line, const Instruction& instruction,
             BudgetUse::Collective* found) const {
    const CollectiveKind kind = CollectiveOf(instruction.opcode);
    if (line.kind.has_value() && *line.kind != kind) return false;
    if (!GoesOver(line, instruction)) return false;
    // The host has asked for it whole.
    if (PreservesValue(instruction) && only_returned_[instruction.results[0]]) {
      return false;
    }
    int64_t operand_bytes = 0;
    int matches = 0;
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      if (!Moves(line, instruction, i)) continue;
      const ProgramValue& value = program_.values[instruction.operands[i]];
      if (matches++ == 0) found->tensor = value.name;
      operand_bytes +=
          LocalElements(program_.grains, value.shape, value.layout) *
          DTypeSize(value.dtype);
    }
    if (matches > 1) {
      absl::StrAppend(&found->tensor, " and ", matches - 1, " more");
    }
    const AxisList& axes = instruction.Get<CollectiveAttributes>().axes;
    found->bytes = WireBytes(kind, program_.mesh.SizeOf(axes), operand_bytes);
    return matches > 0;
  }

 private:
  bool GoesOver(const BudgetLine& line, const Instruction& instruction) const {
    if (line.axes.empty()) return true;
    for (int axis : instruction.Get<CollectiveAttributes>().axes) {
      const std::string& name = program_.mesh.axes()[axis].name;
      if (std::find(line.axes.begin(), line.axes.end(), name) !=
          line.axes.end()) {
        return true;
      }
    }
    return false;
  }

  bool Moves(const BudgetLine& line, const Instruction& instruction,
             size_t i) const {
    const int operand = instruction.operands[i];
    const ProgramVariable* variable = variables_[operand];
    if (line.tensors != BudgetTensors::kAll) {
      const RuleSection wanted = line.tensors == BudgetTensors::kParameters
                                     ? RuleSection::kParameters
                                     : RuleSection::kOptimizer;
      if (variable == nullptr || variable->section != wanted) return false;
    }
    if (IsInScope(program_.values[operand].name, line.scope)) return true;
    if (variable != nullptr && IsInScope(variable->name, line.scope)) {
      return true;
    }
    // The origin of reductions in one call is that of the first.
    return i == 0 && instruction.origin >= 0 &&
           IsInScope(program_.origins[instruction.origin].operation,
                     line.scope);
  }

  const Program& program_;
  std::vector<const ProgramVariable*> variables_;
  std::vector<bool> only_returned_;
};

std::string Bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double number = static_cast<double>(bytes);
  int unit = 0;
  for (; number >= 1024 && unit < 4; ++unit) number /= 1024;
  if (unit == 0) return Plural(bytes, "byte");
  return absl::StrFormat("%d bytes (%.1f %s)", bytes, number, kUnits[unit]);
}

// The largest `kMostShown` collectives of a use, a line each with its cause.
std::string DescribeCollectives(const Program& program, BudgetUse use) {
  const std::vector<CollectiveCost> costs = ListCollectives(program);
  std::stable_sort(
      use.collectives.begin(), use.collectives.end(),
      [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::string text;
  const size_t shown = std::min(use.collectives.size(), kMostShown);
  for (size_t i = 0; i < shown; ++i) {
    const CollectiveCost& cost = costs[use.collectives[i].number];
    const bool moves_one =
        program.instructions[cost.instruction].operands.size() == 1;
    absl::StrAppend(
        &text,
        DetailLine(
            i == 0 ? "largest" : "next",
            absl::StrCat(CollectiveName(cost.kind), " of ",
                         moves_one ? cost.tensor : use.collectives[i].tensor,
                         " over ", program.mesh.AxisNames(cost.axes), ", ",
                         Bytes(use.collectives[i].bytes),
                         cost.site.line > 0
                             ? absl::StrCat(" (", cost.site.ToString(), ")")
                             : "")));
    if (cost.dimension.empty()) continue;
    absl::StrAppend(
        &text, DetailLine("", absl::StrCat("dimension ", cost.dimension)),
        cost.rule.empty()
            ? ""
            : absl::StrCat(", rule ", cost.rule, " (", cost.rule_origin, ")"));
  }
  if (use.collectives.size() > shown) {
    absl::StrAppend(
        &text,
        DetailLine("", absl::StrCat("and ", use.collectives.size() - shown,
                                    " more; --explain lists them")));
  }
  return text;
}

std::string DescribeMemory(const Program& program) {
  int64_t parameters = 0, optimizer = 0;
  for (const ProgramVariable& variable : program.variables) {
    (variable.section == RuleSection::kOptimizer ? optimizer : parameters) +=
        VariableBytes(program, variable);
  }
  std::string text = absl::StrCat(
      DetailLine("at rest",
                 absl::StrCat("parameters ", Bytes(parameters),
                              ", optimizer state ", Bytes(optimizer))),
      DetailLine("step", Bytes(program.buffers.arena_bytes)));
  // As the explanation has them: on a device that runs several instructions as
  // one, what only these read is not in memory, and does not count.
  const std::vector<ExplainedTensor> alive =
      internal::ExplainMemory(program, PlanOf(program)).alive;
  const size_t shown = std::min(alive.size(), kMostShown);
  for (size_t i = 0; i < shown; ++i) {
    const ExplainedTensor& tensor = alive[i];
    absl::StrAppend(
        &text,
        DetailLine(i == 0 ? "largest" : "next",
                   absl::StrCat(tensor.name, " ", tensor.type, ", ",
                                Bytes(tensor.bytes),
                                tensor.operation.empty()
                                    ? ""
                                    : absl::StrCat(" by ", tensor.operation,
                                                   " (", tensor.site, ")"))));
  }
  if (alive.size() > shown) {
    absl::StrAppend(&text,
                    DetailLine("", absl::StrCat("and ", alive.size() - shown,
                                                " more alive at the peak")));
  }
  return text;
}

std::string Named(const BudgetLine& line) {
  return absl::StrCat("budget line ", Quoted(line.ToString()), " (",
                      line.origin, ")");
}

absl::Status Exceeded(const Program& program, const BudgetUse& use,
                      const std::vector<BudgetUse>& uses) {
  std::string text;
  std::string help;
  const std::string by = absl::StrCat(Named(use.line), " allows ");
  if (use.line.subject == BudgetSubject::kMemory) {
    text = absl::StrCat(by, Bytes(use.line.most_bytes),
                        " on each rank, but a step needs ", Bytes(use.bytes),
                        DescribeMemory(program));
    help =
        "cut more dimensions, in [parameters] and [optimizer] too, or use "
        "more devices";
  } else {
    const int64_t calls = static_cast<int64_t>(use.collectives.size());
    text = use.line.subject == BudgetSubject::kCalls
               ? absl::StrCat(by, "0 collectives, but a step has ", calls)
               : absl::StrCat(by, Bytes(use.line.most_bytes),
                              " from each rank, but a step sends ",
                              Bytes(use.bytes), " in ",
                              Plural(calls, "collective"));
    absl::StrAppend(&text, DescribeCollectives(program, use));
    help =
        "change the rule that causes it, or allow more in the section "
        "[budget]";
  }
  for (const BudgetUse& other : uses) {
    if (!other.exceeded || other.line.origin == use.line.origin) continue;
    absl::StrAppend(&text, DetailLine("also", absl::StrCat(Named(other.line),
                                                           " is exceeded")));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(text, DetailLine("mesh", Quoted(program.mesh.ToString())),
                   DetailLine("help", help)));
}

}  // namespace

std::vector<BudgetUse> MeasureBudget(const Program& program,
                                     const Budget& budget) {
  std::vector<BudgetUse> uses;
  for (const BudgetLine& line : budget.lines()) {
    BudgetUse& use = uses.emplace_back();
    use.line = line;
    if (line.subject != BudgetSubject::kMemory) continue;
    use.bytes = internal::MemoryBytes(program);
    use.exceeded = use.bytes > line.most_bytes;
  }
  if (uses.empty() || !IsStep(program)) return uses;
  const Matcher matcher(program);
  int number = 0;
  for (const Instruction& instruction : program.instructions) {
    if (!Communicates(instruction.opcode)) continue;
    for (BudgetUse& use : uses) {
      BudgetUse::Collective found;
      if (use.line.subject == BudgetSubject::kMemory ||
          !matcher.Match(use.line, instruction, &found)) {
        continue;
      }
      found.number = number;
      use.bytes += found.bytes;
      use.collectives.push_back(std::move(found));
      use.exceeded = use.line.subject == BudgetSubject::kCalls ||
                     use.bytes > use.line.most_bytes;
    }
    ++number;
  }
  return uses;
}

absl::Status CheckBudget(const Program& program, const Budget& budget) {
  const std::vector<BudgetUse> uses = MeasureBudget(program, budget);
  for (const BudgetUse& use : uses) {
    if (use.exceeded) return Exceeded(program, use, uses);
  }
  return absl::OkStatus();
}

}  // namespace mtf
