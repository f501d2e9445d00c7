// SPDX-License-Identifier: Apache-2.0
//
// Decodes token by token with a cache of keys and values, and compares the
// logits of each position with those of attention to the whole sequence. The
// last layout shards the cache by positions.
//
// Layout: data:2 | batch:data
// Layout: data:2,model:2 | batch:data, heads:model, vocab:model
// Layout: memory:2 | memory_length:memory
//
// Missing: layers that share parameters (here they are created apart from the
// layers); a cache that is updated in place (here a step writes all of it); a
// loop over tokens on the devices (here each token is a step of the session).
#include <vector>

#include "absl/strings/str_format.h"
#include "mtf/mtf.h"
using namespace mtf;

const Dimension batch{"batch", 4}, length{"length", 10}, one{"length", 1},
    memory_length{"memory_length", 10}, d_model{"d_model", 16},
    heads{"heads", 2}, d_kv{"d_kv", 8}, vocab{"vocab", 13};

struct Parameters {
  Tensor table, query, key, value, output;
};

// The logits of x, whose queries attend to `keys` where `mask` is true.
Tensor Logits(const Parameters& p, Tensor x, Tensor keys, Tensor values,
              Tensor mask) {
  const Dimension positions = x.dim("length");
  Tensor q = Einsum({x, p.query}, {batch, positions, heads, d_kv});
  Tensor y = nn::DotProductAttention(q, keys, values,
                                     {.length = positions,
                                      .memory_length = memory_length,
                                      .d_kv = d_kv,
                                      .mask = mask});
  y = x + Einsum({y, p.output}, x.shape());
  return Einsum({y, p.table}, {batch, positions, vocab});
}

absl::Status Decode() {
  Graph graph;
  const Shape from = {d_model}, to = {heads, d_kv};
  const Parameters p = {nn::EmbeddingTable(graph, vocab, d_model),
                        nn::Kernel(graph, "query", from, to, kFloat32),
                        nn::Kernel(graph, "key", from, to, kFloat32),
                        nn::Kernel(graph, "value", from, to, kFloat32),
                        nn::Kernel(graph, "output", to, from, kFloat32)};
  // All positions at once.
  Tensor tokens = Input(graph, "tokens", kInt32, {batch, length});
  Tensor x = nn::Embedding(tokens, vocab, d_model, {.table = p.table});
  Tensor y = Rename(x, "length", "memory_length");
  const Shape cache = {batch, memory_length, heads, d_kv};
  Tensor full =
      Logits(p, x, Einsum({y, p.key}, cache), Einsum({y, p.value}, cache),
             Range(graph, memory_length) <= Range(graph, length));

  // One position: its key and value enter the caches, which its query reads.
  Tensor position = Input(graph, "position", kInt32, {});
  Tensor token = Reshape(Index(tokens, "length", position), {batch, one});
  x = nn::Embedding(token, vocab, d_model, {.table = p.table});
  const auto extend = [&](const char* name, Tensor kernel) {
    Tensor old = Variable(graph, name, Zeros(graph, kFloat32, cache),
                          {.trainable = false});
    Tensor row = Einsum({x, kernel}, {batch, heads, d_kv});
    Tensor here = Range(graph, memory_length) == position;
    return Assign(old, Select(here, row, old));
  };
  Tensor keys = extend("keys", p.key), values = extend("values", p.value);
  Tensor seen = Range(graph, memory_length) <= position;
  Tensor logits = Index(Logits(p, x, keys, values, seen), "length", 0);
  Tensor next = ArgMax(logits, "vocab");
  Tensor best = ReduceMax(logits, {});
  Tensor error = Abs(logits - Index(full, "length", position)) / best;
  train::RunRequest request = {.fetches = {next, best, ReduceMax(error, {})},
                               .updates = {keys, values}};
  MTF_ASSIGN_OR_RETURN(auto session, train::StartSession(graph, request));
  std::vector<int32_t> ids(batch.size * length.size, 0);
  for (int b = 0; b < batch.size; ++b) ids[b * length.size] = 3 * b + 1;
  for (int t = 0; t < length.size; ++t) {
    request.feeds = {{"tokens", HostTensor::Of<int32_t>({batch, length}, ids)},
                     {"position", HostTensor::Of<int32_t>({}, {t})}};
    MTF_ASSIGN_OR_RETURN(auto result, session->Run(request));
    MTF_ASSIGN_OR_RETURN(const double logit, result[1].At(0));
    MTF_ASSIGN_OR_RETURN(const double difference, result[2].At(0));
    train::Say(absl::StrFormat("result logit %.9f", logit));
    if (!(difference <= 1e-5)) return absl::InternalError("other logits");
    MTF_ASSIGN_OR_RETURN(const auto chosen, result[0].values<int32_t>());
    for (int b = 0; b < batch.size && t + 1 < length.size; ++b) {
      ids[b * length.size + t + 1] = chosen[b];
    }
  }
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  return train::RunMain(argc, argv, "Decodes with a cache.", &Decode);
}
