// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/opcodes.h"

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/check.h"

namespace mtf {
namespace {

constexpr int kFirstCollective = static_cast<int>(Opcode::kAllReduce);

// CollectiveKind lists the collectives in the order of their opcodes.
static_assert(kNumOpcodes - kFirstCollective == kNumCollectiveKinds);

}  // namespace

std::optional<Opcode> FindOpcode(absl::string_view name) {
  for (const OpcodeInfo& info : internal::kOpcodes) {
    if (info.name == name) return info.opcode;
  }
  return std::nullopt;
}

std::string WrongOperandCount(Opcode opcode, size_t count) {
  const ValueCount& allowed = InfoOf(opcode).operands;
  if (allowed.Allows(count)) return "";
  const std::string takes =
      allowed.most == 0 ? "no operands"
      : allowed.most == ValueCount::kUnlimited
          ? absl::StrCat(allowed.least, " or more operands")
      : allowed.least < allowed.most
          ? absl::StrCat(allowed.least, " or ", allowed.most, " operands")
          : Plural(static_cast<int64_t>(allowed.least), "operand");
  return absl::StrCat(OpcodeName(opcode), " takes ", takes, ", not ", count);
}

CollectiveKind CollectiveOf(Opcode opcode) {
  MTF_CHECK(IsCollective(opcode)) << OpcodeName(opcode);
  return static_cast<CollectiveKind>(static_cast<int>(opcode) -
                                     kFirstCollective);
}

Opcode OpcodeOf(CollectiveKind kind) {
  return static_cast<Opcode>(static_cast<int>(kind) + kFirstCollective);
}

}  // namespace mtf
