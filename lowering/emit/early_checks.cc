// SPDX-License-Identifier: Apache-2.0
#include "lowering/emit/early_checks.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "lowering/program/readers.h"

namespace mtf {
namespace {

// Larger values are computed where they are, because moving them would keep
// them alive for longer.
constexpr int64_t kMostElements = int64_t{1} << 16;

bool CanRunEarly(const Program& program, const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kInput:
    case Opcode::kReadVariable:
      return true;
    case Opcode::kConstant:
    case Opcode::kMap:
    case Opcode::kReshape:
    case Opcode::kSlice:
    case Opcode::kPad:
    case Opcode::kConcat:
    case Opcode::kReshard:
    case Opcode::kCheckIndex:
      return program.values[instruction.results[0]].shape.num_elements() <=
             kMostElements;
    default:
      return false;
  }
}

// Adds to `early` the instruction and those that it depends on. Returns false,
// with any of them added, if one cannot run early.
bool AddDependencies(const Program& program, const std::vector<int>& producers,
                     int instruction, std::vector<bool>& early) {
  std::vector<int> open = {instruction};
  while (!open.empty()) {
    const int i = open.back();
    open.pop_back();
    if (early[i]) continue;
    if (!CanRunEarly(program, program.instructions[i])) return false;
    early[i] = true;
    for (int operand : program.instructions[i].operands) {
      open.push_back(producers[operand]);
    }
  }
  return true;
}

}  // namespace

void MoveChecksForward(Program& program) {
  std::vector<Instruction>& all = program.instructions;
  const auto is_check = [](const Instruction& instruction) {
    return instruction.opcode == Opcode::kCheckIndex;
  };
  if (std::none_of(all.begin(), all.end(), is_check)) return;
  const std::vector<int> producers = FindProducers(program);
  std::vector<bool> early(all.size(), false);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!is_check(all[i])) continue;
    std::vector<bool> with_this = early;
    if (AddDependencies(program, producers, static_cast<int>(i), with_this)) {
      early = std::move(with_this);
    }
  }
  std::vector<Instruction> moved;
  moved.reserve(all.size());
  for (const bool first : {true, false}) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (early[i] == first) moved.push_back(std::move(all[i]));
    }
  }
  all = std::move(moved);
}

}  // namespace mtf
