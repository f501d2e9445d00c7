// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_LOWERING_WRITTEN_TO_VARIABLE_H_
#define TESTS_LOWERING_WRITTEN_TO_VARIABLE_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "lowering/program/readers.h"
#include "lowering/program/written_bytes.h"

namespace mtf::testing {

// The bytes that one rank writes to the storage of the variable called `name`
// in a step, and to the copies that update_slices make of it.
inline int64_t WrittenToVariable(const Program& program,
                                 absl::string_view name) {
  const std::vector<int> owners = FindBufferOwners(program);
  const std::vector<int> producers = FindProducers(program);
  int64_t bytes = 0;
  for (const Instruction& write : program.instructions) {
    if (write.opcode != Opcode::kWriteVariable ||
        write.Get<NameAttributes>().name != name) {
      continue;
    }
    bytes += WrittenBytes(program, write, owners);
    // The new value, and the updates before it that it is made of.
    int producer = producers[owners[write.operands[0]]];
    while (producer >= 0) {
      const Instruction& update = program.instructions[producer];
      bytes += WrittenBytes(program, update, owners);
      if (update.opcode != Opcode::kUpdateSlice) break;
      producer = producers[owners[update.operands[0]]];
    }
  }
  return bytes;
}

}  // namespace mtf::testing

#endif  // TESTS_LOWERING_WRITTEN_TO_VARIABLE_H_
