// SPDX-License-Identifier: Apache-2.0
#ifndef LAYOUTS_LAYOUT_RULES_H_
#define LAYOUTS_LAYOUT_RULES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layouts/budget.h"
#include "layouts/mesh.h"

namespace mtf {

// Which tensors a rule applies to: activations and everything else, parameters
// at rest, or optimizer state at rest together with the arithmetic of the
// update.
enum class RuleSection : uint8_t { kDefault, kParameters, kOptimizer };
inline constexpr int kNumRuleSections = 3;
absl::string_view RuleSectionName(RuleSection section);

// "length:replicated" lifts a rule, so no mesh axis may have this name.
inline constexpr absl::string_view kReplicated = "replicated";
// The former word for it: an error that names the present one.
inline constexpr absl::string_view kFormerReplicated = "whole";

// "batch:pod+data": a dimension and the mesh axes that shard it, major first;
// no axes in "batch:replicated".
struct LayoutRule {
  RuleSection section = RuleSection::kDefault;
  std::string dimension;
  std::vector<std::string> axes;
  // Where it came from: "--layout, rule 2 of 3, characters 8-15" or
  // "fsdp.layout:4".
  std::string origin;
  // Of [parameters keep_gathered]: a gathered parameter is kept for its next
  // use. Otherwise it is dropped and gathered again.
  bool keep_gathered = false;

  std::string ToString() const;  // "batch:pod+data"
  // What its section is called between brackets: "parameters keep_gathered".
  std::string SectionName() const;
  // ToString behind the section, unless that is the default:
  // "[parameters] io:x".
  std::string TextWithSection() const;
};

// Layout rules as the user wrote them, before any mesh or program is known.
//
//   # comments run to the end of the line
//   batch:data, heads:model
//   [parameters]                  # or [parameters keep_gathered]
//   d_model:data
//   [budget]
//   at most 64 MiB over data
class LayoutRules {
 public:
  LayoutRules() = default;

  // Parses rules; items are separated as in Mesh::Parse, or by line ends.
  // `origin` says where the text came from, "--layout" or a file name.
  // kInvalidArgument for malformed items, unknown sections, a dimension ruled
  // twice in one section, an axis twice in one rule, or a budget line that is
  // none.
  static absl::StatusOr<LayoutRules> Parse(absl::string_view text,
                                           absl::string_view origin);

  // Reads a layout file. kNotFound or kPermissionDenied, naming the path.
  static absl::StatusOr<LayoutRules> ReadFile(const std::string& path);

  // The preset called `name` (layouts/presets/*.layout, built in). kNotFound
  // with the nearest name.
  static absl::StatusOr<LayoutRules> Preset(absl::string_view name);
  static std::vector<std::string> PresetNames();
  // The mesh a preset is written for, on `num_ranks` ranks: "data:2,model:2".
  static absl::StatusOr<Mesh> PresetMesh(absl::string_view name,
                                         int64_t num_ranks);

  const std::vector<LayoutRule>& rules() const { return rules_; }
  // The lines of the sections [budget].
  const Budget& budget() const { return budget_; }
  // Text that Parse reads back, the budget last.
  std::string ToString() const;

 private:
  absl::Status ParseText(absl::string_view text, absl::string_view origin,
                         bool by_line);

  std::vector<LayoutRule> rules_;
  Budget budget_;
};

// Rules applied to one mesh and to the dimension names of one program.
class ResolvedRules {
 public:
  ResolvedRules() = default;

  // Matches `rules` with the axes of `mesh` and with `dimensions`, the names
  // that occur in the program. A rule (or an axis of a rule) that matches
  // nothing is inert and gets a line in notices(); kInvalidArgument where the
  // unmatched name is a likely misspelling of an existing one, or for any
  // inert rule when `strict`.
  static absl::StatusOr<ResolvedRules> Resolve(
      const LayoutRules& rules, const Mesh& mesh,
      const std::vector<std::string>& dimensions, bool strict);

  // The axes of size over 1 that the dimension is cut over in `section`. The
  // scoped sections fall back to the default one, dimension by dimension.
  const AxisList& AxesOf(RuleSection section,
                         absl::string_view dimension) const;
  // The rule behind AxesOf, or null.
  const LayoutRule* RuleOf(RuleSection section,
                           absl::string_view dimension) const;

  // Whether a rule of any section applies to `dimension`, `x:replicated`
  // included.
  bool HasRule(absl::string_view dimension) const {
    return entries_.contains(dimension);
  }

  // Every axis that any section can give `dimension`.
  AxisSet AllAxesOf(absl::string_view dimension) const;

  const std::vector<LayoutRule>& rules() const { return rules_; }
  const std::vector<std::string>& notices() const { return notices_; }
  // The dimension `second` is cut as `first` is; it has no rule of its own.
  void Follow(absl::string_view second, absl::string_view first);
  // Adds what was found later, such as a budget line without effect.
  void AddNotice(std::string notice) { notices_.push_back(std::move(notice)); }

 private:
  struct Entry {
    AxisList axes[3];
    int rule[3] = {-1, -1, -1};
  };
  std::vector<LayoutRule> rules_;
  absl::flat_hash_map<std::string, Entry> entries_;
  std::vector<std::string> notices_;
};

}  // namespace mtf

#endif  // LAYOUTS_LAYOUT_RULES_H_
