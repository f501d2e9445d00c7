// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/buffer_lifetimes.h"

#include <cstddef>

#include "lowering/program/readers.h"
#include "lowering/program/written_bytes.h"

namespace mtf {

BufferLifetimes::BufferLifetimes(const Program& program)
    : program_(program),
      group_of_(FindGroups(program)),
      ends_(FindEnds(program)),
      owner_(FindBufferOwners(program)),
      last_reader_(program.values.size(), -1) {
  FindLastReaders();
}

bool BufferLifetimes::IsLastReader(int owner, int i) const {
  if (last_reader_[owner] != ends_[i]) return false;
  if (ends_[i] == i) return true;
  const auto async = only_async_reader_.find(owner);
  return async != only_async_reader_.end() && async->second == i;
}

void BufferLifetimes::FindLastReaders() {
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    const FusedGroup* group = PlannedGroupOf(static_cast<int>(i));
    const int until = group == nullptr ? ends_[i] : group->members.back();
    for (int value : instruction.operands) {
      last_reader_[owner_[value]] =
          std::max(last_reader_[owner_[value]], until);
      if (IsAsynchronous(instruction)) continue;
      const auto async = only_async_reader_.find(owner_[value]);
      if (async != only_async_reader_.end()) async->second = -1;
    }
    if (IsAsynchronous(instruction)) {
      for (int result : instruction.results) last_reader_[result] = until;
      NoteAsyncReads(static_cast<int>(i));
    }
    // A value written to a variable is copied when the step ends.
    if (instruction.opcode == Opcode::kWriteVariable) {
      written_to_variables_.push_back(owner_[instruction.operands[0]]);
    }
  }
  for (int value : written_to_variables_) {
    last_reader_[value] = static_cast<int>(program_.instructions.size());
  }
}

// Records an asynchronous collective as the only reader of its operands up to
// its wait. FindLastReaders drops the record when anything else reads an
// operand after the start.
void BufferLifetimes::NoteAsyncReads(int i) {
  for (int operand : program_.instructions[i].operands) {
    const auto [async, is_first] =
        only_async_reader_.try_emplace(owner_[operand], i);
    if (!is_first) async->second = -1;
  }
}

}  // namespace mtf
