// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/program.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace mtf {

absl::string_view VariableMark(RuleSection section) {
  switch (section) {
    case RuleSection::kParameters:
      return "";
    case RuleSection::kOptimizer:
      return "optimizer";
    case RuleSection::kDefault:
    case RuleSection::kScopes:  // no variable has it
      return "state";
  }
  return "?";
}

absl::string_view RoleOf(const ProgramVariable& variable) {
  switch (variable.section) {
    case RuleSection::kParameters:
      return "parameter";
    case RuleSection::kOptimizer:
      return "optimizer state";
    case RuleSection::kDefault:
    case RuleSection::kScopes:  // no variable has it
      return "state";
  }
  return "?";
}

int Program::AddValue(absl::string_view name, DType dtype, Shape shape,
                      TensorLayout layout) {
  std::string unique(name);
  // Every value gets a name, so as many names as values are reserved.
  if (name_counts_.empty()) name_counts_.reserve(values.capacity());
  const auto [known, is_new] = name_counts_.try_emplace(name, 1);
  if (!is_new) {
    // Another value may have been added under the suffixed name.
    int count = known->second;
    while (
        !name_counts_.try_emplace(absl::StrCat(name, "_", count), 1).second) {
      ++count;
    }
    absl::StrAppend(&unique, "_", count);
    name_counts_[name] = count + 1;
  }
  ProgramValue& value = values.emplace_back();
  value.name = std::move(unique);
  value.dtype = dtype;
  value.shape = std::move(shape);
  value.layout = std::move(layout);
  return static_cast<int>(values.size()) - 1;
}

bool Program::HasOffloadedVariables() const {
  return absl::c_any_of(variables, [](const ProgramVariable& variable) {
    return variable.offloaded;
  });
}

const ProgramVariable* Program::FindVariable(absl::string_view name) const {
  for (const ProgramVariable& variable : variables) {
    if (variable.name == name) return &variable;
  }
  return nullptr;
}

int Program::ScatteredDim(const Instruction& instruction, int i) const {
  const TensorLayout& from = values[instruction.operands[i]].layout;
  const TensorLayout& to = values[instruction.results[i]].layout;
  int found = -1;
  for (size_t d = 0; d < from.dims.size() && d < to.dims.size(); ++d) {
    if (from.dims[d] == to.dims[d]) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(d);
  }
  return found;
}

std::string Program::OriginText(const Instruction& instruction) const {
  if (instruction.origin < 0) return "";
  const Origin& origin = origins[instruction.origin];
  return absl::StrCat(origin.operation, " (", origin.site.ToString(), ")");
}

}  // namespace mtf
