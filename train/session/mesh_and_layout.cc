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

// The name of the preset in "megatron, [offload] optimizer", or "".
absl::string_view OffloadedPreset(absl::string_view layout) {
  const absl::string_view name =
      layout.substr(0, layout.find_first_of(" ,;\n\t"));
  if (!IsLayoutName(name)) return "";
  const size_t rest = layout.find_first_not_of(" ,;\n\t", name.size());
  return rest != absl::string_view::npos &&
                 absl::StartsWith(layout.substr(rest), "[offload]")
             ? name
             : "";
}

// A preset with a section [offload].
absl::StatusOr<LayoutRules> ParseOffloadedPreset(absl::string_view preset,
                                                 absl::string_view layout,
                                                 absl::string_view source) {
  MTF_ASSIGN_OR_RETURN(LayoutRules rules, LayoutRules::Preset(preset));
  // Blanks in place of the name keep the positions in errors.
  MTF_ASSIGN_OR_RETURN(
      const LayoutRules more,
      LayoutRules::Parse(absl::StrCat(std::string(preset.size(), ' '),
                                      layout.substr(preset.size())),
                         source));
  if (!more.rules().empty() || !more.budget().empty()) {
    MTF_RETURN_IF_ERROR(CheckPresetIsAlone(layout, source));
  }
  rules.set_offload(more.offload());
  return rules;
}

}  // namespace

absl::StatusOr<MeshAndLayout> ParseMeshAndLayout(absl::string_view mesh,
                                                 absl::string_view layout,
                                                 int64_t num_ranks,
                                                 absl::string_view source) {
  mesh = absl::StripAsciiWhitespace(mesh);
  layout = absl::StripAsciiWhitespace(layout);
  MeshAndLayout parsed;
  absl::string_view path = layout;
  // A rule has a colon, so a single name must be a preset.
  const absl::string_view offloaded = OffloadedPreset(layout);
  const absl::string_view preset = offloaded.empty() ? layout : offloaded;
  const bool is_preset = IsLayoutName(preset);
  if (absl::ConsumePrefix(&path, "@")) {
    MTF_ASSIGN_OR_RETURN(parsed.rules,
                         LayoutRules::ReadFile(std::string(path)));
  } else if (!offloaded.empty()) {
    MTF_ASSIGN_OR_RETURN(parsed.rules,
                         ParseOffloadedPreset(offloaded, layout, source));
  } else if (is_preset) {
    MTF_ASSIGN_OR_RETURN(parsed.rules, LayoutRules::Preset(layout));
  } else {
    MTF_RETURN_IF_ERROR(CheckPresetIsAlone(layout, source));
    MTF_ASSIGN_OR_RETURN(parsed.rules, LayoutRules::Parse(layout, source));
  }
  if (mesh.empty() && is_preset) {
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
