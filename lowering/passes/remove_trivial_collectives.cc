// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/remove_trivial_collectives.h"

#include <utility>
#include <vector>

#include "lowering/program/readers.h"

namespace mtf {
absl::Status RemoveTrivialCollectives(Program& program) {
  std::vector<int> readers = CountReaders(program);
  const std::vector<int> producers = FindProducers(program);
  // By value: the value that replaces it, or itself.
  std::vector<int> replacement(program.values.size());
  for (size_t i = 0; i < replacement.size(); ++i)
    replacement[i] = static_cast<int>(i);

  // Finds the slices that change nothing and forwards their readers.
  for (Instruction& instruction : program.instructions) {
    for (int& operand : instruction.operands) operand = replacement[operand];
    if (instruction.opcode != Opcode::kAllSlice) continue;
    const int operand = instruction.operands[0];
    const int result = instruction.results[0];
    if (producers[operand] < 0) continue;
    const Instruction& producer = program.instructions[producers[operand]];
    int source = -1;
    if (producer.opcode == Opcode::kAllGather &&
        program.values[producer.operands[0]].layout ==
            program.values[result].layout) {
      source = producer.operands[0];
    } else if (CanProduceAnyShard(producer) && readers[operand] == 1) {
      program.values[operand].layout = program.values[result].layout;
      source = operand;
    }
    if (source < 0) continue;
    // The readers of the slice read the source.
    replacement[result] = source;
    --readers[operand];
    readers[source] += readers[result];
  }

  // Removes instructions whose results are never read, last first.
  readers = CountReaders(program);
  std::vector<bool> dead(program.instructions.size(), false);
  for (int i = static_cast<int>(program.instructions.size()) - 1; i >= 0; --i) {
    const Instruction& instruction = program.instructions[i];
    if (HasEffect(instruction.opcode)) continue;
    bool read = false;
    for (int result : instruction.results) read = read || readers[result] > 0;
    if (read) continue;
    dead[i] = true;
    for (int operand : instruction.operands) --readers[operand];
  }
  EraseInstructions(dead, program);
  return absl::OkStatus();
}

}  // namespace mtf
