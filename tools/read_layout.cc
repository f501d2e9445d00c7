// SPDX-License-Identifier: Apache-2.0
#include "tools/read_layout.h"

#include <sys/stat.h>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "mtf/status.h"
#include "train/session/mesh_and_layout.h"

namespace mtf::tools {

std::string PathOf(const std::string& argument) {
  const std::string path(absl::StripPrefix(argument, "@"));
  struct stat info;
  const bool looks_like_path =
      !absl::StrContains(argument, ":") && !absl::StrContains(argument, "[") &&
      (absl::StrContains(argument, "/") || absl::EndsWith(argument, ".txt") ||
       absl::EndsWith(argument, ".layout"));
  const bool is_path = argument != path || stat(path.c_str(), &info) == 0;
  return is_path || looks_like_path ? path : "";
}

absl::StatusOr<LayoutRules> ReadLayout(const std::string& argument,
                                       absl::string_view source) {
  const std::string path = PathOf(argument);
  if (!path.empty()) return LayoutRules::ReadFile(path);
  MTF_ASSIGN_OR_RETURN(const train::MeshAndLayout placement,
                       train::ParseMeshAndLayout("", argument, 0, source));
  return placement.rules;
}

}  // namespace mtf::tools
