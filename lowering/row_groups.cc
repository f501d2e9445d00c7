// SPDX-License-Identifier: Apache-2.0
#include "lowering/row_groups.h"

#include <optional>
#include <utility>

#include "lowering/runs_nothing.h"

namespace mtf {
namespace {

// The rows that a group works on: `columns` innermost dimensions of `shape`.
struct RowSpace {
  Shape shape;
  absl::InlinedVector<int64_t, 5> local;
  int columns = 0;
};

// The first dimensions of `space` but for its columns.
bool HasShapeOfRows(const ProgramValue& value, const RowSpace& space) {
  const int rows = space.shape.rank() - space.columns;
  if (value.shape.rank() != rows) return false;
  for (int i = 0; i < rows; ++i) {
    if (value.shape[i] != space.shape[i]) return false;
    if (value.local[i] != space.local[i]) return false;
  }
  return true;
}

// The rows of a reduction over innermost dimensions, if it is one.
std::optional<RowSpace> RowsOf(const Program& program,
                               const Instruction& reduce) {
  RowSpace space;
  space.shape = reduce.iteration;
  space.local = reduce.iteration_local;
  const ProgramValue& result = program.values[reduce.results[0]];
  space.columns = space.shape.rank() - result.shape.rank();
  if (space.columns < 1 || result.shape.rank() < 1) return std::nullopt;
  if (!HasShapeOfRows(result, space)) return std::nullopt;
  return space;
}

bool BelongsTo(const Program& program, const Instruction& instruction,
               const RowSpace& space) {
  if (instruction.opcode == Opcode::kReduce) {
    const std::optional<RowSpace> rows = RowsOf(program, instruction);
    return rows.has_value() && rows->shape == space.shape &&
           rows->local == space.local && rows->columns == space.columns;
  }
  const ProgramValue& result = program.values[instruction.results[0]];
  return HasShapeOfRows(result, space) ||
         (result.shape == space.shape && result.local == space.local);
}

// Appends the groups of one run: maps and reductions with nothing between them.
void SplitRun(const Program& program, const std::vector<int>& run,
              std::vector<std::vector<int>>& groups) {
  const int size = static_cast<int>(run.size());
  const auto at = [&](int i) -> const Instruction& {
    return program.instructions[run[i]];
  };
  int free = 0;  // the first that no group has taken
  for (int i = 0; i < size; ++i) {
    if (i < free || at(i).opcode != Opcode::kReduce) continue;
    const std::optional<RowSpace> space = RowsOf(program, at(i));
    if (!space.has_value()) continue;
    int first = i;
    while (first > free && BelongsTo(program, at(first - 1), *space)) --first;
    int end = i + 1;
    while (end < size && BelongsTo(program, at(end), *space)) ++end;
    if (end - first >= 2) {
      groups.emplace_back(run.begin() + first, run.begin() + end);
      free = end;
    }
  }
}

}  // namespace

std::vector<std::vector<int>> FindRowGroups(const Program& program,
                                            const std::vector<bool>& taken) {
  std::vector<std::vector<int>> groups;
  std::vector<int> run;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const bool may = instruction.opcode == Opcode::kMap ||
                     instruction.opcode == Opcode::kReduce;
    if (may && !taken[i]) {
      run.push_back(static_cast<int>(i));
    } else if (taken[i] || !RunsNothing(program, instruction)) {
      SplitRun(program, run, groups);
      run.clear();
    }
  }
  SplitRun(program, run, groups);
  return groups;
}

}  // namespace mtf
