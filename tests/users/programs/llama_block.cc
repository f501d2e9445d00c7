// SPDX-License-Identifier: Apache-2.0
//
// Two blocks of a Llama: RMS norms, rotary positions, grouped-query attention
// and a gated feed-forward layer, on sequences that count upwards.
//
// Layout: data:2 | batch:data
// Layout: data:2,model:2 | batch:data, kv_heads:model, d_ff:model, vocab:model
//
// Missing: rotary embeddings and grouped queries in nn::SelfAttention, so both
// are written out here, with projections of one's own.
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"
using namespace mtf;

const Dimension batch{"batch", 8}, length{"length", 12},
    memory_length{"memory_length", 12}, d_model{"d_model", 32},
    kv_heads{"kv_heads", 2}, group{"group", 2}, d_kv{"d_kv", 8},
    d_ff{"d_ff", 64}, vocab{"vocab", 23};

// Rotates the pairs (i, i + d_kv / 2) of queries or keys by angles that grow
// with the position (Su et al., 2021).
Tensor Rotate(Tensor x) {
  Graph& graph = x.graph();
  const Dimension pair{"pair", 2}, half{"half", d_kv.size / 2};
  std::vector<double> frequencies;
  for (int i = 0; i < half.size; ++i) {
    frequencies.push_back(std::pow(10000.0, -i / double(half.size)));
  }
  Tensor angle = Range(graph, length, kFloat32) *
                 Constant(graph, frequencies, kFloat32, {half});
  Tensor parts = SplitDimension(x, "d_kv", {pair, half});
  Tensor a = Index(parts, "pair", 0), b = Index(parts, "pair", 1);
  Tensor turned =
      Stack({a * Cos(angle) - b * Sin(angle), a * Sin(angle) + b * Cos(angle)},
            "pair");
  return Transpose(MergeDimensions(turned, {"pair", "half"}, "d_kv"),
                   x.shape());
}

// Each key and value serves the queries of a group.
Tensor Attention(Tensor x) {
  const auto project = [x](const char* name, Shape output) {
    return nn::Dense(x, {d_model}, output, {.bias = false, .name = name});
  };
  Tensor q = Rotate(project("query", {kv_heads, group, d_kv}));
  Tensor k = Rotate(project("key", {kv_heads, d_kv}));
  Tensor v = project("value", {kv_heads, d_kv});
  Tensor y = nn::DotProductAttention(q, Rename(k, "length", "memory_length"),
                                     Rename(v, "length", "memory_length"),
                                     {.length = length,
                                      .memory_length = memory_length,
                                      .d_kv = d_kv,
                                      .causal = true});
  return nn::Dense(y, {kv_heads, group, d_kv}, {d_model},
                   {.bias = false, .name = "output"});
}

absl::Status Learn() {
  Graph graph;
  // Sequences start anywhere and count upwards: the next token is known.
  Tensor start = Cast(RandomUniform(graph, {batch}, 0, vocab.size), kInt32);
  Tensor tokens = Mod(start + Range(graph, length), double(vocab.size));
  Tensor targets = Mod(tokens + 1.0, double(vocab.size));

  Tensor x = nn::Embedding(tokens, vocab, d_model);
  for (int layer = 0; layer < 2; ++layer) {
    Scope scope(graph, absl::StrCat("layer_", layer));
    x += Attention(nn::RmsNorm(x, d_model));
    x += nn::FeedForward(nn::RmsNorm(x, d_model), d_ff, Swish, {.gated = true});
  }
  Tensor loss = nn::CrossEntropy(nn::RmsNorm(x, d_model), vocab, targets);
  Tensor step =
      nn::AdamW({.learning_rate = 0.01, .max_gradient_norm = 1}).Minimize(loss);

  const train::RunRequest request = {.fetches = {loss}, .updates = {step}};
  MTF_ASSIGN_OR_RETURN(auto session, train::StartSession(graph, request));
  double now = 0;
  for (int i = 0; i < 30; ++i) {
    MTF_ASSIGN_OR_RETURN(auto values, session->Run(request));
    MTF_ASSIGN_OR_RETURN(now, values[0].At(0));
    if (i % 10 == 9) train::Say(absl::StrFormat("result loss %.9f", now));
  }
  return now < 0.5 ? absl::OkStatus() : absl::InternalError("no learning");
}

int main(int argc, char** argv) {
  return train::RunMain(argc, argv, "Trains two blocks of a Llama.", &Learn);
}
