// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_EMIT_PROGRAM_H_
#define LOWERING_EMIT_PROGRAM_H_

#include "absl/status/statusor.h"
#include "lowering/lower.h"
#include "lowering/program.h"
#include "mtf/graph.h"

namespace mtf {

// Writes the operations that `targets` need as instructions over global
// shapes. Every value gets the layout that the rules give its dimensions;
// where an operation meets a value in another layout, or still unreduced, an
// abstract reshard stands between them. Nothing is delayed, fused or expanded
// here: the passes do that.
//
// kInvalidArgument, at the user's line, where two dimensions of one operation
// are cut over one mesh axis.
absl::StatusOr<Program> EmitProgram(const Graph& graph,
                                    const LayoutBinding& binding,
                                    const Targets& targets);

// The dimension names of a graph, in the order of first use.
std::vector<std::string> DimensionNames(const Graph& graph);

}  // namespace mtf

#endif  // LOWERING_EMIT_PROGRAM_H_
