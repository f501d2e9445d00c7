// SPDX-License-Identifier: Apache-2.0
//
// ExplainRuleUses: which rules of a layout take effect, and why others do not.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "planning/explain/explain_parts.h"

namespace mtf::internal {
namespace {

// Whether `layout` shards `dimension` (or a dimension tied to it) over `axes`.
bool IsSharded(const Program& program, const Shape& shape,
               const TensorLayout& layout, absl::string_view dimension,
               const AxisList& axes) {
  for (int i = 0; i < shape.rank(); ++i) {
    if (program.grains.Tied(shape[i].name, dimension) &&
        layout.dims[i] == axes) {
      return true;
    }
  }
  return false;
}

// Whether `rule` causes an instruction of `program`. The value that had the
// rule's dimension may be gone: rematerialized by its readers, or fused away.
bool Causes(const LayoutRule& rule, const Program& program) {
  for (const Instruction& instruction : program.instructions) {
    for (const Cause& cause : instruction.causes) {
      if (cause.rule < 0) continue;
      const LayoutRule& by = program.rules[cause.rule];
      if (by.Rules(rule)) return true;
    }
  }
  return false;
}

// The rules of sections of variables that override `rule`, joined by "and".
std::string ShadowingRules(const LayoutRule& rule, const Rules& rules) {
  std::vector<std::string> shadows;
  for (const LayoutRule& other : rules) {
    if (other.section != RuleSection::kDefault &&
        other.dimension == rule.dimension) {
      shadows.push_back(other.TextWithSection());
    }
  }
  return absl::StrJoin(shadows, " and ");
}

// Whether a variable or a value of `program` is sharded by a rule.
bool ShardsAny(const Program& program, absl::string_view dimension,
               const AxisList& axes) {
  return std::any_of(program.variables.begin(), program.variables.end(),
                     [&](const ProgramVariable& variable) {
                       return IsSharded(program, variable.shape,
                                        variable.layout, dimension, axes);
                     }) ||
         std::any_of(program.values.begin(), program.values.end(),
                     [&](const ProgramValue& value) {
                       return IsSharded(program, value.shape, value.layout,
                                        dimension, axes);
                     });
}

// UseOf for a rule of a section [in ...].
std::pair<RuleUse, std::string> UseInScopes(const LayoutRule& rule,
                                            const Rules& rules,
                                            const LayoutBinding& binding,
                                            const Program& program) {
  const AxisList& by_default =
      binding.rules.AxesOf(RuleSection::kDefault, rule.dimension);
  // A rule may override one of another section that has other axes.
  const bool is_only_one =
      std::count_if(rules.begin(), rules.end(), [&](const LayoutRule& other) {
        return other.section == RuleSection::kScopes &&
               other.dimension == rule.dimension;
      }) == 1;
  for (int module = 1; module < binding.rules.num_modules(); ++module) {
    const LayoutRule* bound =
        binding.rules.RuleOf(RuleSection::kDefault, rule.dimension, module);
    if (bound == nullptr || !bound->Rules(rule)) continue;
    const AxisList& axes =
        binding.rules.AxesOf(RuleSection::kDefault, rule.dimension, module);
    if (is_only_one && by_default == axes) {
      return {RuleUse::kUnused,
              rule.axes.empty()
                  ? "the default section does not shard the dimension"
                  : "the default section has the same rule"};
    }
    if (rule.axes.empty()) return {RuleUse::kUsed, ""};
    if (!ShardsOnMesh(rule, binding.mesh)) {
      return {RuleUse::kUnused, "its axis has size 1"};
    }
    if (ShardsAny(program, rule.dimension, axes) || Causes(rule, program)) {
      return {RuleUse::kUsed, ""};
    }
    return {RuleUse::kUnused,
            "no tensor of this step is sharded along the dimension"};
  }
  return {RuleUse::kUnused,
          "no scope with the dimension matches, or a later section has a rule "
          "for it"};
}

// Whether a rule takes effect, and if not, why.
std::pair<RuleUse, std::string> UseOf(const LayoutRule& rule,
                                      const Rules& rules,
                                      const LayoutBinding& binding,
                                      const Program& program) {
  if (rule.section == RuleSection::kScopes) {
    return UseInScopes(rule, rules, binding, program);
  }
  if (rule.axes.empty()) {
    const bool occurs =
        std::any_of(program.values.begin(), program.values.end(),
                    [&](const ProgramValue& value) {
                      return value.shape.Contains(rule.dimension);
                    });
    return occurs ? std::pair(RuleUse::kUsed, std::string())
                  : std::pair(RuleUse::kUnused,
                              std::string("no tensor of this step has the "
                                          "dimension"));
  }
  if (std::none_of(rule.axes.begin(), rule.axes.end(),
                   [&](const std::string& axis) {
                     return binding.mesh.Find(axis) >= 0;
                   })) {
    return {RuleUse::kUnused, "the mesh lacks its axis"};
  }
  // Only rules of existing dimensions are bound.
  const LayoutRule* bound = binding.rules.RuleOf(rule.section, rule.dimension);
  if (bound == nullptr || bound->section != rule.section) {
    return {RuleUse::kUnused, "no tensor has the dimension"};
  }
  if (!ShardsOnMesh(rule, binding.mesh)) {
    return {RuleUse::kUnused, "its axis has size 1"};
  }
  const AxisList& axes = binding.rules.AxesOf(rule.section, rule.dimension);
  const LayoutRule* default_rule =
      binding.rules.RuleOf(RuleSection::kDefault, rule.dimension);
  if (rule.section != RuleSection::kDefault && default_rule != nullptr &&
      binding.rules.AxesOf(RuleSection::kDefault, rule.dimension) == axes) {
    return {RuleUse::kUnused,
            absl::StrCat("the default section has the same rule")};
  }
  // A variable stored by this rule. A rule for variables with the same axes
  // does not override a default rule.
  for (const ProgramVariable& variable : program.variables) {
    const RuleSection section = variable.section;
    if (rule.section == RuleSection::kDefault
            ? binding.rules.AxesOf(section, rule.dimension) != axes
            : rule.section != section) {
      continue;
    }
    if (IsSharded(program, variable.shape, variable.layout, rule.dimension,
                  axes)) {
      return {RuleUse::kUsed, ""};
    }
  }
  if (rule.section == RuleSection::kParameters) {
    return Causes(rule, program)
               ? std::pair(RuleUse::kUsed, std::string())
               : std::pair(RuleUse::kUnused,
                           std::string("no parameter has the dimension"));
  }
  // A computed value that the rule shards.
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::kReadVariable ||
        instruction.opcode == Opcode::kWriteVariable ||
        IsCollective(instruction.opcode)) {
      continue;
    }
    for (int result : instruction.results) {
      const ProgramValue& value = program.values[result];
      if (IsSharded(program, value.shape, value.layout, rule.dimension, axes)) {
        return {RuleUse::kUsed, ""};
      }
    }
  }
  if (Causes(rule, program)) return {RuleUse::kUsed, ""};
  const std::string shadowing = ShadowingRules(rule, rules);
  if (rule.section == RuleSection::kDefault && !shadowing.empty()) {
    return {RuleUse::kShadowed, absl::StrCat("overridden by ", shadowing)};
  }
  return {RuleUse::kUnused,
          "no tensor of this step is sharded along the dimension"};
}

}  // namespace

std::vector<int> RulesCausing(const Rules& rules, const Program& program,
                              const Instruction& instruction) {
  std::vector<int> indices;
  for (size_t i = 0; i < rules.size(); ++i) {
    for (const Cause& cause : instruction.causes) {
      if (cause.rule < 0) continue;
      const LayoutRule& rule = program.rules[cause.rule];
      if (rules[i].Rules(rule)) {
        indices.push_back(static_cast<int>(i));
        break;
      }
    }
  }
  return indices;
}

bool ShardsOnMesh(const LayoutRule& rule, const Mesh& mesh) {
  return std::any_of(
      rule.axes.begin(), rule.axes.end(), [&mesh](const std::string& axis) {
        return mesh.Find(axis) >= 0 && mesh.axis_size(mesh.Find(axis)) > 1;
      });
}

std::vector<ExplainedRule> ExplainRuleUses(const LayoutBinding& binding,
                                           const Rules& rules,
                                           const Program& program) {
  std::vector<ExplainedRule> uses;
  uses.reserve(rules.size());
  for (const LayoutRule& rule : rules) {
    auto [use, why] = UseOf(rule, rules, binding, program);
    uses.push_back({rule.SectionName(), rule.ToString(), rule.origin, use,
                    std::move(why), -1, std::nullopt});
  }
  return uses;
}

}  // namespace mtf::internal
