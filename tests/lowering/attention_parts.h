// SPDX-License-Identifier: Apache-2.0
//
// One attention and its gradient, with what tests change about it.
#ifndef TESTS_LOWERING_ATTENTION_PARTS_H_
#define TESTS_LOWERING_ATTENTION_PARTS_H_

#include "lowering/lower.h"
#include "nn/attention.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"

namespace mtf::testing {

struct AttentionParts {
  bool causal = true, gradient = true, mask = false, reads_weights = false;
  double dropout = 0;
  DType dtype = kBFloat16;
  int64_t batch = 2, heads = 3, length = 40, memory = 40, d = 8;
};

inline Targets BuildAttention(Graph& graph, const AttentionParts& parts) {
  const Dimension batch{"batch", parts.batch}, heads{"heads", parts.heads},
      length{"length", parts.length}, memory{"memory", parts.memory},
      d{"d", parts.d};
  const auto input = [&](const char* name, Dimension rows) {
    return Cast(Input(graph, name, kFloat32, {batch, rows, heads, d}),
                parts.dtype);
  };
  const Tensor q = input("q", length), k = input("k", memory),
               v = input("v", memory);
  Tensor mask;
  if (parts.mask) mask = Input(graph, "mask", kBool, {length, memory});
  const Tensor o = nn::DotProductAttention(q, k, v,
                                           {.length = length,
                                            .memory_length = memory,
                                            .d_kv = d,
                                            .causal = parts.causal,
                                            .dropout = parts.dropout,
                                            .mask = mask});
  Targets targets;
  targets.fetches = {Cast(o, kFloat32)};
  if (parts.gradient) {
    const Tensor weight = Input(graph, "weight", kFloat32, o.shape());
    const Tensor loss = ReduceSum(Cast(o, kFloat32) * weight, Shape());
    for (Tensor gradient : Gradients(loss, {q, k, v})) {
      targets.fetches.push_back(Cast(gradient, kFloat32));
    }
  }
  return targets;
}

}  // namespace mtf::testing

#endif  // TESTS_LOWERING_ATTENTION_PARTS_H_
