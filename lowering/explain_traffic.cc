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

std::vector<CollectiveKeys> KeysOf(
    const Program& program, const std::vector<CollectiveCost>& collectives,
    const NameMap& names) {
  const std::vector<int> producers = FindProducers(program);
  std::vector<CollectiveKeys> keys;
  keys.reserve(collectives.size());
  for (const CollectiveCost& collective : collectives) {
    CollectiveKeys& of = keys.emplace_back();
    const Instruction& instruction =
        program.instructions[collective.instruction];
    for (int operand : instruction.operands) {
      std::string source = SourceOf(program, producers, operand);
      const auto renamed = names.find(source);
      if (renamed != names.end()) source = std::string(renamed->second);
      for (int axis : collective.axes) {
        of.sources.push_back(
            absl::StrCat(AxisKey(collective.kind, axis), source));
      }
    }
    for (const Cause& cause : instruction.causes) {
      if (cause.rule < 0) continue;
      of.causes.push_back(absl::StrCat(AxisKey(collective.kind, cause.axis),
                                       program.rules[cause.rule].dimension));
    }
  }
  return keys;
}

Traffic::Traffic(const Program& program, absl::Span<const int64_t> wire_bytes) {
  const std::vector<CollectiveCost> collectives = ListCollectives(program);
  for (const CollectiveCost& collective : collectives) {
    for (int axis : collective.axes) {
      bytes_[AxisKey(collective.kind, axis)] +=
          wire_bytes.empty() ? collective.bytes
                             : wire_bytes[collective.instruction];
    }
  }
  for (CollectiveKeys& keys : KeysOf(program, collectives)) {
    for (std::string& key : keys.sources) sources_.insert(std::move(key));
    for (std::string& key : keys.causes) causes_.insert(std::move(key));
  }
}

int64_t Traffic::BytesOf(const std::string& axis_key) const {
  const auto found = bytes_.find(axis_key);
  return found == bytes_.end() ? 0 : found->second;
}

bool Traffic::IsWithout(const CollectiveCost& collective,
                        const CollectiveKeys& keys,
                        const Traffic& before) const {
  const auto is_none_in = [](const std::vector<std::string>& own,
                             const absl::flat_hash_set<std::string>& here) {
    return std::none_of(
        own.begin(), own.end(),
        [&here](const std::string& key) { return here.contains(key); });
  };
  // What other rules cause may come from the same operations: where a layout
  // without a rule sums activations, those with it may sum gradients.
  if (!keys.causes.empty() && is_none_in(keys.causes, causes_)) return true;
  for (int axis : collective.axes) {
    const std::string key = AxisKey(collective.kind, axis);
    if (collective.bytes > 0 && BytesOf(key) >= before.BytesOf(key)) {
      return false;
    }
  }
  return is_none_in(keys.sources, sources_);
}

std::string Traffic::Instead(const CollectiveCost& collective,
                             const CollectiveKeys& keys, const Traffic& before,
                             const Mesh& mesh) const {
  const std::vector<std::string>& sources = keys.sources;
  std::vector<std::string> found;
  for (int k = 0; k < kNumCollectiveKinds; ++k) {
    const CollectiveKind kind = static_cast<CollectiveKind>(k);
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      const std::string with = AxisKey(kind, axis);
      const bool sends = std::any_of(
          sources.begin(), sources.end(), [&](const std::string& key) {
            const int of =
                collective
                    .axes[(&key - sources.data()) % collective.axes.size()];
            const std::string now = absl::StrCat(
                with, key.substr(AxisKey(collective.kind, of).size()));
            return sources_.contains(now) && !before.sources_.contains(now);
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
