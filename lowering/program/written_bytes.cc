// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/written_bytes.h"

#include <algorithm>

#include "layouts/shard.h"
#include "lowering/program/is_no_op.h"

namespace mtf {
namespace {

using Storage = BufferPlan::Storage;

int64_t BytesOf(const Program& program, int id) {
  const ProgramValue& value = program.values[id];
  return LocalElements(program.grains, value.shape, value.layout) *
         DTypeSize(value.dtype);
}

}  // namespace

std::vector<int> FindBufferOwners(const Program& program) {
  std::vector<int> owners(program.values.size());
  for (size_t v = 0; v < owners.size(); ++v) owners[v] = static_cast<int>(v);
  for (const Instruction& instruction : program.instructions) {
    if (IsView(program, instruction)) {
      owners[instruction.results[0]] = owners[instruction.operands[0]];
    }
  }
  return owners;
}

bool HasUpdates(const Program& program) {
  return std::any_of(program.instructions.begin(), program.instructions.end(),
                     [](const Instruction& instruction) {
                       return instruction.opcode == Opcode::kUpdateSlice;
                     });
}

bool IsUpdateInPlace(const Program& program, const Instruction& update,
                     const std::vector<int>& owners) {
  const std::vector<BufferPlan::Buffer>& buffers = program.buffers.buffers;
  if (buffers.empty()) return true;
  const BufferPlan::Buffer &from = buffers[owners[update.operands[0]]],
                           &to = buffers[owners[update.results[0]]];
  return from.storage == to.storage && from.offset == to.offset &&
         from.symbol == to.symbol;
}

int64_t WrittenBytes(const Program& program, const Instruction& instruction,
                     const std::vector<int>& owners) {
  if (instruction.opcode == Opcode::kWriteVariable) {
    // Without a plan, assumes that nothing is copied.
    if (program.buffers.buffers.empty()) return 0;
    const int value = instruction.operands[0];
    const BufferPlan::Buffer& buffer = program.buffers.buffers[value];
    const bool in_place =
        buffer.storage == Storage::kVariable &&
        buffer.symbol == instruction.Get<NameAttributes>().name;
    return in_place ? 0 : BytesOf(program, value);
  }
  if (IsNoOp(program, instruction) || IsView(program, instruction)) return 0;
  if (instruction.opcode == Opcode::kUpdateSlice &&
      IsUpdateInPlace(program, instruction, owners)) {
    return BytesOf(program, instruction.operands[1]);
  }
  int64_t bytes = 0;
  for (int result : instruction.results) bytes += BytesOf(program, result);
  return bytes;
}

}  // namespace mtf
