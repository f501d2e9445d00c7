// SPDX-License-Identifier: Apache-2.0
#include "backends/group_values.h"

#include <cstddef>

namespace mtf {

void* AddressOf(int value, absl::Span<const Binding> members) {
  for (const Binding& member : members) {
    const Instruction& instruction = member.instruction();
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      if (instruction.operands[i] == value) return member.operands[i].data;
    }
    for (size_t i = 0; i < instruction.results.size(); ++i) {
      if (instruction.results[i] == value) return member.results[i].data;
    }
  }
  return nullptr;
}

}  // namespace mtf
