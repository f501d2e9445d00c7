// SPDX-License-Identifier: Apache-2.0
#include "layouts/presets.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "layouts/layout_rules.h"
#include "layouts/text_items.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf {
namespace {

absl::StatusOr<internal::PresetFile> FindPreset(absl::string_view name) {
  for (const internal::PresetFile& file : internal::PresetFiles()) {
    if (file.name == name) return file;
  }
  const std::vector<std::string> names = LayoutRules::PresetNames();
  const std::string nearest = NearestName(name, names);
  return absl::NotFoundError(absl::StrCat(
      "no layout preset is called ", Quoted(name),
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"),
      DetailLine("presets", absl::StrJoin(names, ", ")),
      DetailLine("help",
                 "choose one of these, or write the rules out, as in "
                 "\"batch:data, d_ff:model\"")));
}

// The axes that a preset declares in its comment "# mesh: data, model".
std::vector<std::string> DeclaredAxes(const internal::PresetFile& file) {
  for (absl::string_view line : absl::StrSplit(file.text, '\n')) {
    if (!absl::ConsumePrefix(&line, "# mesh:")) continue;
    std::vector<std::string> axes;
    for (absl::string_view axis : absl::StrSplit(line, ',')) {
      axes.emplace_back(absl::StripAsciiWhitespace(axis));
    }
    return axes;
  }
  MTF_CHECK(false) << "preset " << file.name << " declares no mesh";
}

// The largest divisor of n that is at most the k-th root of n.
int64_t SmallFactor(int64_t n, int k) {
  int64_t best = 1;
  for (int64_t d = 2;; ++d) {
    int64_t rest = n;
    for (int i = 0; i < k; ++i) rest /= d;
    if (rest == 0) return best;
    if (n % d == 0) best = d;
  }
}

}  // namespace

absl::StatusOr<LayoutRules> LayoutRules::Preset(absl::string_view name) {
  MTF_ASSIGN_OR_RETURN(const internal::PresetFile file, FindPreset(name));
  return Parse(file.text, absl::StrCat("preset ", name));
}

std::vector<std::string> LayoutRules::PresetNames() {
  std::vector<std::string> names;
  for (const internal::PresetFile& file : internal::PresetFiles()) {
    names.emplace_back(file.name);
  }
  return names;
}

absl::StatusOr<Mesh> LayoutRules::PresetMesh(absl::string_view name,
                                             int64_t num_ranks) {
  MTF_ASSIGN_OR_RETURN(const internal::PresetFile file, FindPreset(name));
  if (num_ranks < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "preset ", Quoted(name), " needs at least 1 rank, not ", num_ranks));
  }
  const std::vector<std::string> axes = DeclaredAxes(file);
  // Let Mesh::Parse report too many ranks instead of factoring the number.
  if (num_ranks > std::numeric_limits<int32_t>::max()) {
    return Mesh::Parse(absl::StrCat(axes[0], ":", num_ranks));
  }
  // Near-equal factors, the smallest last: the first axes shard the batch,
  // which is the cheapest dimension to shard finely.
  std::string text;
  int64_t rest = num_ranks;
  for (int i = static_cast<int>(axes.size()) - 1; i >= 0; --i) {
    const int64_t size = i == 0 ? rest : SmallFactor(rest, i + 1);
    rest /= size;
    text = absl::StrCat(axes[i], ":", size, text.empty() ? "" : ",", text);
  }
  return Mesh::Parse(text, num_ranks);
}

}  // namespace mtf
