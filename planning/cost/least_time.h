// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_LEAST_TIME_H_
#define PLANNING_COST_LEAST_TIME_H_

#include <vector>

#include "lowering/program/program.h"
#include "planning/cost/repeated_layers.h"
#include "planning/machine/machine.h"

namespace mtf::internal {

// A lower bound on the time of a step with `left_out` more layers than
// `program`, which is planned (EstimateStep): the larger of the time of all
// kernels and synchronous collectives and the time of all collectives. Each
// left out layer counts like the fastest layer of its scope in the program.
double LeastSeconds(const Program& program, const Machine& machine,
                    const LayerCounts& left_out);

}  // namespace mtf::internal

#endif  // PLANNING_COST_LEAST_TIME_H_
