// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lowering/emit/emit_program.h"
#include "mtf/check.h"
#include "tests/properties/random_case.h"

namespace mtf::testing {

Mesh MakeRandomMesh(std::mt19937_64& random, int most_devices) {
  static const char* const kMeshes[] = {
      "x:1",     "x:2",         "x:3",         "x:4",
      "x:5",     "x:6",         "x:7",         "x:8",
      "x:2,y:2", "x:2,y:3",     "x:3,y:2",     "x:2,y:4",
      "x:4,y:2", "x:2,y:2,z:2", "x:1,y:2,z:3", "x:2,y:1,z:4",
  };
  for (;;) {
    const Mesh mesh = *Mesh::Parse(kMeshes[random() % std::size(kMeshes)]);
    if (mesh.num_devices() <= most_devices) return mesh;
  }
}

namespace {

// A pattern that matches `scope`, which is not empty, and perhaps others.
std::string RandomPattern(std::mt19937_64& random, const std::string& scope) {
  const size_t slash = scope.find('/');
  std::string first = scope.substr(0, slash);
  switch (random() % 4) {
    case 0:
      return scope;
    case 1:
      return absl::StrCat("**/", scope.substr(scope.rfind('/') + 1));
    case 2:
      first.back() = '*';
      return first;
    default:
      return random() % 4 == 0 ? "**" : first;
  }
}

// Up to two headers of sections for `scopes`, the first of which is "".
std::vector<std::string> RandomScopeSections(
    std::mt19937_64& random, const std::vector<std::string>& scopes) {
  std::vector<std::string> sections;
  const auto pattern = [&] {
    return RandomPattern(random, scopes[1 + random() % (scopes.size() - 1)]);
  };
  for (uint64_t i = random() % 3; i > 0; --i) {
    std::string patterns = pattern();
    if (random() % 2 == 0) absl::StrAppend(&patterns, ", ", pattern());
    sections.push_back(absl::StrCat("[in ", patterns, "]"));
  }
  if (sections.size() == 2 && sections[0] == sections[1]) sections.pop_back();
  return sections;
}

}  // namespace

LayoutRules MakeRandomRules(std::mt19937_64& random, const Graph& graph,
                            const Mesh& mesh) {
  std::string text;
  const std::vector<std::string> names = DimensionsOf(graph).names;
  std::vector<std::string> sections = {""};
  if (graph.scopes().size() > 1) {
    for (std::string& section : RandomScopeSections(random, graph.scopes())) {
      sections.push_back(std::move(section));
    }
  }
  sections.insert(sections.end(), {"[parameters]", "[optimizer]"});
  for (const std::string& section : sections) {
    const bool is_optional =
        section == "[parameters]" || section == "[optimizer]";
    const auto chance = is_optional ? random() : 0;
    if (chance % 3 != 0) continue;
    const bool once = chance % 2 != 0 && section == "[parameters]";
    std::string of_section;
    for (const std::string& name : names) {
      if (random() % 3 == 0) continue;
      std::vector<std::string> axes;
      for (const MeshAxis& axis : mesh.axes()) {
        if (random() % 2 == 0) axes.push_back(axis.name);
      }
      if (axes.empty() && random() % 2 == 0) axes.emplace_back(kReplicated);
      if (axes.empty()) continue;
      std::shuffle(axes.begin(), axes.end(), random);
      absl::StrAppend(&of_section, name, ":", absl::StrJoin(axes, "+"), "\n");
    }
    if (of_section.empty()) continue;
    absl::StrAppend(&text, once ? "[parameters keep_gathered]" : section, "\n",
                    of_section);
  }
  absl::StatusOr<LayoutRules> rules = LayoutRules::Parse(text, "random");
  MTF_CHECK(rules.ok()) << rules.status().ToString();
  return *std::move(rules);
}

LayoutRules ShardedAlike(std::mt19937_64& random, const LayoutRules& rules,
                         const std::vector<std::string>& dimensions,
                         const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes()) {
    if (random() % 3 != 0) axes.push_back(axis.name);
  }
  if (axes.empty()) axes.push_back(mesh.axes()[0].name);
  std::shuffle(axes.begin(), axes.end(), random);
  // Rules of the default section precede all others.
  std::string text, sections;
  for (const std::string& dimension : dimensions) {
    absl::StrAppend(&text, dimension, ":", absl::StrJoin(axes, "+"), "\n");
  }
  for (const LayoutRule& rule : rules.rules()) {
    if (rule.section != RuleSection::kDefault) {
      absl::StrAppend(&sections, "[", rule.SectionName(), "]\n",
                      rule.ToString(), "\n");
      continue;
    }
    const bool clashes =
        std::find(dimensions.begin(), dimensions.end(), rule.dimension) !=
            dimensions.end() ||
        std::any_of(axes.begin(), axes.end(), [&](const std::string& axis) {
          return std::find(rule.axes.begin(), rule.axes.end(), axis) !=
                 rule.axes.end();
        });
    if (!clashes) absl::StrAppend(&text, rule.ToString(), "\n");
  }
  absl::StatusOr<LayoutRules> alike =
      LayoutRules::Parse(text + sections, "random");
  MTF_CHECK(alike.ok()) << alike.status().ToString();
  return *std::move(alike);
}

LayoutRules WithoutRule(const LayoutRules& rules, int drop) {
  std::string text;
  std::string section(RuleSectionName(RuleSection::kDefault));
  for (size_t i = 0; i < rules.rules().size(); ++i) {
    if (static_cast<int>(i) == drop) continue;
    const LayoutRule& rule = rules.rules()[i];
    if (rule.SectionName() != section) {
      section = rule.SectionName();
      absl::StrAppend(&text, "[", section, "]\n");
    }
    absl::StrAppend(&text, rule.ToString(), "\n");
  }
  absl::StatusOr<LayoutRules> fewer = LayoutRules::Parse(text, "random");
  MTF_CHECK(fewer.ok()) << fewer.status().ToString();
  return *std::move(fewer);
}

}  // namespace mtf::testing
