// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_ATTENTION_SIZE_H_
#define LOWERING_PROGRAM_ATTENTION_SIZE_H_

#include <cstdint>

#include "lowering/program/program.h"

namespace mtf {

// The size of an attention, or of the gradient of one, on one rank, padding
// included. Before shard_shapes, of all ranks.
struct AttentionSize {
  int64_t batch = 1;  // elements of the dimensions besides those below
  int64_t length = 1, memory = 1, d_kv = 1, d_v = 1;
  // Products of queries and keys (over d_kv) and of weights and values (d_v):
  // the gradient computes the logits again.
  int over_d_kv = 1, over_d_v = 1;
  // The fraction of pairs of a query and a key that causality and the window
  // leave, for queries and keys of equal positions.
  double visible = 1;

  // Multiplications and additions of the products, of visible pairs.
  double Flops() const;
};

AttentionSize SizeOfAttention(const Program& program,
                              const Instruction& instruction);

// Whether `opcode` is attention or attention_gradient.
inline bool IsAttention(Opcode opcode) {
  return opcode == Opcode::kAttention || opcode == Opcode::kAttentionGradient;
}

}  // namespace mtf

#endif  // LOWERING_PROGRAM_ATTENTION_SIZE_H_
