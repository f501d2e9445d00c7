// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/count_costs.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "layouts/shard.h"

namespace mtf {
namespace {

int64_t OperandBytes(const Program& program, const Instruction& instruction) {
  int64_t bytes = 0;
  for (int operand : instruction.operands) {
    const ProgramValue& value = program.values[operand];
    bytes += value.local.empty()
                 ? LocalElements(program.grains, value.shape, value.layout) *
                       DTypeSize(value.dtype)
                 : value.local_bytes();
  }
  return bytes;
}

void AppendOnce(std::string& list, absl::string_view item,
                absl::string_view separator) {
  if (item.empty() || item == list) return;
  if (list.empty()) {
    list = std::string(item);
    return;
  }
  const std::vector<absl::string_view> items = absl::StrSplit(list, separator);
  if (std::find(items.begin(), items.end(), item) != items.end()) return;
  absl::StrAppend(&list, separator, item);
}

// By value, the variable that it is written to, directly or through
// instructions that preserve the value. The user knows it by that name, not by
// the name of a step of the update.
absl::flat_hash_map<int, const std::string*> WrittenVariables(
    const Program& program) {
  absl::flat_hash_map<int, const std::string*> variables;
  for (size_t i = program.instructions.size(); i-- > 0;) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.opcode == Opcode::kWriteVariable) {
      variables[instruction.operands[0]] =
          &instruction.Get<NameAttributes>().name;
    } else if (PreservesValue(instruction)) {
      const auto variable = variables.find(instruction.results[0]);
      if (variable == variables.end()) continue;
      const std::string* name = variable->second;
      variables.try_emplace(instruction.operands[0], name);
    }
  }
  return variables;
}

}  // namespace

std::vector<CollectiveCost> ListCollectives(const Program& program) {
  const auto variables = WrittenVariables(program);
  std::vector<CollectiveCost> costs;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (!Communicates(instruction.opcode)) continue;
    const AxisList& axes = instruction.Get<CollectiveAttributes>().axes;
    CollectiveCost cost;
    cost.instruction = static_cast<int>(i);
    cost.kind = CollectiveOf(instruction.opcode);
    cost.axes = ListOf(SetOf(axes));
    cost.group_size = program.mesh.SizeOf(axes);
    cost.bytes = WireBytes(cost.kind, cost.group_size,
                           OperandBytes(program, instruction));
    cost.tensor = program.values[instruction.operands[0]].name;
    if (instruction.operands.size() > 1) {
      absl::StrAppend(&cost.tensor, " and ", instruction.operands.size() - 1,
                      " more");
    } else if (const auto variable = variables.find(instruction.results[0]);
               variable != variables.end()) {
      cost.tensor = *variable->second;
    }
    for (const Cause& cause : instruction.causes) {
      AppendOnce(cost.dimension, cause.dimension, ", ");
      if (cause.rule < 0) continue;
      AppendOnce(cost.rule, program.rules[cause.rule].ToString(), ", ");
      // Origins contain commas, "--layout, rule 1 of 2".
      AppendOnce(cost.rule_origin, program.rules[cause.rule].origin, "; ");
    }
    if (instruction.origin >= 0) {
      cost.operation = program.origins[instruction.origin].operation;
      cost.site = program.origins[instruction.origin].site;
    }
    costs.push_back(std::move(cost));
  }
  return costs;
}

std::map<std::pair<CollectiveKind, AxisSet>, std::pair<int64_t, int64_t>>
CountCollectives(const Program& program) {
  std::map<std::pair<CollectiveKind, AxisSet>, std::pair<int64_t, int64_t>>
      counts;
  for (const CollectiveCost& cost : ListCollectives(program)) {
    auto& [calls, bytes] = counts[{cost.kind, SetOf(cost.axes)}];
    ++calls;
    bytes += cost.bytes;
  }
  return counts;
}

}  // namespace mtf
