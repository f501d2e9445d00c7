// SPDX-License-Identifier: Apache-2.0
#include "backends/executor/fed_indices.h"

#include <algorithm>
#include <vector>

#include "lowering/program/readers.h"

namespace mtf {
namespace {

// Whether every element of the result is an element of the first operand, or 0
// if that is an index of a table of `size`.
bool MovesFirstOperand(const Instruction& instruction, int64_t size) {
  const auto* rows = instruction.Find<RowsAttributes>();
  if (rows != nullptr) {
    return rows->sizes.size() == 1 && !rows->adds && rows->fill == 0 &&
           size > 0;
  }
  return OnlyMoves(instruction.opcode);
}

// Without branches, so that the compiler can vectorize the loop.
template <class T>
bool Within(const T* indices, int64_t n, int64_t limit) {
  T least = 0, most = 0;
  for (int64_t i = 0; i < n; ++i) {
    least = std::min(least, indices[i]);
    most = std::max(most, indices[i]);
  }
  return least >= 0 && (n == 0 || static_cast<int64_t>(most) < limit);
}

// The indices of an instruction that can fail are below this.
int64_t IndexLimit(const Program& program, const Instruction& instruction) {
  if (const auto* check = instruction.Find<CheckIndexAttributes>()) {
    return check->limit();
  }
  const bool gather = instruction.opcode == Opcode::kGather;
  const int table = gather ? instruction.operands[0] : instruction.results[0];
  return program.values[table].shape.SizeOf(DimensionOf(instruction));
}

}  // namespace

std::optional<IndexLimits> FindFedIndices(const Program& program) {
  const std::vector<int> producers = FindProducers(program);
  IndexLimits limits;
  for (const Instruction& instruction : program.instructions) {
    if (!CanFail(instruction.opcode)) continue;
    const int64_t size = IndexLimit(program, instruction);
    int value = instruction.operands.back();
    const Instruction* producer = nullptr;
    while (producers[value] >= 0) {
      producer = &program.instructions[producers[value]];
      // A top_k with labels merges the results of a top_k over blocks; look
      // through it to that one.
      const bool labels = producer->opcode == Opcode::kTopK &&
                          value == producer->results.back();
      if (labels && producer->operands.size() == 1) break;
      if (!labels && !MovesFirstOperand(*producer, size)) break;
      value = labels ? producer->operands.back() : producer->operands.front();
    }
    if (producers[value] < 0) return std::nullopt;
    if (producer->opcode == Opcode::kTopK &&
        value == producer->results.back()) {
      // The indices are below the size of the ranked dimension.
      const Shape& ranked = program.values[producer->operands[0]].shape;
      if (ranked.SizeOf(DimensionOf(*producer)) <= size) continue;
    }
    if (producer->opcode != Opcode::kInput) return std::nullopt;
    const auto [known, added] = limits.emplace(value, size);
    if (!added) known->second = std::min(known->second, size);
  }
  return limits;
}

bool AllWithin(const HostTensor& indices, int64_t limit) {
  const int64_t n = indices.num_elements();
  return indices.dtype() == kInt32
             ? Within(static_cast<const int32_t*>(indices.data()), n, limit)
             : Within(static_cast<const int64_t*>(indices.data()), n, limit);
}

}  // namespace mtf
