// SPDX-License-Identifier: Apache-2.0
#include "train/placement.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "backends/communicators/launcher.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf::train {

absl::StatusOr<Placement> ParsePlacement(absl::string_view mesh,
                                         absl::string_view layout,
                                         int64_t num_ranks) {
  mesh = absl::StripAsciiWhitespace(mesh);
  layout = absl::StripAsciiWhitespace(layout);
  Placement placement;
  absl::string_view path = layout;
  // A rule has a colon; one name without it can only be meant as a preset.
  const bool is_preset = IsLayoutName(layout);
  if (absl::ConsumePrefix(&path, "@")) {
    MTF_ASSIGN_OR_RETURN(placement.rules,
                         LayoutRules::ReadFile(std::string(path)));
  } else if (is_preset) {
    MTF_ASSIGN_OR_RETURN(placement.rules, LayoutRules::Preset(layout));
  } else {
    MTF_ASSIGN_OR_RETURN(placement.rules,
                         LayoutRules::Parse(layout, "--layout"));
  }
  if (mesh.empty() && is_preset) {
    MTF_ASSIGN_OR_RETURN(
        placement.mesh,
        LayoutRules::PresetMesh(layout, std::max<int64_t>(num_ranks, 1)));
  } else {
    // One rank of a launcher runs any mesh as threads, but what is left over
    // for "-1" is that rank.
    if (num_ranks == 0 && absl::StrContains(mesh, ":-1") &&
        !DetectLauncher().name.empty()) {
      num_ranks = 1;
    }
    MTF_ASSIGN_OR_RETURN(placement.mesh, Mesh::Parse(mesh, num_ranks));
  }
  return placement;
}

}  // namespace mtf::train
