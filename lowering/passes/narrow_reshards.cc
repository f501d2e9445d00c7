// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/narrow_reshards.h"

#include <utility>
#include <vector>

#include "lowering/program/readers.h"

namespace mtf {
namespace {

// Whether `instruction` is nothing but a cast of a value of the same shape.
bool IsCastInShape(const Program& program, const Instruction& instruction) {
  return IsCast(instruction) &&
         program.values[instruction.operands[0]].shape ==
             program.values[instruction.results[0]].shape;
}

bool IsNarrower(const ProgramValue& a, const ProgramValue& b) {
  return DTypeSize(a.dtype) < DTypeSize(b.dtype);
}

bool IsCastUp(const Program& program, const Instruction& instruction) {
  return IsCastInShape(program, instruction) &&
         IsNarrower(program.values[instruction.operands[0]],
                    program.values[instruction.results[0]]);
}

// The place of the cast that makes `value` and still waits, or -1.
int WaitingCast(const std::vector<int>& waiting, int value) {
  return value < static_cast<int>(waiting.size()) ? waiting[value] : -1;
}

}  // namespace

absl::Status NarrowReshards(Program& program) {
  const std::vector<int> readers = CountReaders(program);
  const std::vector<int> producers = FindProducers(program);

  // Finds the pairs, by place of the later: that of the earlier, or -1.
  std::vector<int> pairs(program.instructions.size(), -1);
  std::vector<bool> moved(program.instructions.size(), false);
  bool any = false;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Instruction& later = program.instructions[i];
    const bool is_reshard = later.opcode == Opcode::kReshard;
    if (!is_reshard && !IsCastInShape(program, later)) continue;
    any = any || IsCastUp(program, later);
    const int place = producers[later.operands[0]];
    if (place < 0 || moved[place] || pairs[place] >= 0 ||
        readers[later.operands[0]] != 1) {
      continue;
    }
    const Instruction& earlier = program.instructions[place];
    if (earlier.operands.size() != 1) continue;
    const ProgramValue &source = program.values[earlier.operands[0]],
                       &middle = program.values[later.operands[0]],
                       &result = program.values[later.results[0]];
    if (is_reshard) {
      if (!IsCastInShape(program, earlier) || !IsNarrower(source, middle) ||
          source.layout != middle.layout) {
        continue;
      }
    } else {
      // A cast that rounds would lose what a sum keeps.
      if (earlier.opcode != Opcode::kReshard || !IsNarrower(result, middle) ||
          result.layout != middle.layout || source.layout.unreduced != 0) {
        continue;
      }
    }
    pairs[i] = place;
    moved[place] = any = true;
  }
  if (!any) return absl::OkStatus();

  // Writes each pair the other way round, at the place of the later one, and
  // each cast up just before the first who reads it.
  std::vector<Instruction> before = std::move(program.instructions);
  program.instructions.clear();
  program.instructions.reserve(before.size());
  std::vector<int> waiting(program.values.size(), -1);  // by value: its cast
  std::vector<int> released;
  const auto write = [&](Instruction& instruction) {
    // A cast may read the result of another: the outermost first, then back.
    released.assign(instruction.operands.begin(), instruction.operands.end());
    for (size_t i = 0; i < released.size(); ++i) {
      const int cast = WaitingCast(waiting, released[i]);
      if (cast >= 0) released.push_back(before[cast].operands[0]);
    }
    while (!released.empty()) {
      const int value = released.back();
      released.pop_back();
      const int cast = WaitingCast(waiting, value);
      if (cast < 0) continue;
      waiting[value] = -1;
      program.instructions.push_back(std::move(before[cast]));
    }
    program.instructions.push_back(std::move(instruction));
  };
  for (size_t i = 0; i < before.size(); ++i) {
    if (moved[i]) continue;
    if (pairs[i] < 0) {
      if (IsCastUp(program, before[i])) {
        waiting[before[i].results[0]] = static_cast<int>(i);
      } else {
        write(before[i]);
      }
      continue;
    }
    Instruction &earlier = before[pairs[i]], &later = before[i];
    const ProgramValue source = program.values[earlier.operands[0]];
    const int result = later.results[0];
    const bool is_reshard = later.opcode == Opcode::kReshard;
    const int between = program.AddValue(
        source.name, is_reshard ? source.dtype : program.values[result].dtype,
        source.shape,
        is_reshard ? program.values[result].layout : source.layout);
    program.values[between].causes =
        is_reshard ? program.values[result].causes : source.causes;
    later.operands = {earlier.operands[0]};
    later.results = {between};
    earlier.operands = {between};
    earlier.results = {result};
    write(later);
    if (is_reshard) {
      waiting[result] = pairs[i];
    } else {
      write(earlier);
    }
  }
  return absl::OkStatus();
}

}  // namespace mtf
