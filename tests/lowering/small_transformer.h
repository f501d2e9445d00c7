// SPDX-License-Identifier: Apache-2.0
//
// The program that users write first: a decoder-only transformer.
#ifndef TESTS_LOWERING_SMALL_TRANSFORMER_H_
#define TESTS_LOWERING_SMALL_TRANSFORMER_H_

#include <vector>

#include "absl/strings/str_cat.h"
#include "lowering/lower.h"
#include "mtf/graph.h"
#include "nn/attention/attention.h"
#include "nn/layers/embedding.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/layer_norm.h"
#include "nn/losses/cross_entropy.h"
#include "nn/optimizers/adam.h"
#include "ops/elementwise.h"
#include "ops/input.h"

namespace mtf::testing {

struct TransformerSizes {
  int layers = 2;
  int64_t batch = 8, length = 16, d_model = 8, heads = 4, d_kv = 2, d_ff = 32,
          vocab = 64;
  DType dtype = kFloat32;  // of activations; parameters are f32
  bool biases = false;     // as in GPT-2
};

struct Transformer {
  std::vector<Tensor> residuals;  // between blocks
  Tensor loss, step;
};

inline Transformer BuildTransformer(Graph& graph,
                                    const TransformerSizes& sizes = {}) {
  const Dimension batch{"batch", sizes.batch}, length{"length", sizes.length},
      d_model{"d_model", sizes.d_model}, heads{"heads", sizes.heads},
      d_kv{"d_kv", sizes.d_kv}, d_ff{"d_ff", sizes.d_ff},
      vocab{"vocab", sizes.vocab};
  Transformer model;
  Tensor tokens = Input(graph, "tokens", kInt32, {batch, length});
  Tensor targets = Input(graph, "targets", kInt32, {batch, length});
  Tensor x = nn::Embedding(tokens, vocab, d_model, {.dtype = sizes.dtype});
  for (int layer = 0; layer < sizes.layers; ++layer) {
    Scope scope(graph, absl::StrCat("layer_", layer));
    x = x +
        nn::SelfAttention(nn::LayerNorm(x, d_model), {.length = length,
                                                      .heads = heads,
                                                      .d_kv = d_kv,
                                                      .causal = true,
                                                      .bias = sizes.biases});
    x = x + nn::FeedForward(nn::LayerNorm(x, d_model), d_ff, Gelu,
                            {.bias = sizes.biases});
    model.residuals.push_back(x);
  }
  model.loss = nn::CrossEntropy(x, vocab, targets);
  model.step = nn::AdamW({.learning_rate = 3e-3}).Minimize(model.loss);
  return model;
}

}  // namespace mtf::testing

#endif  // TESTS_LOWERING_SMALL_TRANSFORMER_H_
