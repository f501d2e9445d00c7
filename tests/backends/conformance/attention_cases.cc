// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "tests/backends/conformance/attention_cases.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace mtf::testing {
namespace {

// Makes the tensors of one case.
class TensorMaker {
 public:
  explicit TensorMaker(const AttentionCase& made) : made_(made) {}

  // A tensor with the given dimensions and pseudorandom elements in
  // [low, high).
  LocalTensor Make(const std::string& names, DType dtype, double low,
                   double high) {
    std::vector<Dimension> dims;
    std::vector<ShardedDimension> shards;
    for (absl::string_view name :
         absl::StrSplit(names, ' ', absl::SkipEmpty())) {
      const auto [size, shard] = Of(name);
      dims.push_back({std::string(name), size});
      shards.push_back(shard);
    }
    LocalTensor tensor = Shard(Shape(dims), shards, dtype);
    for (double& x : tensor.values) {
      x = low + (high - low) * static_cast<double>(random_()) / 0x1p32;
      if (!IsFloat(dtype)) x = std::floor(x);
    }
    return Shard(Shape(std::move(dims)), std::move(shards), dtype,
                 tensor.values);
  }

 private:
  std::pair<int64_t, ShardedDimension> Of(absl::string_view name) const {
    const auto full = [](int64_t size) {
      return std::pair(size, ShardedDimension{size, 0, size});
    };
    if (name == "batch") return {made_.batch, made_.of_batch};
    if (name == "length") return {made_.length, made_.of_length};
    if (name == "heads") return full(made_.heads);
    if (name == "groups") return full(made_.groups);
    if (name == "d_kv") return full(made_.d_kv);
    if (name == "d_v") return full(made_.d_v);
    // The padding of the memory, which is not sharded.
    return {made_.memory, {made_.memory + 2, 0, made_.memory}};
  }

  const AttentionCase& made_;
  std::mt19937 random_{4711};
};

AttentionCase With(AttentionCase base, std::string name) {
  base.name = std::move(name);
  return base;
}

}  // namespace

std::vector<AttentionCase> AttentionCases() {
  std::vector<AttentionCase> cases;
  for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    AttentionCase plain;
    plain.dtype = dtype;
    const auto add = [&](const std::string& name) -> AttentionCase& {
      cases.push_back(With(plain, absl::StrCat(DTypeName(dtype), " ", name)));
      return cases.back();
    };
    add("plain").d_v = 6;
    add("causal").spec.causal = true;
    AttentionCase& window = add("window");
    window.spec.causal = true;
    window.spec.window = 3;
    add("soft cap").spec.soft_cap = 1.5;
    AttentionCase& dropout = add("dropout");
    dropout.spec.dropout = 0.3;
    dropout.spec.stream = 5;
    dropout.of_batch = {1, 1, 1};
    AttentionCase& shard = add("shard of the length");
    shard.spec.causal = true;
    shard.length = shard.memory = 9;
    shard.of_length = {5, 5, 4};
    AttentionCase& empty = add("empty shard");
    empty.of_length = {4, 5, 0};
    AttentionCase& grouped = add("grouped queries");
    grouped.grouped = true;
    grouped.groups = 3;
    AttentionCase& masked = add("mask and bias");
    masked.mask = "batch length memory";
    masked.bias = "heads length memory";
    AttentionCase& key_bias = add("bias of keys");
    key_bias.bias = "memory";
    key_bias.mask = "memory batch";
    AttentionCase& offset = add("offset");
    offset.spec.causal = true;
    offset.offset = "batch";
    AttentionCase& extra = add("extra logit");
    extra.extra_logit = "heads";
    extra.logsumexp_gradient = true;
    AttentionCase& large = add("several blocks");
    large.batch = 1;
    large.of_batch = {1, 0, 1};
    large.length = large.memory = 301;
    large.of_length = {301, 0, 301};
    large.d_kv = large.d_v = 16;
    large.spec.causal = true;
    large.bias = "heads length memory";
    AttentionCase& everything = add("everything");
    everything.spec.causal = true;
    everything.spec.window = 150;
    everything.spec.soft_cap = 2;
    everything.spec.dropout = 0.1;
    everything.length = everything.memory = 200;
    everything.of_length = {101, 100, 100};
    everything.grouped = true;
    everything.groups = 2;
    everything.mask = "memory";
    everything.bias = "length memory";
    everything.offset = "";
    everything.extra_logit = "heads length";
    everything.logsumexp_gradient = true;
  }
  return cases;
}

DeviceCase MakeAttentionCase(const AttentionCase& made, bool gradient) {
  TensorMaker maker(made);
  const std::string heads = made.grouped ? "heads groups" : "heads";
  AttentionAttributes attributes;
  attributes.spec = made.spec;
  DeviceCase test;
  test.context = {.seed = 3, .step = 2, .error = {}};
  const auto numbers = [&](const std::string& names, double range = 1.5) {
    return maker.Make(names, made.dtype, -range, range);
  };
  test.operands = {numbers(absl::StrCat("batch length ", heads, " d_kv")),
                   numbers("batch memory heads d_kv"),
                   numbers("batch memory heads d_v")};
  const auto give = [&](const std::string& names, DType dtype, double low,
                        double high) {
    if (names == "none") return false;
    test.operands.push_back(maker.Make(names, dtype, low, high));
    return true;
  };
  attributes.mask = give(made.mask, kBool, 0.3, 2);
  attributes.bias = give(made.bias, kFloat32, -2, 2);
  attributes.offset = give(made.offset, kInt32, -3, 4);
  attributes.extra_logit = give(made.extra_logit, kFloat32, -2, 2);
  const std::string rows = absl::StrCat("batch ", heads, " length");
  const LocalTensor output =
      numbers(absl::StrCat("batch length ", heads, " d_v"));
  const LocalTensor logsumexp = maker.Make(rows, kFloat32, -1, 1);
  if (!gradient) {
    test.instruction = Instruction(Opcode::kAttention, attributes);
    test.result = output;
    test.more_results = {logsumexp};
    return test;
  }
  DeviceCase forward = test;
  forward.instruction = Instruction(Opcode::kAttention, attributes);
  forward.result = output;
  forward.more_results = {logsumexp};
  const LocalTensor computed = forward.Run("reference");
  test.operands.push_back(computed);
  test.operands.push_back(forward.more_results[0]);
  test.operands.push_back(output);  // arbitrary numbers
  attributes.logsumexp_gradient = made.logsumexp_gradient;
  if (made.logsumexp_gradient) test.operands.push_back(logsumexp);
  attributes.bias_gradient = attributes.bias;
  attributes.extra_logit_gradient = attributes.extra_logit;
  test.instruction = Instruction(Opcode::kAttentionGradient, attributes);
  const AttentionAttributes::Positions at = attributes.PositionsIn(true);
  test.result = test.operands[0];
  test.more_results = {test.operands[1], test.operands[2]};
  if (attributes.bias) {
    test.more_results.push_back(test.operands[at.operands.bias]);
  }
  if (attributes.extra_logit) {
    test.more_results.push_back(test.operands[at.operands.extra_logit]);
  }
  return test;
}

}  // namespace mtf::testing
