// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/instruction.h"

#include <cstddef>
#include <cstdlib>
#include <type_traits>
#include <utility>

namespace mtf {

AttentionAttributes::Positions AttentionAttributes::PositionsIn(
    bool gradient) const {
  Positions at;
  const auto next = [&](bool given) { return given ? at.num_operands++ : -1; };
  at.operands.mask = next(mask);
  at.operands.bias = next(bias);
  at.operands.offset = next(offset);
  at.operands.extra_logit = next(extra_logit);
  if (!gradient) {
    at.before = {next(continues), next(continues)};
    return at;
  }
  at.results = {next(true), next(true)};
  at.gradients = {next(true), next(logsumexp_gradient)};
  at.of_q_before = next(continues);
  at.of = {0, 1, 2, -1, -1};
  at.num_results = 3;
  if (bias_gradient) at.of.bias = at.num_results++;
  if (extra_logit_gradient) at.of.extra_logit = at.num_results++;
  return at;
}
namespace {

template <size_t... indices>
InstructionAttributes DefaultAttributes(size_t index,
                                        std::index_sequence<indices...>) {
  using Make = InstructionAttributes (*)();
  static constexpr Make kMake[] = {+[]() -> InstructionAttributes {
    return InstructionAttributes(std::in_place_index<indices>);
  }...};
  return kMake[index]();
}

// Whether T has a member of that name.
template <typename T, typename = void>
struct HasDimension : std::false_type {};
template <typename T>
struct HasDimension<T, std::void_t<decltype(T::dimension)>> : std::true_type {};

[[noreturn]] void FailQuery(const Instruction& instruction, const char* what) {
  MTF_CHECK(false) << OpcodeName(instruction.opcode) << " has no " << what;
  std::abort();
}

}  // namespace

Instruction::Instruction(Opcode opcode)
    : opcode(opcode),
      attributes(DefaultAttributes(
          InfoOf(opcode).attributes,
          std::make_index_sequence<
              std::variant_size_v<InstructionAttributes>>())) {}

bool IsAsynchronous(const Instruction& instruction) {
  const auto* collective = instruction.Find<CollectiveAttributes>();
  return collective != nullptr && collective->asynchronous;
}

const std::string& DimensionOf(const Instruction& instruction) {
  return std::visit(
      [&](const auto& attributes) -> const std::string& {
        if constexpr (HasDimension<std::decay_t<decltype(attributes)>>::value) {
          return attributes.dimension;
        } else {
          FailQuery(instruction, "dimension");
        }
      },
      instruction.attributes);
}

bool HasExpression(const Instruction& instruction) {
  return instruction.Find<MapAttributes>() != nullptr ||
         instruction.Find<ReduceAttributes>() != nullptr;
}

const MapExpression& ExpressionOf(const Instruction& instruction) {
  if (const auto* map = instruction.Find<MapAttributes>()) {
    return map->expression;
  }
  return instruction.Get<ReduceAttributes>().expression;
}

MapExpression& ExpressionOf(Instruction& instruction) {
  return const_cast<MapExpression&>(
      ExpressionOf(static_cast<const Instruction&>(instruction)));
}

ReduceKind ReductionOf(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kReduce:
      return instruction.Get<ReduceAttributes>().kind;
    case Opcode::kScan:
      return instruction.Get<ScanAttributes>().kind;
    case Opcode::kReduceBlocks:
      return instruction.Get<ReduceBlocksAttributes>().kind;
    case Opcode::kAllReduce:
    case Opcode::kReduceScatter:
      return instruction.Get<CollectiveAttributes>().reduction;
    default:
      FailQuery(instruction, "reduction");
  }
}

double FillOf(const Instruction& instruction) {
  if (const auto* pad = instruction.Find<PadAttributes>()) return pad->fill;
  if (const auto* rows = instruction.Find<RowsAttributes>()) return rows->fill;
  return instruction.Get<MaskAttributes>().fill;
}

bool IsCast(const Instruction& instruction) {
  const auto* map = instruction.Find<MapAttributes>();
  return map != nullptr && map->expression.steps.size() == 1 &&
         map->expression.steps[0].function == ScalarFunction::kCast;
}

bool PreservesValue(const Instruction& instruction) {
  if (const auto* map = instruction.Find<MapAttributes>()) {
    return instruction.operands.size() == 1 &&
           map->expression.steps.size() == 1 &&
           (map->expression.steps[0].function == ScalarFunction::kIdentity ||
            map->expression.steps[0].function == ScalarFunction::kCast);
  }
  if (const auto* collective = instruction.Find<CollectiveAttributes>();
      collective != nullptr && collective->ReordersShards()) {
    return false;
  }
  return InfoOf(instruction.opcode).preserves_value;
}

bool IsUnaryMapOrMove(const Instruction& instruction) {
  return instruction.operands.size() == 1 &&
         (instruction.opcode == Opcode::kMap ||
          (OnlyMoves(instruction.opcode) &&
           instruction.opcode != Opcode::kMask));
}

bool CanProduceAnyShard(const Instruction& instruction) {
  return InfoOf(instruction.opcode).any_shard ||
         (instruction.opcode == Opcode::kMap && instruction.operands.empty());
}

}  // namespace mtf
