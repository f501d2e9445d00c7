// SPDX-License-Identifier: Apache-2.0
#include "train/weights/set_parameters.h"

#include <algorithm>
#include <vector>

#include "mtf/status.h"
#include "train/weights/shard_ranges.h"

namespace mtf::train {
namespace {

// The bytes of the largest shard of `rank` that is set.
int64_t MostBytes(
    const RankVariables& rank,
    const std::map<int, const nn::ParameterWeights*>& weights_of) {
  int64_t most = 0;
  for (const VariableShard& shard : rank.shards()) {
    if (!weights_of.contains(shard.variable)) continue;
    most = std::max(most,
                    shard.ValidShape().num_elements() * DTypeSize(shard.dtype));
  }
  return most;
}

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
  // One buffer for all shards: temporary buffers of many sizes would leave gaps
  // in the heap.
  std::vector<char> elements(MostBytes(rank, weights_of));
  for (const VariableShard& shard : rank.shards()) {
    const auto at = weights_of.find(shard.variable);
    if (at == weights_of.end()) continue;
    const nn::ParameterWeights& weights = *at->second;
    const ElementRanges ranges = ValidRanges(shard);
    const VariableInfo& info = graph.variables()[shard.variable];
    const DType master =
        info.master >= 0 ? graph.variables()[info.master].dtype : kFloat32;
    MTF_RETURN_IF_ERROR(files.ReadInto(weights, shard.shape, ranges, master,
                                       shard.dtype, elements.data()));
    if (shard.variable == weights.variable) {
      MTF_RETURN_IF_ERROR(files.CheckCopies(weights, shard.shape, ranges));
    }
    MTF_RETURN_IF_ERROR(rank.WriteElements(shard, elements.data()));
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
