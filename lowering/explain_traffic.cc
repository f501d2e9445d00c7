// SPDX-License-Identifier: Apache-2.0
#include "lowering/explain_traffic.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

std::string Traffic::Instead(const CollectiveCost& collective,
                             const std::vector<std::string>& keys,
                             const Traffic& before, const Mesh& mesh) const {
  std::vector<std::string> found;
  for (int k = 0; k < kNumCollectiveKinds; ++k) {
    const CollectiveKind kind = static_cast<CollectiveKind>(k);
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      const std::string with = AxisKey(kind, axis);
      // Keys are those of each axis for each operand.
      const bool sends =
          std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
            const int of =
                collective.axes[(&key - keys.data()) % collective.axes.size()];
            const std::string now = absl::StrCat(
                with, key.substr(AxisKey(collective.kind, of).size()));
            return keys_.contains(now) && !before.keys_.contains(now);
          });
      if (sends) {
        found.push_back(absl::StrCat(CollectiveName(kind), " over ",
                                     mesh.axes()[axis].name));
      }
    }
  }
  return absl::StrJoin(found, ", ");
}

}  // namespace mtf::internal
