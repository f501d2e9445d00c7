// SPDX-License-Identifier: Apache-2.0
#include "train/weights/set_parameters.h"

#include <algorithm>
#include <vector>

#include "mtf/status.h"
#include "train/weights/shard_ranges.h"

namespace mtf::train {
namespace {

// The buffers of all shards of a rank, allocated once: temporary tensors of
// many sizes would leave gaps in the heap.
class ShardBuffers {
 public:
  explicit ShardBuffers(const RankVariables& rank) {
    int64_t most = 0;
    for (const VariableShard& shard : rank.shards()) {
      most = std::max(most, shard.ValidShape().num_elements());
    }
    values_.resize(most);
  }
  absl::Span<float> Values(int64_t count) {
    return absl::MakeSpan(values_.data(), count);
  }
  // `values` in `dtype`.
  const void* Converted(absl::Span<const float> values, DType dtype) {
    if (dtype == kFloat32) return values.data();
    elements_.resize(
        std::max(elements_.size(), values.size() * DTypeSize(dtype)));
    StoreFloats(values, dtype, elements_.data());
    return elements_.data();
  }

 private:
  std::vector<float> values_;
  std::vector<char> elements_;
};

}  // namespace

std::map<int, const nn::ParameterWeights*> WeightsByVariable(
    const Graph& graph, const std::vector<nn::ParameterWeights>& all) {
  std::map<int, const nn::ParameterWeights*> weights_of;
  for (const nn::ParameterWeights& weights : all) {
    const VariableInfo& info = graph.variables()[weights.variable];
    for (const int id : {info.id, info.master, info.average}) {
      if (id >= 0) weights_of[id] = &weights;
    }
  }
  return weights_of;
}

absl::Status SetRankParameters(
    const Graph& graph, const WeightFiles& files,
    const std::map<int, const nn::ParameterWeights*>& weights_of,
    RankVariables& rank) {
  ShardBuffers buffers(rank);
  for (const VariableShard& shard : rank.shards()) {
    const auto at = weights_of.find(shard.variable);
    if (at == weights_of.end()) continue;
    const nn::ParameterWeights& weights = *at->second;
    const ElementRanges ranges = ValidRanges(shard);
    const absl::Span<float> values =
        buffers.Values(shard.ValidShape().num_elements());
    MTF_RETURN_IF_ERROR(files.ReadInto(weights, shard.shape, ranges, values));
    if (shard.variable == weights.variable) {
      MTF_RETURN_IF_ERROR(
          files.CheckCopies(weights, shard.shape, ranges, values));
    }
    // A parameter is the rounded value of its master copy.
    const VariableInfo& info = graph.variables()[shard.variable];
    const DType master =
        info.master >= 0 ? graph.variables()[info.master].dtype : kFloat32;
    if (master != kFloat32) {
      for (float& value : values) {
        value = static_cast<float>(RoundToDType(value, master));
      }
    }
    MTF_RETURN_IF_ERROR(
        rank.WriteElements(shard, buffers.Converted(values, shard.dtype)));
  }
  return absl::OkStatus();
}

absl::Status SetParameters(Session& session, const WeightFiles& files,
                           const std::vector<nn::ParameterWeights>& all) {
  const Graph& graph = session.graph();
  const auto weights_of = WeightsByVariable(graph, all);
  return session.Agree(session.OnEachRank([&](RankVariables& rank) {
    return SetRankParameters(graph, files, weights_of, rank);
  }));
}

}  // namespace mtf::train
