// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/copy_windows.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "lowering/program/pool_spec.h"
#include "lowering/program/readers.h"

namespace mtf {
namespace {

// Appends copies to `instructions` and makes `reader` read them.
void AppendCopies(Program& program, const std::vector<int>& producers,
                  WindowsCopy& copy, Instruction& reader,
                  std::vector<Instruction>& instructions) {
  const int windows = copy.results.back();
  for (size_t i = 0; i < copy.results.size(); ++i) {
    const ProgramValue from = program.values[copy.results[i]];
    Instruction instruction = program.instructions[producers[copy.results[i]]];
    const int result = program.AddValue(from.name, from.dtype, from.shape,
                                        TensorLayout(from.layout));
    program.values[result].local = from.local;
    program.values[result].causes = from.causes;
    instruction.results = {result};
    if (i > 0) instruction.operands[0] = copy.results[i - 1];
    copy.results[i] = result;
    instructions.push_back(std::move(instruction));
  }
  std::replace(reader.operands.begin(), reader.operands.end(), windows,
               copy.results.back());
}

// Removes windows that nothing reads any more, and what computes only those.
void EraseUnreadWindows(Program& program) {
  std::vector<int> readers = CountReaders(program);
  std::vector<bool> dead(program.instructions.size(), false);
  for (size_t i = dead.size(); i-- > 0;) {
    const Instruction& instruction = program.instructions[i];
    const bool may_die =
        instruction.opcode == Opcode::kWindows || IsPadding(instruction);
    if (!may_die || readers[instruction.results[0]] > 0) continue;
    dead[i] = true;
    for (int operand : instruction.operands) --readers[operand];
  }
  EraseInstructions(dead, program);
}

}  // namespace

void CopyWindows(std::vector<WindowsCopy*> copies, Program& program) {
  if (copies.empty()) return;
  std::vector<std::vector<int>> grouped;  // the results of members
  for (const FusedGroup& group : program.groups) {
    std::vector<int>& results = grouped.emplace_back();
    for (int member : group.members) {
      results.push_back(program.instructions[member].results[0]);
    }
  }
  std::vector<WindowsCopy*> copy_for(program.instructions.size(), nullptr);
  for (WindowsCopy* copy : copies) copy_for[copy->reader] = copy;
  const std::vector<int> producers = FindProducers(program);
  std::vector<Instruction> instructions;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    Instruction instruction = program.instructions[i];
    if (copy_for[i] != nullptr) {
      AppendCopies(program, producers, *copy_for[i], instruction, instructions);
    }
    instructions.push_back(std::move(instruction));
  }
  program.instructions = std::move(instructions);
  EraseUnreadWindows(program);
  const std::vector<int> moved = FindProducers(program);
  for (size_t g = 0; g < grouped.size(); ++g) {
    for (size_t i = 0; i < grouped[g].size(); ++i) {
      program.groups[g].members[i] = moved[grouped[g][i]];
    }
  }
}

}  // namespace mtf
