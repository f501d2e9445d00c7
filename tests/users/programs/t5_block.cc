// SPDX-License-Identifier: Apache-2.0
//
// An encoder and a decoder of a T5: a shared table of embeddings, biases by
// relative position, attention of one to the other. It learns to count by two.
//
// Layout: data:2 | batch:data
// Layout: data:2,model:2 | batch:data, heads:model, d_ff:model, vocab:model
//
// Missing: a bias of the logits in nn::DotProductAttention, so attention is
// written out, and no device computes it in one kernel.
#include <cmath>

#include "absl/strings/str_format.h"
#include "mtf/mtf.h"
using namespace mtf;

const Dimension batch{"batch", 16}, length{"length", 6}, memory{"memory", 6},
    d_model{"d_model", 32}, heads{"heads", 2}, d_kv{"d_kv", 16},
    d_ff{"d_ff", 64}, vocab{"vocab", 11}, distance{"distance", 16};

// A learned bias [heads, length, memory] for each distance of two positions.
Tensor PositionBias(Graph& graph) {
  Tensor table =
      nn::Kernel(graph, "position_bias", {distance}, {heads}, kFloat32);
  Tensor apart = Range(graph, memory) - Range(graph, length) + 8.0;
  return Gather(table, Minimum(Maximum(apart, 0.0), 15.0), "distance");
}

// Attention of x [batch, length, d_model] to y [batch, memory, d_model].
Tensor Attention(Tensor x, Tensor y, Tensor bias, bool causal) {
  const auto project = [](Tensor z, const char* name) {
    return nn::Dense(z, {d_model}, {heads, d_kv},
                     {.bias = false, .name = name});
  };
  Graph& graph = x.graph();
  Scope scope(graph, "attention", Scope::kUnique);
  Tensor q = project(x, "query"), k = project(y, "key");
  // T5 does not divide the logits by sqrt(d_kv).
  Tensor logits = Einsum({q, k}, {batch, heads, length, memory});
  if (bias.valid()) logits += bias;
  if (causal) {
    logits = Select(Range(graph, memory) <= Range(graph, length), logits, -1e9);
  }
  Tensor z = Einsum({nn::Softmax(logits, memory), project(y, "value")},
                    {batch, length, heads, d_kv});
  return nn::Dense(z, {heads, d_kv}, {d_model}, {.bias = false});
}

// A block: attention to its input, to `encoded` in a decoder, feed-forward.
Tensor Block(Tensor x, Tensor encoded) {
  const bool decodes = encoded.valid();
  Scope scope(x.graph(), decodes ? "decoder" : "encoder");
  const Tensor y = nn::RmsNorm(x, d_model);
  x += Attention(y, Rename(y, "length", "memory"), PositionBias(x.graph()),
                 decodes);
  if (decodes) x += Attention(nn::RmsNorm(x, d_model), encoded, {}, false);
  return x +
         nn::FeedForward(nn::RmsNorm(x, d_model), d_ff, Gelu, {.gated = true});
}

absl::Status Learn() {
  Graph graph;
  // The source counts upwards by 1, the target from the same number by 2.
  Tensor start = Cast(RandomUniform(graph, {batch}, 0, vocab.size), kInt32);
  Tensor index = Range(graph, length);
  Tensor tokens = Mod(start + index, double(vocab.size));
  Tensor targets = Mod(start + 2.0 * index, double(vocab.size));
  Tensor table = nn::EmbeddingTable(graph, vocab, d_model);
  const auto embed = [&](Tensor ids) {
    return nn::Embedding(ids, vocab, d_model, {.table = table});
  };
  Tensor encoded = nn::RmsNorm(Block(embed(tokens), {}), d_model);
  // The decoder reads the target shifted by one position; token 0 is first.
  Tensor x = Block(embed(Shift(targets, "length", 1, false)),
                   Rename(encoded, "length", "memory"));
  x = nn::RmsNorm(x, d_model) * std::sqrt(1.0 / d_model.size);
  Tensor loss = nn::CrossEntropy(x, vocab, targets, {.kernel = table});
  Tensor step = nn::Sgd({.learning_rate = 0.1}).Minimize(loss);

  const train::RunRequest request = {.fetches = {loss}, .updates = {step}};
  MTF_ASSIGN_OR_RETURN(auto session, train::StartSession(graph, request));
  double first = 0, now = 0;
  for (int i = 0; i < 18; ++i) {
    MTF_ASSIGN_OR_RETURN(auto values, session->Run(request));
    MTF_ASSIGN_OR_RETURN(now, values[0].At(0));
    if (i == 0) first = now;
    if (i % 6 == 0) train::Say(absl::StrFormat("result loss %.9f", now));
  }
  return now < first / 2 ? absl::OkStatus()
                         : absl::InternalError("no learning");
}

int main(int argc, char** argv) {
  return train::RunMain(argc, argv, "Trains an encoder and decoder.", &Learn);
}
