// SPDX-License-Identifier: Apache-2.0
//
// BatchText and PrecisionText: what a step works on.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "planning/explain/explain_parts.h"

namespace mtf::internal {
namespace {

std::string DimensionText(const Dimension& dimension) {
  return absl::StrCat(dimension.name, ":", dimension.size);
}

// The dimension "batch" of a program without inputs.
std::string BatchDimensionText(const Program& program) {
  for (const ProgramValue& value : program.values) {
    for (const Dimension& dimension : value.shape.dims()) {
      if (dimension.name == "batch") return DimensionText(dimension);
    }
  }
  return "";
}

// Adds up an amount by dtype.
using AmountByDType = std::map<DType, double>;

// "bf16 and f32", the largest amount first; "" for no amounts.
std::string DTypesText(const AmountByDType& amounts) {
  std::vector<std::pair<double, DType>> order;
  for (const auto& [dtype, amount] : amounts) order.push_back({-amount, dtype});
  std::sort(order.begin(), order.end());
  return absl::StrJoin(order, " and ", [](std::string* text, const auto& item) {
    absl::StrAppend(text, DTypeName(item.second));
  });
}

}  // namespace

std::string BatchText(const Program& program) {
  std::vector<const Shape*> shapes;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::kInput) continue;
    const Shape& shape = program.values[instruction.results[0]].shape;
    // Scalar inputs, such as a learning rate, have no batch.
    if (shape.rank() > 0) shapes.push_back(&shape);
  }
  if (shapes.empty()) return BatchDimensionText(program);
  std::vector<std::string> common;
  for (const Dimension& dimension : *shapes[0]) {
    const bool is_common =
        std::all_of(shapes.begin(), shapes.end(), [&](const Shape* shape) {
          return absl::c_linear_search(shape->dims(), dimension);
        });
    if (is_common) common.push_back(DimensionText(dimension));
  }
  return absl::StrJoin(common, ", ");
}

std::string PrecisionText(const Program& program,
                          const std::vector<ExplainedEinsum>& explained) {
  AmountByDType einsums, parameters, optimizer_state, state;
  for (const ExplainedEinsum& einsum : explained) {
    const Instruction& instruction = program.instructions[einsum.instruction];
    einsums[program.values[instruction.operands[0]].dtype] += einsum.flops;
  }
  for (const ProgramVariable& variable : program.variables) {
    // Integers, such as the number of the step, are counters.
    if (!IsFloat(variable.dtype)) continue;
    (variable.section == RuleSection::kParameters  ? parameters
     : variable.section == RuleSection::kOptimizer ? optimizer_state
                                                   : state)[variable.dtype] +=
        static_cast<double>(variable.shape.num_elements());
  }
  std::vector<std::string> parts;
  std::set<std::string> distinct;
  const auto add = [&](absl::string_view role, const AmountByDType& amounts) {
    if (amounts.empty()) return;
    const std::string dtypes = DTypesText(amounts);
    parts.push_back(absl::StrCat(role, " ", dtypes));
    distinct.insert(dtypes);
  };
  add("einsums", einsums);
  add("parameters", parameters);
  add("optimizer state", optimizer_state);
  add("state", state);
  return distinct.size() == 1 ? *distinct.begin() : absl::StrJoin(parts, ", ");
}

}  // namespace mtf::internal
