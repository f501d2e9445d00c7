// SPDX-License-Identifier: Apache-2.0
#include "lowering/explain_traffic.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lowering/readers.h"

namespace mtf::internal {
namespace {

std::string AxisKey(CollectiveKind kind, int axis) {
  return absl::StrCat(CollectiveName(kind), " ", axis, " ");
}

// The user's operation behind a value, or the variable it was.
std::string SourceOf(const Program& program, const std::vector<int>& producers,
                     int value) {
  while (producers[value] >= 0) {
    const Instruction& producer = program.instructions[producers[value]];
    if (producer.opcode == Opcode::kReadVariable) return producer.symbol;
    if (!IsCollective(producer.opcode)) {
      return producer.origin < 0 ? program.values[value].name
                                 : program.origins[producer.origin].operation;
    }
    const auto place =
        std::find(producer.results.begin(), producer.results.end(), value);
    value = producer.operands[place - producer.results.begin()];
  }
  return program.values[value].name;
}

}  // namespace

std::vector<std::vector<std::string>> KeysOf(
    const Program& program, const std::vector<CollectiveCost>& collectives,
    const NameMap& names) {
  const std::vector<int> producers = FindProducers(program);
  std::vector<std::vector<std::string>> keys;
  keys.reserve(collectives.size());
  for (const CollectiveCost& collective : collectives) {
    std::vector<std::string>& of = keys.emplace_back();
    const Instruction& instruction =
        program.instructions[collective.instruction];
    for (int operand : instruction.operands) {
      std::string source = SourceOf(program, producers, operand);
      const auto renamed = names.find(source);
      if (renamed != names.end()) source = std::string(renamed->second);
      for (int axis : collective.axes) {
        of.push_back(absl::StrCat(AxisKey(collective.kind, axis), source));
      }
    }
  }
  return keys;
}

Traffic::Traffic(const Program& program) {
  const std::vector<CollectiveCost> collectives = ListCollectives(program);
  for (const CollectiveCost& collective : collectives) {
    for (int axis : collective.axes) {
      bytes_[AxisKey(collective.kind, axis)] += collective.bytes;
    }
  }
  for (std::vector<std::string>& keys : KeysOf(program, collectives)) {
    for (std::string& key : keys) keys_.insert(std::move(key));
  }
}

int64_t Traffic::BytesOf(const std::string& axis_key) const {
  const auto found = bytes_.find(axis_key);
  return found == bytes_.end() ? 0 : found->second;
}

bool Traffic::IsWithout(const CollectiveCost& collective,
                        const std::vector<std::string>& keys,
                        const Traffic& before) const {
  for (int axis : collective.axes) {
    const std::string key = AxisKey(collective.kind, axis);
    if (collective.bytes > 0 && BytesOf(key) >= before.BytesOf(key)) {
      return false;
    }
  }
  return std::none_of(keys.begin(), keys.end(), [this](const std::string& key) {
    return keys_.contains(key);
  });
}

}  // namespace mtf::internal
