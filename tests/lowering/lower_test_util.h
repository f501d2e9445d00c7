// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_LOWERING_LOWER_TEST_UTIL_H_
#define TESTS_LOWERING_LOWER_TEST_UTIL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lowering/lower.h"
#include "lowering/program/count_costs.h"
#include "mtf/status.h"
#include "tests/matchers.h"

namespace mtf::testing {

// Lowers `targets` of `graph` on the mesh and under the layout of two texts.
inline absl::StatusOr<Program> LowerText(const Graph& graph,
                                         absl::string_view mesh_text,
                                         absl::string_view layout_text,
                                         const Targets& targets,
                                         const LowerOptions& options = {}) {
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(mesh_text));
  MTF_ASSIGN_OR_RETURN(const LayoutRules rules,
                       LayoutRules::Parse(layout_text, "--layout"));
  MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                       BindLayout(graph, mesh, rules));
  return Lower(graph, binding, targets, options);
}

// The same under a preset, on its own mesh of `ranks` ranks.
inline absl::StatusOr<Program> LowerPreset(const Graph& graph,
                                           absl::string_view preset,
                                           int64_t ranks,
                                           const Targets& targets,
                                           const LowerOptions& options = {}) {
  MTF_ASSIGN_OR_RETURN(const LayoutRules rules, LayoutRules::Preset(preset));
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, LayoutRules::PresetMesh(preset, ranks));
  MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                       BindLayout(graph, mesh, rules));
  return Lower(graph, binding, targets, options);
}

// Calls and bytes per kind and axes, a line each: "all_reduce model 2x 512".
inline std::string Costs(const absl::StatusOr<Program>& program) {
  if (!program.ok()) return ErrorText(program.status());
  std::string text;
  for (const auto& [key, count] : CountCollectives(*program)) {
    absl::StrAppend(&text, CollectiveName(key.first), " ",
                    program->mesh.AxisNames(ListOf(key.second)), " ",
                    count.first, "x ", count.second, "\n");
  }
  return text;
}

}  // namespace mtf::testing

#endif  // TESTS_LOWERING_LOWER_TEST_UTIL_H_
