// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_VARIABLE_HISTOGRAMS_H_
#define TRAIN_LOOP_VARIABLE_HISTOGRAMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mtf/graph.h"
#include "train/loop/event_file.h"
#include "train/session/session.h"

namespace mtf::train {

// The values of a variable. The histogram leaves out those that are not finite.
struct VariableHistogram {
  std::string name;
  Histogram histogram;
  int64_t infinite = 0, nan = 0;  // elements
};

// The ids of the float parameters of `graph` whose names match one of
// `patterns` (mtf/scope_pattern.h), all if there are none. kInvalidArgument for
// a pattern that is malformed or matches no parameter, with one that does.
absl::StatusOr<std::vector<int>> ParametersThatMatch(
    const Graph& graph, const std::vector<std::string>& patterns);

// Counts the elements of the variables with these ids, in their order, each
// once. No variable is gathered: each rank copies one shard at a time to host
// memory, if it is its first replica, and the counts are added up. They do not
// depend on the layout, except for the rounding of the sums. Collective; errors
// are those of Session::OnEachRank.
absl::StatusOr<std::vector<VariableHistogram>> HistogramsOfVariables(
    Session& session, const std::vector<int>& ids);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_VARIABLE_HISTOGRAMS_H_
