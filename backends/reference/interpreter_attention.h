// SPDX-License-Identifier: Apache-2.0
//
// Attention in plain loops over whole tensors of doubles, for the interpreter
// and the reference device.
#ifndef BACKENDS_REFERENCE_INTERPRETER_ATTENTION_H_
#define BACKENDS_REFERENCE_INTERPRETER_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "backends/reference/interpreter.h"
#include "mtf/attention.h"

namespace mtf::oracle {

// What distinguishes a shard of an attention from the whole of it.
struct AttentionShard {
  uint32_t seed = 0, step = 0;
  // By dimension of the logits, [batch..., length, memory_length]: the index of
  // the first element, and the stride in the global logits.
  std::vector<int64_t> offsets, strides;
  // The distance between the positions of consecutive queries, and of
  // consecutive keys.
  int64_t position_stride = 1;
};

// Of an attention that is not sharded.
AttentionShard WholeAttention(const Shape& logits, uint32_t seed,
                              uint32_t step);

// [batch..., length, memory_length].
Shape AttentionLogits(const AttentionSpec& spec, const Shape& q,
                      const Shape& k);

// Sets the elements of `results`, whose shapes are set. `before` has null
// pointers or the results for other keys; then these are for all keys.
void ComputeAttention(const AttentionSpec& spec, const AttentionShard& shard,
                      const AttentionOperands<const OracleTensor*>& operands,
                      const AttentionResults<const OracleTensor*>& before,
                      const AttentionResults<OracleTensor*>& results);

// Adds to the elements of `of` those whose pointers are not null; their shapes
// are set. Computes the logits again; `results` has null pointers, or the
// results for these and other keys.
void AddAttentionGradients(
    const AttentionSpec& spec, const AttentionShard& shard,
    const AttentionOperands<const OracleTensor*>& operands,
    const AttentionResults<const OracleTensor*>& results,
    const AttentionResults<const OracleTensor*>& gradients,
    const AttentionGradients<OracleTensor*>& of);

}  // namespace mtf::oracle

#endif  // BACKENDS_REFERENCE_INTERPRETER_ATTENTION_H_
