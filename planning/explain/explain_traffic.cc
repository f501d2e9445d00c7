// SPDX-License-Identifier: Apache-2.0
#include "planning/explain/explain_traffic.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lowering/program/readers.h"

namespace mtf::internal {
namespace {

// The user's operation that computes `value`, or the variable it was read from;
// collectives are traced back to their operand.
absl::string_view SourceOf(const Program& program,
                           const std::vector<int>& producers, int value) {
  while (producers[value] >= 0) {
    const Instruction& producer = program.instructions[producers[value]];
    if (producer.opcode == Opcode::kReadVariable)
      return producer.Get<NameAttributes>().name;
    if (!IsCollective(producer.opcode)) {
      if (producer.origin < 0) break;
      return program.origins[producer.origin].operation;
    }
    const auto result =
        std::find(producer.results.begin(), producer.results.end(), value);
    value = producer.operands[result - producer.results.begin()];
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
    CollectiveKeys& collective_keys = keys.emplace_back();
    const Instruction& instruction =
        program.instructions[collective.instruction];
    for (int operand : instruction.operands) {
      const absl::string_view source = SourceOf(program, producers, operand);
      const auto renamed = names.find(source);
      collective_keys.sources.push_back(
          renamed == names.end() ? source : renamed->second);
    }
    for (const Cause& cause : instruction.causes) {
      if (cause.rule < 0) continue;
      collective_keys.causes.emplace_back(cause.axis,
                                          program.rules[cause.rule].dimension);
    }
  }
  return keys;
}

Traffic::Traffic(const Program& program, absl::Span<const int64_t> wire_bytes) {
  const std::vector<CollectiveCost> collectives = ListCollectives(program);
  const std::vector<CollectiveKeys> keys = KeysOf(program, collectives);
  for (size_t c = 0; c < collectives.size(); ++c) {
    const CollectiveCost& collective = collectives[c];
    const size_t kind = static_cast<size_t>(collective.kind);
    for (int axis : collective.axes) {
      bytes_[kind][axis] += wire_bytes.empty()
                                ? collective.bytes
                                : wire_bytes[collective.instruction];
    }
    for (absl::string_view source : keys[c].sources) {
      sources_.try_emplace(source).first->second[kind] |=
          SetOf(collective.axes);
    }
    for (const auto& [axis, dimension] : keys[c].causes) {
      causes_.try_emplace(dimension).first->second[kind] |= AxisSet{1} << axis;
    }
  }
}

Traffic::AxesByKind Traffic::AxesOf(absl::string_view source) const {
  const auto found = sources_.find(source);
  return found == sources_.end() ? AxesByKind{} : found->second;
}

bool Traffic::LacksCollective(const CollectiveCost& collective,
                              const CollectiveKeys& keys,
                              const Traffic& before) const {
  const size_t kind = static_cast<size_t>(collective.kind);
  const auto causes_here = [&](const auto& cause) {
    const auto found = causes_.find(cause.second);
    return found != causes_.end() &&
           (found->second[kind] >> cause.first & 1) != 0;
  };
  // Sources alone are not enough: without a rule, an operation may reduce
  // activations where it reduces gradients with the rule. Causes distinguish
  // the two.
  if (!keys.causes.empty() &&
      std::none_of(keys.causes.begin(), keys.causes.end(), causes_here)) {
    return true;
  }
  for (int axis : collective.axes) {
    if (collective.bytes > 0 &&
        bytes_[kind][axis] >= before.bytes_[kind][axis]) {
      return false;
    }
  }
  return std::none_of(
      keys.sources.begin(), keys.sources.end(), [&](absl::string_view source) {
        return (AxesOf(source)[kind] & SetOf(collective.axes)) != 0;
      });
}

std::string Traffic::AddedCollectives(const CollectiveKeys& keys,
                                      const Traffic& before,
                                      const Mesh& mesh) const {
  AxesByKind sent{};
  for (absl::string_view source : keys.sources) {
    const AxesByKind now = AxesOf(source), then = before.AxesOf(source);
    for (size_t kind = 0; kind < sent.size(); ++kind) {
      sent[kind] |= now[kind] & ~then[kind];
    }
  }
  std::vector<std::string> found;
  for (size_t kind = 0; kind < sent.size(); ++kind) {
    for (int axis : ListOf(sent[kind])) {
      found.push_back(
          absl::StrCat(CollectiveName(static_cast<CollectiveKind>(kind)),
                       " over ", mesh.axes()[axis].name));
    }
  }
  return absl::StrJoin(found, ", ");
}

}  // namespace mtf::internal
