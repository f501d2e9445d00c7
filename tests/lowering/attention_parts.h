// SPDX-License-Identifier: Apache-2.0
//
// An attention and its gradient, with the variations that tests need.
#ifndef TESTS_LOWERING_ATTENTION_PARTS_H_
#define TESTS_LOWERING_ATTENTION_PARTS_H_

#include <string>
#include <vector>

#include "lowering/lower.h"
#include "nn/attention/attention.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"

namespace mtf::testing {

struct AttentionParts {
  bool causal = true, gradient = true;
  // The dimensions of a mask and of a bias, in order: a letter for each of
  // batch, heads, length and memory. "": none.
  std::string mask = "", added = "";
  DType added_dtype = kFloat32;
  bool trains_added = false;   // also fetches the gradient of the bias
  double dropout = 0;
  DType dtype = kBFloat16;
  int64_t batch = 2, heads = 3, length = 40, memory = 40, d = 8;
  int64_t d_v = 0;  // of values with a dimension of their own; 0: `d`
};

inline Targets BuildAttention(Graph& graph, const AttentionParts& parts) {
  const Dimension batch{"batch", parts.batch}, heads{"heads", parts.heads},
      length{"length", parts.length}, memory{"memory", parts.memory},
      d{"d", parts.d};
  const Dimension d_v = parts.d_v == 0 ? d : Dimension{"d_v", parts.d_v};
  const auto input = [&](const char* name, Dimension rows, Dimension last) {
    return Cast(Input(graph, name, kFloat32, {batch, rows, heads, last}),
                parts.dtype);
  };
  const auto shape_of = [&](const std::string& letters) {
    std::vector<Dimension> dims;
    for (char letter : letters) {
      dims.push_back(letter == 'b'   ? batch
                     : letter == 'h' ? heads
                     : letter == 'l' ? length
                                     : memory);
    }
    return Shape(std::move(dims));
  };
  const Tensor q = input("q", length, d), k = input("k", memory, d),
               v = input("v", memory, d_v);
  Tensor mask, added;
  if (!parts.mask.empty()) {
    mask = Input(graph, "mask", kBool, shape_of(parts.mask));
  }
  if (!parts.added.empty()) {
    added = Input(graph, "added", parts.added_dtype, shape_of(parts.added));
  }
  const Tensor o = nn::DotProductAttention(q, k, v,
                                           {.length = length,
                                            .memory_length = memory,
                                            .d_kv = d,
                                            .d_v = d_v,
                                            .causal = parts.causal,
                                            .dropout = parts.dropout,
                                            .mask = mask,
                                            .bias = added});
  Targets targets;
  targets.fetches = {Cast(o, kFloat32)};
  if (parts.gradient) {
    const Tensor weight = Input(graph, "weight", kFloat32, o.shape());
    const Tensor loss = ReduceSum(Cast(o, kFloat32) * weight, Shape());
    std::vector<Tensor> of = {q, k, v};
    if (parts.trains_added) of.push_back(added);
    for (Tensor gradient : Gradients(loss, of)) {
      targets.fetches.push_back(Cast(gradient, kFloat32));
    }
  }
  return targets;
}

}  // namespace mtf::testing

#endif  // TESTS_LOWERING_ATTENTION_PARTS_H_
