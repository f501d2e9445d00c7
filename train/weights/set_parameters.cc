// SPDX-License-Identifier: Apache-2.0
#include "train/weights/set_parameters.h"

#include <utility>

#include "mtf/status.h"
#include "train/session/rank_variables.h"
#include "train/weights/shard_ranges.h"

namespace mtf::train {
namespace {

// `value` itself if it has the dtype.
HostTensor ConvertedTo(HostTensor value, DType dtype) {
  if (value.dtype() == dtype) return value;
  return TensorOfFloats(
      value.shape(), dtype,
      FloatsOf(value.data(), value.dtype(), value.num_elements()));
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

absl::Status SetParameters(Session& session, const WeightFiles& files,
                           const std::vector<nn::ParameterWeights>& all) {
  const Graph& graph = session.graph();
  const auto weights_of = WeightsByVariable(graph, all);
  const absl::Status status =
      session.OnEachRank([&](RankVariables& rank) -> absl::Status {
        for (const VariableShard& shard : rank.shards()) {
          const auto weights = weights_of.find(shard.variable);
          if (weights == weights_of.end()) continue;
          MTF_ASSIGN_OR_RETURN(
              HostTensor value,
              files.Read(*weights->second, shard.shape, ValidRanges(shard)));
          // A parameter is the rounded value of its master copy.
          const VariableInfo& info = graph.variables()[shard.variable];
          if (info.master >= 0) {
            value = ConvertedTo(std::move(value),
                                graph.variables()[info.master].dtype);
          }
          MTF_RETURN_IF_ERROR(
              rank.Write(shard, ConvertedTo(std::move(value), shard.dtype)));
        }
        return absl::OkStatus();
      });
  return session.Agree(status);
}

}  // namespace mtf::train
