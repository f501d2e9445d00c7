// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_WEIGHTS_SET_PARAMETERS_H_
#define TRAIN_WEIGHTS_SET_PARAMETERS_H_

#include <map>
#include <vector>

#include "absl/status/status.h"
#include "nn/models/weight_map.h"
#include "train/session/rank_variables.h"
#include "train/session/session.h"
#include "train/weights/weight_files.h"

namespace mtf::train {

// By the id of a variable: the weights of which it is set. Those of a parameter
// also are those of its master copy and its moving average.
std::map<int, const nn::ParameterWeights*> WeightsByVariable(
    const Graph& graph, const std::vector<nn::ParameterWeights>& all);

// Sets the variables of `weights_of` on one rank to what `files`, which has
// been checked, has for them. Reads the elements of the rank's shards, one
// shard after the other.
absl::Status SetRankParameters(
    const Graph& graph, const WeightFiles& files,
    const std::map<int, const nn::ParameterWeights*>& weights_of,
    RankVariables& rank);

// Sets the parameters of `all`, their master copies and their moving averages
// to what `files`, which has been checked, has for them. Each rank reads the
// elements of its shards. Collective.
absl::Status SetParameters(Session& session, const WeightFiles& files,
                           const std::vector<nn::ParameterWeights>& all);

}  // namespace mtf::train

#endif  // TRAIN_WEIGHTS_SET_PARAMETERS_H_
