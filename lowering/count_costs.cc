// SPDX-License-Identifier: Apache-2.0
#include "lowering/count_costs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "layouts/shard.h"

namespace mtf {
namespace {

int64_t OperandBytes(const Program& program, const Instruction& instruction) {
  int64_t bytes = 0;
  for (int operand : instruction.operands) {
    const ProgramValue& value = program.values[operand];
    bytes += LocalElements(program.grains, value.shape, value.layout) *
             DTypeSize(value.dtype);
  }
  return bytes;
}

void AppendOnce(std::string& list, absl::string_view item,
                absl::string_view separator) {
  if (item.empty()) return;
  const std::vector<std::string> items = absl::StrSplit(list, separator);
  if (std::find(items.begin(), items.end(), item) != items.end()) return;
  absl::StrAppend(&list, list.empty() ? "" : separator, item);
}

// Rows of cells as a table of padded columns; the first row is the heading.
std::string Table(const std::vector<std::vector<std::string>>& rows,
                  const std::vector<bool>& right) {
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      absl::StrAppend(&line, i > 0 ? "  " : "", right[i] ? padding : "", row[i],
                      right[i] ? "" : padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace

std::vector<CollectiveCost> ListCollectives(const Program& program) {
  std::vector<CollectiveCost> costs;
  for (const Instruction& instruction : program.instructions) {
    if (!IsCollective(instruction.opcode) ||
        instruction.opcode == Opcode::kAllSlice) {
      continue;
    }
    CollectiveCost cost;
    cost.kind = CollectiveOf(instruction.opcode);
    cost.axes = instruction.axes;
    cost.group_size = program.mesh.SizeOf(instruction.axes);
    cost.bytes = WireBytes(cost.kind, cost.group_size,
                           OperandBytes(program, instruction));
    cost.tensor = program.values[instruction.operands[0]].name;
    if (instruction.operands.size() > 1) {
      absl::StrAppend(&cost.tensor, " and ", instruction.operands.size() - 1,
                      " more");
    }
    for (const Cause& cause : instruction.causes) {
      AppendOnce(cost.dimension, cause.dimension, ", ");
      if (cause.rule < 0) continue;
      AppendOnce(cost.rule, program.rules[cause.rule].ToString(), ", ");
      // Origins have commas of their own, "--layout, rule 1 of 2".
      AppendOnce(cost.rule_origin, program.rules[cause.rule].origin, "; ");
    }
    if (instruction.origin >= 0) {
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

std::string ExplainTable(const Program& program) {
  const int64_t devices = program.mesh.num_devices();
  const std::vector<CollectiveCost> costs = ListCollectives(program);
  std::string text = absl::StrCat(
      "mesh \"", program.mesh.ToString(), "\", ", devices,
      devices == 1 ? " device" : " devices",
      costs.empty() ? "" : "; bytes are per rank and step", "\n\n");
  if (costs.empty()) {
    text += "no collectives: nothing is sent between devices\n";
  } else {
    std::vector<std::vector<std::string>> rows = {
        {"collective", "axis", "bytes", "tensor", "dimension", "rule",
         "rule from", "made at"}};
    for (const CollectiveCost& cost : costs) {
      rows.push_back({std::string(CollectiveName(cost.kind)),
                      program.mesh.AxisNames(cost.axes),
                      absl::StrCat(cost.bytes), cost.tensor, cost.dimension,
                      cost.rule, cost.rule_origin, cost.site.ToString()});
    }
    text +=
        Table(rows, {false, false, true, false, false, false, false, false});
    text += "\n";
    rows = {{"total", "axis", "calls", "bytes per rank and step"}};
    for (const auto& [key, count] : CountCollectives(program)) {
      rows.push_back({std::string(CollectiveName(key.first)),
                      program.mesh.AxisNames(ListOf(key.second)),
                      absl::StrCat(count.first), absl::StrCat(count.second)});
    }
    text += Table(rows, {false, false, true, true});
  }

  int64_t variables = 0;
  std::map<std::string, std::pair<int64_t, int64_t>> padded;
  for (const ProgramVariable& variable : program.variables) {
    variables +=
        LocalElements(program.grains, variable.shape, variable.layout) *
        DTypeSize(variable.dtype);
  }
  for (const ProgramValue& value : program.values) {
    for (const Dimension& dim : value.shape) {
      const int64_t extent = program.grains.ExtentOf(dim);
      if (extent != dim.size) padded[dim.name] = {dim.size, extent};
    }
  }
  absl::StrAppend(&text, "\nmemory per rank: variables ", variables,
                  " bytes, step ", program.buffers.arena_bytes, " bytes\n");
  for (const auto& [name, sizes] : padded) {
    absl::StrAppendFormat(
        &text, "padding: \"%s\" %d in %d places (%.1f %% unused)\n", name,
        sizes.first, sizes.second,
        100.0 * static_cast<double>(sizes.second - sizes.first) /
            static_cast<double>(sizes.second));
  }
  return text;
}

}  // namespace mtf
