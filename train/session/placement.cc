// SPDX-License-Identifier: Apache-2.0
#include "train/session/placement.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "backends/communicators/launcher.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

// A preset is all of a layout: what to do where more stands behind its name.
absl::Status CheckPresetStandsAlone(absl::string_view layout,
                                    absl::string_view place) {
  const absl::string_view first =
      layout.substr(0, layout.find_first_of(" ,;\n\t"));
  for (const std::string& preset : LayoutRules::PresetNames()) {
    if (first != preset) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "preset ", Quoted(preset), " stands beside other items in ", place,
        DetailLine(place, Quoted(layout)),
        DetailLine("help",
                   absl::StrCat(
                       place == "--layout"
                           ? absl::StrCat("give --layout=", preset,
                                          " alone, and a budget with --budget")
                           : absl::StrCat("give ", preset, " alone"),
                       "; to change its rules, write them out"))));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Placement> ParsePlacement(absl::string_view mesh,
                                         absl::string_view layout,
                                         int64_t num_ranks,
                                         absl::string_view place) {
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
    MTF_RETURN_IF_ERROR(CheckPresetStandsAlone(layout, place));
    MTF_ASSIGN_OR_RETURN(placement.rules, LayoutRules::Parse(layout, place));
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
