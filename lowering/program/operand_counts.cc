// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/operand_counts.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"

namespace mtf::internal {
namespace {

constexpr size_t kAny = std::numeric_limits<size_t>::max();

struct Range {
  size_t least, most;
};

Range OperandsOf(Opcode opcode) {
  switch (opcode) {
    case Opcode::kInput:
    case Opcode::kReadVariable:
    case Opcode::kConstant:
    case Opcode::kRandom:
      return {0, 0};
    case Opcode::kMap:
    case Opcode::kReduce:
      return {0, kAny};
    case Opcode::kEinsum:
    case Opcode::kGather:
    case Opcode::kScatterAdd:
      return {2, 2};
    case Opcode::kScan:
    case Opcode::kTopK:
      return {1, 2};
    case Opcode::kConcat:
    case Opcode::kWait:
    case Opcode::kAllReduce:
    case Opcode::kReduceScatter:
      return {1, kAny};
    default:
      return {1, 1};
  }
}

}  // namespace

std::string WrongOperandCount(Opcode opcode, size_t count) {
  const auto [least, most] = OperandsOf(opcode);
  if (least <= count && count <= most) return "";
  const std::string takes =
      most == 0      ? "no operands"
      : most == kAny ? absl::StrCat(least, " or more operands")
      : least < most ? absl::StrCat(least, " or ", most, " operands")
                     : Plural(static_cast<int64_t>(least), "operand");
  return absl::StrCat(OpcodeName(opcode), " takes ", takes, ", not ", count);
}

}  // namespace mtf::internal
