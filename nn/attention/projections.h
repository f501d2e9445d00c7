// SPDX-License-Identifier: Apache-2.0
//
// The projections around an attention, shared by the layers of this folder. Not
// for users. Layers call them in the order of this header, which is that of the
// parameters.
#ifndef NN_ATTENTION_PROJECTIONS_H_
#define NN_ATTENTION_PROJECTIONS_H_

#include "absl/status/status.h"
#include "mtf/dimension.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "nn/attention/attention.h"

namespace mtf::nn::internal {

struct KeysAndValues {
  Tensor keys, values;
};

// The dimension of the values.
const Dimension& ValueDimension(const Dimension& d_kv, const Dimension& d_v);

// The dimensions of heads of queries, and of keys and values.
Shape QueryHeads(const AttentionOptions& options);
Shape MemoryHeads(const AttentionOptions& options);

// Checks that the options of queries are given, and that `x` has the length.
absl::Status CheckQueries(Tensor x, const AttentionOptions& options);

// The Dense layer "query" of `x`, rotated if requested. The position of the
// first is `offset`, or 0.
Tensor ProjectQueries(Tensor x, const Dimension& d_model,
                      const AttentionOptions& options, Tensor offset = {});

// The Dense layers "key" and "value" of `memory`, which has the dimension
// `length`; keys are rotated if requested.
KeysAndValues ProjectMemory(Tensor memory, const Dimension& d_memory,
                            const Dimension& length,
                            const AttentionOptions& options,
                            Tensor offset = {});

// The Dense layer "output" of `y`, the result of an attention.
Tensor ProjectOutput(Tensor y, const Dimension& d_model,
                     const AttentionOptions& options);

// The attention of `q` to `memory`: [batch..., length, heads, d_v].
Tensor AttendToHeads(Tensor q, const KeysAndValues& memory,
                     const AttentionOptions& options, Tensor offset = {});

// AttendToHeads, and ProjectOutput.
Tensor AttendTo(Tensor q, const KeysAndValues& memory, const Dimension& d_model,
                const AttentionOptions& options, Tensor offset = {});

}  // namespace mtf::nn::internal

#endif  // NN_ATTENTION_PROJECTIONS_H_
