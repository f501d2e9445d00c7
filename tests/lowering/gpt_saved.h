// SPDX-License-Identifier: Apache-2.0
//
// The values that the forward pass of a GPT leaves for the backward pass.
#ifndef TESTS_LOWERING_GPT_SAVED_H_
#define TESTS_LOWERING_GPT_SAVED_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "lowering/passes/plan_buffers.h"
#include "lowering/program/is_no_op.h"
#include "lowering/program/readers.h"
#include "tests/lowering/gpt_plan.h"

namespace mtf::testing {

// Values that the forward pass of a layer leaves for the backward pass.
struct Saved {
  std::map<std::string, int64_t> bytes;  // by name

  Saved operator-(const Saved& other) const {
    Saved rest;
    for (const auto& [name, count] : bytes) {
      if (!other.bytes.contains(name)) rest.bytes[name] = count;
    }
    return rest;
  }
};

inline Saved SavedOf(const Graph&, const Program& program) {
  const auto is_backward = [&](const Instruction& instruction) {
    return instruction.origin >= 0 &&
           absl::StrContains(program.origins[instruction.origin].operation,
                             "_grad");
  };
  std::vector<int> owner(program.values.size());
  std::vector<bool> forward(program.values.size(), false);
  bool backward = false;
  Saved saved;
  const std::vector<int> producers = FindProducers(program);
  for (const Instruction& instruction : program.instructions) {
    backward = backward || is_backward(instruction);
    for (int result : instruction.results) {
      owner[result] = IsFreeReshape(program, instruction)
                          ? owner[instruction.operands[0]]
                          : result;
      forward[result] = !backward;
    }
    if (!backward) continue;
    for (int operand : instruction.operands) {
      const int value = owner[operand];
      const std::vector<int> sources = SourcesOf(
          program, producers, value, {Opcode::kMap, Opcode::kAllGather});
      const bool parameter =
          sources.size() == 1 && producers[sources[0]] >= 0 &&
          program.instructions[producers[sources[0]]].opcode ==
              Opcode::kReadVariable;
      if (!forward[value] || parameter) continue;
      saved.bytes[program.values[value].name] =
          program.values[value].local_bytes();
    }
  }
  return saved;
}

}  // namespace mtf::testing

#endif  // TESTS_LOWERING_GPT_SAVED_H_
