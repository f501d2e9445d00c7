// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/check_budget.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "layouts/shard.h"
#include "layouts/text_items.h"
#include "lowering/program/count_costs.h"
#include "mtf/scope_pattern.h"
#include "planning/cost/lifetimes.h"
#include "planning/cost/memory_use.h"
#include "planning/machine/units.h"

namespace mtf {
namespace {

// How many collectives or tensors an error lists.
constexpr size_t kMaxListed = 3;

// By value: the variable that it is the old or the new value of, or null.
std::vector<const ProgramVariable*> FindVariableOfValues(
    const Program& program) {
  absl::flat_hash_map<absl::string_view, const ProgramVariable*> by_name;
  for (const ProgramVariable& variable : program.variables) {
    by_name[variable.name] = &variable;
  }
  std::vector<const ProgramVariable*> variables(program.values.size(), nullptr);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::kReadVariable) {
      variables[instruction.results[0]] =
          by_name[instruction.Get<NameAttributes>().name];
    } else if (PreservesValue(instruction)) {
      variables[instruction.results[0]] = variables[instruction.operands[0]];
    }
  }
  for (size_t i = program.instructions.size(); i-- > 0;) {
    const Instruction& instruction = program.instructions[i];
    const bool written = instruction.opcode == Opcode::kWriteVariable;
    if (!written && !PreservesValue(instruction)) continue;
    const ProgramVariable*& operand = variables[instruction.operands[0]];
    if (operand == nullptr) {
      operand = written ? by_name[instruction.Get<NameAttributes>().name]
                        : variables[instruction.results[0]];
    }
  }
  return variables;
}

// By value: whether its only readers return it to the host.
std::vector<bool> FindReturnedOnly(const Program& program) {
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

// Whether a program is a step, rather than one that initializes variables or
// returns them to the host.
bool IsStep(const Program& program) {
  bool reads = false, writes = false;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::kInput) return true;
    reads = reads || instruction.opcode == Opcode::kReadVariable;
    writes = writes || instruction.opcode == Opcode::kWriteVariable;
  }
  return reads && writes;
}

using internal::StoredBytes;

// Decides which tensors of which collectives count towards a budget line.
class BudgetMatcher {
 public:
  explicit BudgetMatcher(const Program& program)
      : program_(program),
        variables_(FindVariableOfValues(program)),
        returned_only_(FindReturnedOnly(program)) {}

  // Whether a tensor that `instruction` moves counts towards `line`. If so,
  // sets bytes and tensors of `found`.
  bool Match(const BudgetLine& line, const Instruction& instruction,
             BudgetUse::Collective* found) const {
    const CollectiveKind kind = CollectiveOf(instruction.opcode);
    if (line.kind.has_value() && *line.kind != kind) return false;
    if (!RunsOver(line, instruction)) return false;
    // The user fetches this value, so its gather is free.
    if (PreservesValue(instruction) && returned_only_[instruction.results[0]]) {
      return false;
    }
    int64_t operand_bytes = 0;
    int matches = 0;
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      if (!Counts(line, instruction, i)) continue;
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
  // Whether the collective runs over an axis of the line.
  bool RunsOver(const BudgetLine& line, const Instruction& instruction) const {
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

  // Whether operand `i` counts towards the line.
  bool Counts(const BudgetLine& line, const Instruction& instruction,
              size_t i) const {
    const int operand = instruction.operands[i];
    const ProgramVariable* variable = variables_[operand];
    if (line.tensors != BudgetTensors::kAll) {
      const RuleSection wanted = line.tensors == BudgetTensors::kParameters
                                     ? RuleSection::kParameters
                                     : RuleSection::kOptimizer;
      if (variable == nullptr || variable->section != wanted) return false;
    }
    if (ScopeMatches(line.scope, program_.values[operand].name)) return true;
    if (variable != nullptr && ScopeMatches(line.scope, variable->name)) {
      return true;
    }
    // The origin of a bucketed reduction is that of its first operand.
    return i == 0 && instruction.origin >= 0 &&
           ScopeMatches(line.scope,
                        program_.origins[instruction.origin].operation);
  }

  const Program& program_;
  std::vector<const ProgramVariable*> variables_;
  std::vector<bool> returned_only_;
};

// "1 byte", or "77748 bytes (75.9 KiB)".
std::string BytesWithUnit(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double number = static_cast<double>(bytes);
  int unit = 0;
  for (; number >= 1024 && unit < 4; ++unit) number /= 1024;
  if (unit == 0) return Plural(bytes, "byte");
  return absl::StrFormat("%d bytes (%.1f %s)", bytes, number, kUnits[unit]);
}

// Lists the largest `kMaxListed` collectives of `use` with their causes.
std::string DescribeCollectives(const Program& program, BudgetUse use) {
  const std::vector<CollectiveCost> costs = ListCollectives(program);
  std::stable_sort(
      use.collectives.begin(), use.collectives.end(),
      [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::string text;
  const size_t shown = std::min(use.collectives.size(), kMaxListed);
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
                         BytesWithUnit(use.collectives[i].bytes),
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

// Lists the memory of variables and arena, and the largest tensors at the peak.
std::string DescribeMemory(const Program& program) {
  MemoryParts at_rest;
  for (const ProgramVariable& variable : program.variables) {
    PartOf(variable, at_rest) += StoredBytes(program, variable);
  }
  std::string text = absl::StrCat(
      DetailLine(
          "at rest",
          absl::StrCat(
              "parameters ", BytesWithUnit(at_rest.parameters),
              ", optimizer state ", BytesWithUnit(at_rest.optimizer_state),
              at_rest.state == 0
                  ? ""
                  : absl::StrCat(", state ", BytesWithUnit(at_rest.state)),
              at_rest.host == 0 ? ""
                                : absl::StrCat("; in host memory ",
                                               BytesWithUnit(at_rest.host)))),
      DetailLine("step", BytesWithUnit(program.buffers.arena_bytes)));
  // With the fused groups of the plan, as --explain does: values inside a fused
  // kernel take no memory.
  const std::vector<ExplainedTensor> alive =
      internal::ExplainMemory(program).alive;
  const size_t shown = std::min(alive.size(), kMaxListed);
  for (size_t i = 0; i < shown; ++i) {
    const ExplainedTensor& tensor = alive[i];
    absl::StrAppend(
        &text,
        DetailLine(i == 0 ? "largest" : "next",
                   absl::StrCat(tensor.name, " ", tensor.type, ", ",
                                BytesWithUnit(tensor.bytes),
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

// How messages name a line.
std::string LineReference(const BudgetLine& line) {
  return absl::StrCat("budget line ", Quoted(line.ToString()), " (",
                      line.origin, ")");
}

// The error of the first exceeded line, `use`.
absl::Status ExceededError(const Program& program, const BudgetUse& use,
                           const std::vector<BudgetUse>& uses) {
  std::string text;
  std::string help;
  const std::string by = absl::StrCat(LineReference(use.line), " allows ");
  if (use.line.subject == BudgetSubject::kMemory) {
    text = absl::StrCat(by, BytesWithUnit(use.line.most_bytes),
                        " on each rank, but a step needs ",
                        BytesWithUnit(use.bytes), DescribeMemory(program));
    help =
        "shard more dimensions, in [parameters] and [optimizer] too, keep "
        "variables in host memory by a section [offload], or use more devices";
  } else {
    const int64_t calls = static_cast<int64_t>(use.collectives.size());
    text = use.line.subject == BudgetSubject::kCalls
               ? absl::StrCat(by, "0 collectives, but a step has ", calls)
               : absl::StrCat(by, BytesWithUnit(use.line.most_bytes),
                              " from each rank, but a step sends ",
                              BytesWithUnit(use.bytes), " in ",
                              Plural(calls, "collective"));
    absl::StrAppend(&text, DescribeCollectives(program, use));
    help =
        "change the rule that causes it, or allow more in the section "
        "[budget]";
  }
  for (const BudgetUse& other : uses) {
    if (!other.exceeded || other.line.origin == use.line.origin) continue;
    absl::StrAppend(&text,
                    DetailLine("also", absl::StrCat(LineReference(other.line),
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
  const BudgetMatcher matcher(program);
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
    if (use.exceeded) return ExceededError(program, use, uses);
  }
  return absl::OkStatus();
}

}  // namespace mtf
