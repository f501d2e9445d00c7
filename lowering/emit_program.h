// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_EMIT_PROGRAM_H_
#define LOWERING_EMIT_PROGRAM_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lowering/lower.h"
#include "lowering/program.h"
#include "lowering/second_names.h"
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
                                    const Targets& targets,
                                    absl::Span<const int> stand_ins = {});

// All that BindLayout wants to know of a graph, for who binds it often.
struct DimensionTable {
  std::vector<std::string> names;  // in the order of first use
  std::vector<std::pair<std::string, std::string>> tied;
  NamePairs second_names;  // SecondNamesOf
};
DimensionTable DimensionsOf(const Graph& graph);
std::vector<std::string> DimensionNames(const Graph& graph);

// BindLayout with the dimensions of `graph`, for who has them.
absl::StatusOr<LayoutBinding> BindLayout(const Graph& graph,
                                         const DimensionTable& dimensions,
                                         const Mesh& mesh,
                                         const LayoutRules& rules,
                                         bool strict);

// BindLayout without the budget of the rules and its notices.
absl::StatusOr<LayoutBinding> BindDimensions(const DimensionTable& dimensions,
                                             const Mesh& mesh,
                                             const LayoutRules& rules,
                                             bool strict = false);

}  // namespace mtf

#endif  // LOWERING_EMIT_PROGRAM_H_
