// SPDX-License-Identifier: Apache-2.0
//
// Recorder: inputs, outputs, variables, constants, random numbers and order.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lowering/emit/recorder.h"

namespace mtf {
namespace {

RuleSection SectionOf(const VariableInfo& variable) {
  switch (variable.kind) {
    case VariableKind::kParameter:
      return RuleSection::kParameters;
    case VariableKind::kOptimizerState:
      return RuleSection::kOptimizer;
    case VariableKind::kState:
      return RuleSection::kDefault;
  }
  return RuleSection::kDefault;
}

}  // namespace

Value Recorder::Input(const std::string& name, DType dtype,
                      const Shape& shape) {
  Instruction instruction(Opcode::kInput, NameAttributes{name});
  return Append(std::move(instruction), dtype, shape, RuleLayout(shape));
}

TensorLayout Recorder::StoredLayout(const VariableInfo& variable) {
  const RuleSection section = std::exchange(section_, SectionOf(variable));
  const int module = std::exchange(
      module_, binding_.rules.ModuleOf(variable.read.operation()->scope()));
  const auto yielding = std::exchange(yielding_, {});
  TensorLayout layout;
  for (const Dimension& dim : variable.shape) {
    layout.dims.push_back(AxesOf(dim.name));
  }
  const Shape* shapes[] = {&variable.shape};
  if (!layout.IsLegal()) CheckUnion(shapes);
  section_ = section;
  module_ = module;
  yielding_ = yielding;
  return layout;
}

int Recorder::AddVariable(const VariableInfo& variable) {
  const auto [index, added] = variables_.try_emplace(
      variable.id, static_cast<int>(program_.variables.size()));
  if (added) {
    program_.variables.push_back(
        {variable.name, variable.dtype, variable.shape, StoredLayout(variable),
         SectionOf(variable),
         binding_.offload.Selects(OffloadKindOf(variable), variable.name)});
  }
  return index->second;
}

Value Recorder::ReadVariable(const VariableInfo& variable) {
  const int index = AddVariable(variable);
  Instruction instruction(Opcode::kReadVariable, NameAttributes{variable.name});
  return Append(std::move(instruction), variable.dtype, variable.shape,
                program_.variables[index].layout);
}

Value Recorder::WriteVariable(const VariableInfo& variable, Value value) {
  const auto [write, first] = writes_.try_emplace(variable.id, origin_);
  if (!first && status_.ok()) {
    const Origin &before = program_.origins[write->second],
                 &now = program_.origins[origin_];
    status_ = absl::InvalidArgumentError(absl::StrCat(
        "variable \"", variable.name, "\" is assigned twice in one step (",
        now.operation, ", ", now.site.ToString(), ")\n  before   ",
        before.operation, ", ", before.site.ToString(),
        "\n  help     assign it once, or in two steps"));
  }
  const int index = AddVariable(variable);
  // The value is stored in the dimension order of the variable.
  if (!(at(value).shape == variable.shape)) {
    value =
        Map(MapExpression::Single(ScalarFunction::kIdentity, variable.dtype, 1),
            {value}, variable.shape);
  }
  const TensorLayout layout = program_.variables[index].layout;
  Instruction instruction(Opcode::kWriteVariable,
                          NameAttributes{variable.name});
  instruction.operands = {Demand(value.id, layout)};
  return Append(std::move(instruction), variable.dtype, variable.shape, layout);
}

Value Recorder::Constant(std::vector<double> data, DType dtype,
                         const Shape& shape) {
  Instruction instruction(Opcode::kConstant,
                          ConstantAttributes{std::move(data)});
  return Append(std::move(instruction), dtype, shape, RuleLayout(shape));
}

Value Recorder::Random(RandomKind kind, uint32_t stream, bool per_step,
                       DType dtype, const Shape& shape) {
  Instruction instruction(Opcode::kRandom,
                          RandomAttributes{kind, stream, per_step});
  return Append(std::move(instruction), dtype, shape, RuleLayout(shape));
}

Value Recorder::Depend(Value value, absl::Span<const Value> after) {
  Instruction instruction(Opcode::kDepend);
  const TensorLayout layout = at(value).layout.Reduced();
  instruction.operands = {Demand(value.id, layout)};
  // An unreduced value is computed when it is reduced.
  for (const Value& each : after) {
    instruction.operands.push_back(Demand(each.id, at(each).layout.Reduced()));
  }
  return Append(std::move(instruction), at(value).dtype, at(value).shape,
                layout);
}

void Recorder::Output(Value value, const std::string& name, bool as_shards) {
  Instruction instruction(Opcode::kOutput, NameAttributes{name});
  const TensorLayout layout =
      as_shards ? at(value).layout.Reduced()
                : TensorLayout::Replicated(at(value).shape.rank());
  instruction.operands = {Demand(value.id, layout)};
  instruction.origin = origin_;
  program_.instructions.push_back(std::move(instruction));
}

}  // namespace mtf
