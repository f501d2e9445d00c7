// SPDX-License-Identifier: Apache-2.0
//
// Which rules of a layout do something, and why others do not.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "planning/explain/explain_parts.h"

namespace mtf::internal {
namespace {

// Whether a value has `dimension`, cut over all axes of `axes`.
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

// Whether an instruction is there because of `rule`. What had the dimension may
// be gone: computed by who reads it, or never in memory.
bool Causes(const LayoutRule& rule, const Program& program) {
  for (const Instruction& instruction : program.instructions) {
    for (const Cause& cause : instruction.causes) {
      if (cause.rule < 0) continue;
      const LayoutRule& by = program.rules[cause.rule];
      if (by.section == rule.section && by.dimension == rule.dimension) {
        return true;
      }
    }
  }
  return false;
}

// The names of what rests by a rule of its own instead of `rule`.
std::string Shadows(const LayoutRule& rule, const Rules& rules) {
  std::vector<std::string> shadows;
  for (const LayoutRule& other : rules) {
    if (other.section != RuleSection::kDefault &&
        other.dimension == rule.dimension) {
      shadows.push_back(other.TextWithSection());
    }
  }
  return absl::StrJoin(shadows, " and ");
}

// Why a rule does nothing, and whether another stands in its place.
std::pair<RuleUse, std::string> UseOf(const LayoutRule& rule,
                                      const Rules& rules,
                                      const LayoutBinding& binding,
                                      const Program& program) {
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
  // Rules of dimensions that do not exist are not bound.
  const LayoutRule* bound = binding.rules.RuleOf(rule.section, rule.dimension);
  if (bound == nullptr || bound->section != rule.section) {
    return {RuleUse::kUnused, "no tensor has the dimension"};
  }
  if (!ShardsOnMesh(rule, binding.mesh)) {
    return {RuleUse::kUnused, "its axis has size 1"};
  }
  const AxisList& axes = binding.rules.AxesOf(rule.section, rule.dimension);
  const LayoutRule* otherwise =
      binding.rules.RuleOf(RuleSection::kDefault, rule.dimension);
  if (rule.section != RuleSection::kDefault && otherwise != nullptr &&
      binding.rules.AxesOf(RuleSection::kDefault, rule.dimension) == axes) {
    return {RuleUse::kUnused,
            absl::StrCat("the default section says the same")};
  }
  for (const ProgramVariable& variable : program.variables) {
    // A scoped rule that says the same does not stand in the way.
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
  const std::string shadows = Shadows(rule, rules);
  if (rule.section == RuleSection::kDefault && !shadows.empty()) {
    return {RuleUse::kShadowed, absl::StrCat(shadows, " stands in its place")};
  }
  return {RuleUse::kUnused, "nothing in this step has the dimension cut"};
}

}  // namespace

std::vector<int> RulesCausing(const Rules& rules, const Program& program,
                              const Instruction& instruction) {
  std::vector<int> places;
  for (size_t i = 0; i < rules.size(); ++i) {
    for (const Cause& cause : instruction.causes) {
      if (cause.rule < 0) continue;
      const LayoutRule& rule = program.rules[cause.rule];
      if (rules[i].section == rule.section &&
          rules[i].dimension == rule.dimension) {
        places.push_back(static_cast<int>(i));
        break;
      }
    }
  }
  return places;
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
