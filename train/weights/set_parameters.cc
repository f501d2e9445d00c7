// SPDX-License-Identifier: Apache-2.0
#include "train/weights/set_parameters.h"

#include <map>

#include "mtf/status.h"
#include "train/session/rank_variables.h"
#include "train/weights/shard_ranges.h"

namespace mtf::train {
namespace {

// By the id of a variable: the weights of which it is set. Those of a parameter
// also are those of its master copy and its moving average.
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

}  // namespace

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
              const HostTensor wide,
              files.Read(*weights->second, shard.shape, ValidRanges(shard)));
          const VariableInfo& info = graph.variables()[shard.variable];
          const std::vector<float> values =
              FloatsOf(wide.data(), kFloat32, wide.num_elements());
          // A parameter is the rounded value of its master copy.
          const DType master = info.master >= 0
                                   ? graph.variables()[info.master].dtype
                                   : shard.dtype;
          const HostTensor exact = TensorOfFloats(wide.shape(), master, values);
          MTF_RETURN_IF_ERROR(rank.Write(
              shard, TensorOfFloats(wide.shape(), shard.dtype,
                                    FloatsOf(exact.data(), master,
                                             exact.num_elements()))));
        }
        return absl::OkStatus();
      });
  return session.Agree(status);
}

}  // namespace mtf::train
