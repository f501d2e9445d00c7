// SPDX-License-Identifier: Apache-2.0
#include "train/loop/peak_share.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "layouts/layout_rules.h"
#include "layouts/mesh.h"
#include "lowering/lower.h"
#include "mtf/operation.h"
#include "mtf/status.h"
#include "planning/explain/explain.h"

namespace mtf::train {
namespace {

// The dtype of most elements of the results of einsums.
DType DTypeOfEinsums(const Graph& graph) {
  std::map<DType, int64_t> elements;
  for (const auto& operation : graph.operations()) {
    if (operation->kind() != "einsum") continue;
    elements[operation->dtype()] += operation->shape().num_elements();
  }
  const auto most = std::max_element(
      elements.begin(), elements.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == elements.end() ? kFloat32 : most->first;
}

}  // namespace

absl::StatusOr<PeakShare> PeakShareOf(const Session& session,
                                      const RunRequest& request,
                                      const Machine& machine) {
  MTF_ASSIGN_OR_RETURN(const Mesh one, Mesh::Parse("one:1"));
  Targets targets;
  targets.fetches = request.fetches;
  targets.updates = request.updates;
  MTF_ASSIGN_OR_RETURN(const Explanation step,
                       Explain(session.graph(), one, LayoutRules(), targets,
                               machine, {.changes = false}));
  constexpr int64_t kSide = 4096;  // large enough to reach peak speed
  const double seconds = machine.MatmulSeconds(DTypeOfEinsums(session.graph()),
                                               1, kSide, kSide, kSide);
  return PeakShare{
      .flops_per_step = step.flops,
      .peak_flops = static_cast<double>(session.mesh().num_devices()) * 2.0 *
                    kSide * kSide * kSide / seconds};
}

}  // namespace mtf::train
