// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_LEAST_TIME_H_
#define PLANNING_COST_LEAST_TIME_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lowering/fusion/attention_group.h"
#include "lowering/program/program.h"
#include "mtf/graph.h"
#include "planning/machine/machine.h"

namespace mtf::internal {

// How many layers a larger step has besides those of a program, by the scope
// that numbers them ("layer_").
using ExtraLayers = absl::flat_hash_map<std::string, double>;

// Those of a step that lies at `place` on the line through two steps, 0 the
// smaller and 1 the larger, besides those of the smaller.
ExtraLayers LayersBesides(const Graph& smaller, const Graph& larger,
                          double place);

// What a step takes at least that has `more` layers besides those of `program`,
// which is planned (EstimateStep): no less than all kernels and the collectives
// that hold them up, one after the other, nor than all collectives. A layer
// that is not there counts as the least of those that are.
double LeastSeconds(const Program& program, const Machine& machine,
                    const std::vector<AttentionGroup>& attention,
                    const ExtraLayers& more);

}  // namespace mtf::internal

#endif  // PLANNING_COST_LEAST_TIME_H_
