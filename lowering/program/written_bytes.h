// SPDX-License-Identifier: Apache-2.0
//
// The bytes that a step writes to memory, by the plan of its buffers.
#ifndef LOWERING_PROGRAM_WRITTEN_BYTES_H_
#define LOWERING_PROGRAM_WRITTEN_BYTES_H_

#include <cstdint>
#include <vector>

#include "lowering/program/program.h"

namespace mtf {

// By value: the value whose memory it has. A view has that of its operand; any
// other value its own.
std::vector<int> FindBufferOwners(const Program& program);

// Whether an update_slice writes its result to the memory of its first operand.
// Without a plan of buffers, assumes so. `owners` is FindBufferOwners of the
// program, here and below.
bool IsUpdateInPlace(const Program& program, const Instruction& update,
                     const std::vector<int>& owners);

// Whether any instruction is an update_slice, so that IsUpdateInPlace and
// WrittenBytes need the owners; without one, these may be empty.
bool HasUpdates(const Program& program);

// The bytes that one rank writes in an instruction: those of its results, but
// none for a view and only the rows for an update_slice in place; those of the
// variable for a write_variable whose value is copied when the step ends.
int64_t WrittenBytes(const Program& program, const Instruction& instruction,
                     const std::vector<int>& owners);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_WRITTEN_BYTES_H_
