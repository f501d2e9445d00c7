// SPDX-License-Identifier: Apache-2.0
#include "train/session/mesh_and_layout.h"

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

// Returns an error if `layout` combines a preset with other items.
absl::Status CheckPresetIsAlone(absl::string_view layout,
                                absl::string_view source) {
  const absl::string_view first =
      layout.substr(0, layout.find_first_of(" ,;\n\t"));
  for (const std::string& preset : LayoutRules::PresetNames()) {
    if (first != preset) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "preset ", Quoted(preset), " is combined with other items in ", source,
        DetailLine(source, Quoted(layout)),
        DetailLine("help",
                   absl::StrCat(
                       source == "--layout"
                           ? absl::StrCat("give --layout=", preset,
                                          " alone, and a budget with --budget")
                           : absl::StrCat("give ", preset, " alone"),
                       ", or with \"[offload] ...\" after it; to change its "
                       "rules, write them out"))));
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view PresetIn(absl::string_view layout) {
  layout = absl::StripAsciiWhitespace(layout);
  const std::vector<TextItem> items = SplitItems(layout, /*comments=*/true);
  if (items.empty() || !IsLayoutName(items[0].text)) return "";
  const bool is_alone = items[0].text == layout;
  return is_alone || (items.size() > 1 && items[1].text == "[offload]")
             ? items[0].text
             : "";
}

absl::StatusOr<MeshAndLayout> ParseMeshAndLayout(absl::string_view mesh,
                                                 absl::string_view layout,
                                                 int64_t num_ranks,
                                                 absl::string_view source) {
  mesh = absl::StripAsciiWhitespace(mesh);
  layout = absl::StripAsciiWhitespace(layout);
  MeshAndLayout parsed;
  absl::string_view path = layout;
  const absl::string_view preset = PresetIn(layout);
  if (absl::ConsumePrefix(&path, "@")) {
    MTF_ASSIGN_OR_RETURN(parsed.rules,
                         LayoutRules::ReadFile(std::string(path)));
  } else if (preset == layout && !preset.empty()) {
    MTF_ASSIGN_OR_RETURN(parsed.rules, LayoutRules::Preset(layout));
  } else {
    if (preset.empty()) {
      MTF_RETURN_IF_ERROR(CheckPresetIsAlone(layout, source));
    }
    MTF_ASSIGN_OR_RETURN(parsed.rules, LayoutRules::Parse(layout, source));
  }
  if (mesh.empty() && !preset.empty()) {
    MTF_ASSIGN_OR_RETURN(
        parsed.mesh,
        LayoutRules::PresetMesh(preset, std::max<int64_t>(num_ranks, 1)));
  } else {
    // A launcher with one rank runs the mesh as threads. An axis of size -1
    // then has size 1.
    if (num_ranks == 0 && absl::StrContains(mesh, ":-1") &&
        !DetectLauncher().name.empty()) {
      num_ranks = 1;
    }
    MTF_ASSIGN_OR_RETURN(parsed.mesh, Mesh::Parse(mesh, num_ranks));
  }
  return parsed;
}

}  // namespace mtf::train
