// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_BATCH_MAPS_H_
#define LOWERING_PASSES_BATCH_MAPS_H_

#include "absl/status/status.h"
#include "lowering/fusion/fusion_capabilities.h"
#include "lowering/program/program.h"

namespace mtf {

// Groups maps that one kernel can compute: an optimizer's update of all
// parameters is one launch instead of three per parameter, and on a CPU one
// pass over memory for each parameter and one barrier for all of them.
//
//   before  %m1 = map(%m, %g) ...      // [d_model, d_ff]
//           %w1 = map(%w, %m1) ...     // reads %m1 at the same element
//           %n1 = map(%n, %h) ...      // [vocab, d_model]
//   after   group maps(%m1, %w1; %n1)
//
// A group has at least two maps; only instructions that do nothing at run time
// lie between them. The maps of a section have results of the same dimensions
// in the same order, and read each other's results at the same element. No
// section reads another's results. On a device with `any_order` unset each
// operand has the dimensions of the section too or is a single number.
//
// Maps of single numbers form groups of their own, because many later
// instructions read them.
//
// Runs last of the fusion passes: the maps that remain.
absl::Status BatchMaps(const FusionCapabilities& device, Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_BATCH_MAPS_H_
