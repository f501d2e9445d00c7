// SPDX-License-Identifier: Apache-2.0
#ifndef LAYOUTS_LAYOUT_RULES_H_
#define LAYOUTS_LAYOUT_RULES_H_

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "layouts/budget.h"
#include "layouts/mesh.h"
#include "layouts/offload_rules.h"

namespace mtf {

// The section of a rule. [parameters] applies to parameters as they are stored
// between steps; [optimizer] to optimizer state and the arithmetic of the
// update; the default section to everything else, such as activations. A
// section [in ...] changes the default section for some scopes of a graph.
enum class RuleSection : uint8_t { kDefault, kScopes, kParameters, kOptimizer };
inline constexpr int kNumRuleSections = 4;
absl::string_view RuleSectionName(RuleSection section);

// "length:replicated" is a rule without axes, so no mesh axis may have this
// name.
inline constexpr absl::string_view kReplicated = "replicated";
// The former word for kReplicated. Its use is an error that suggests the new
// word.
inline constexpr absl::string_view kFormerReplicated = "whole";

// "batch:pod+data": a dimension and the mesh axes that shard it, major to
// minor. "batch:replicated" has no axes.
struct LayoutRule {
  RuleSection section = RuleSection::kDefault;
  // With kScopes: the patterns that follow "in" (mtf/scope_pattern.h).
  std::vector<std::string> scopes = {};
  std::string dimension = "";
  std::vector<std::string> axes = {};
  // Where the rule is written: "--layout, rule 2 of 3, characters 8-15" or
  // "fsdp.layout:4".
  std::string origin = "";
  // The rule is in [parameters keep_gathered]: a gathered parameter is kept for
  // its next use. Otherwise it is dropped and gathered again.
  bool keep_gathered = false;

  // Whether both rules have one section, and one dimension.
  bool InSectionOf(const LayoutRule& other) const {
    return section == other.section && scopes == other.scopes;
  }
  bool Rules(const LayoutRule& other) const {
    return InSectionOf(other) && dimension == other.dimension;
  }

  std::string ToString() const;  // "batch:pod+data"
  // The text between the brackets of its section: "parameters keep_gathered",
  // "in layer_*/attention, encoder".
  std::string SectionName() const;
  // ToString, after the section unless it is the default:
  // "[parameters] io:x".
  std::string TextWithSection() const;
};

// Rules as one line that LayoutRules::Parse reads back, section by section.
std::string FormatRules(absl::Span<const LayoutRule> rules);

// Layout rules as the user wrote them, before they are applied to a mesh and a
// program (ResolvedRules).
//
//   # comments run to the end of the line
//   batch:data, heads:model, length:model
//   [in layer_*/attention]        # what is computed in these scopes
//   length:replicated
//   [parameters]                  # or [parameters keep_gathered]
//   d_model:data
//   [offload]                     # at rest in host memory
//   optimizer
//   [budget]
//   at most 64 MiB over data
class LayoutRules {
 public:
  LayoutRules() = default;

  // Parses rules. Items are separated as in Mesh::Parse, or by line breaks.
  // `origin` names the source of the text in errors: "--layout" or a file name.
  //
  // Returns kInvalidArgument for a malformed item, an unknown section or a
  // malformed pattern of scopes, two rules for a dimension in one section, an
  // axis that occurs twice in a rule, a malformed or repeated item of
  // [offload], or a malformed budget line.
  static absl::StatusOr<LayoutRules> Parse(absl::string_view text,
                                           absl::string_view origin);

  // Parses a layout file. Errors name the path: kNotFound, kPermissionDenied,
  // or those of Parse.
  static absl::StatusOr<LayoutRules> ReadFile(const std::string& path);

  // The preset called `name`, from layouts/presets/*.layout, which are built
  // into the library. An unknown name is kNotFound with the nearest name.
  static absl::StatusOr<LayoutRules> Preset(absl::string_view name);
  static std::vector<std::string> PresetNames();
  // A mesh of `num_ranks` ranks with the axes that a preset is written for:
  // "data:2,model:2".
  static absl::StatusOr<Mesh> PresetMesh(absl::string_view name,
                                         int64_t num_ranks);

  const std::vector<LayoutRule>& rules() const { return rules_; }
  // The lines of all sections [budget].
  const Budget& budget() const { return budget_; }
  // The items of all sections [offload].
  const OffloadRules& offload() const { return offload_; }
  void set_offload(OffloadRules offload) { offload_ = std::move(offload); }
  // Text that Parse reads back. The budget comes last, after [offload].
  std::string ToString() const;

 private:
  absl::Status ParseText(absl::string_view text, absl::string_view origin,
                         bool by_line);

  std::vector<LayoutRule> rules_;
  OffloadRules offload_;
  Budget budget_;
};

// A scope of a graph, and the dimensions of what is computed in it.
struct ScopeDimensions {
  std::string name;  // "layer_0/attention"
  absl::flat_hash_set<std::string> dimensions;
};

// Rules applied to one mesh and to the dimension names of one program.
class ResolvedRules {
 public:
  ResolvedRules() = default;

  // Applies `rules` to the axes of `mesh` and to `dimensions`, the names that
  // occur in the program. A rule, or an axis of a rule, that matches nothing
  // has no effect and is reported in notices(); rules of [parameters] and
  // [optimizer] match the names that occur in variables,
  // `variable_dimensions` (null: any). Sections [in ...] match `scopes`, those
  // of the graph by number.
  //
  // Returns kInvalidArgument if an unmatched name is probably a misspelling of
  // an existing one, or, with `strict`, if any rule has no effect.
  static absl::StatusOr<ResolvedRules> Resolve(
      const LayoutRules& rules, const Mesh& mesh,
      const std::vector<std::string>& dimensions, bool strict,
      const absl::flat_hash_set<std::string>* variable_dimensions = nullptr,
      absl::Span<const ScopeDimensions> scopes = {});

  // Which sections [in ...] apply to the scope of a number: 0 if none do. Equal
  // for scopes to which the same sections apply.
  // `scope` is less than num_scopes() unless this is 0.
  int num_scopes() const { return static_cast<int>(module_of_scope_.size()); }
  int ModuleOf(int scope) const {
    return module_of_scope_.empty() ? 0 : module_of_scope_[scope];
  }
  int num_modules() const { return static_cast<int>(modules_.size()) + 1; }

  // The mesh axes of size greater than 1 over which `section` shards
  // `dimension` in a module. A dimension without a rule in [parameters] or
  // [optimizer] has the axes of the last section [in ...] of the module with a
  // rule for it, and without one the axes of the default section.
  const AxisList& AxesOf(RuleSection section, absl::string_view dimension,
                         int module = 0) const;
  // The rule that determines AxesOf, or null.
  const LayoutRule* RuleOf(RuleSection section, absl::string_view dimension,
                           int module = 0) const;

  // The axes over which any section shards `dimension`.
  AxisSet AllAxesOf(absl::string_view dimension) const;

  const std::vector<LayoutRule>& rules() const { return rules_; }
  const std::vector<std::string>& notices() const { return notices_; }
  // Those of them about patterns that match no scope.
  const std::vector<std::string>& scope_notices() const {
    return scope_notices_;
  }
  // Adds a notice from outside, such as on a budget line without effect.
  void AddNotice(std::string notice) { notices_.push_back(std::move(notice)); }

 private:
  struct Ruled {
    AxisList axes;
    int rule = -1;
  };
  using Dimensions = absl::flat_hash_map<std::string, Ruled>;

  // What determines AxesOf, or null.
  const Ruled* Find(RuleSection section, absl::string_view dimension,
                    int module) const;
  // Sets the modules of `scopes`. `applied` has the rules [in ...] with an
  // effect, in their order.
  void SetModules(absl::Span<const ScopeDimensions> scopes,
                  const std::vector<Ruled>& applied);

  std::vector<LayoutRule> rules_;
  std::array<Dimensions, kNumRuleSections> sections_;  // kScopes: all of them
  std::vector<Dimensions> modules_;   // by number of a module, from 1 on
  std::vector<int> module_of_scope_;  // empty: all 0
  absl::flat_hash_map<std::string, AxisSet> axes_in_scopes_;
  std::vector<std::string> notices_, scope_notices_;
};

}  // namespace mtf

#endif  // LAYOUTS_LAYOUT_RULES_H_
