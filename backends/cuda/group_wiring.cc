// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/group_wiring.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace mtf::cuda {
namespace {

int64_t BytesOf(const BoundValue& value) {
  return value.elements() * DTypeSize(value.dtype());
}

bool Overlap(const BoundValue& a, const BoundValue& b) {
  const char* x = static_cast<const char*>(a.data);
  const char* y = static_cast<const char*>(b.data);
  return x < y + BytesOf(b) && y < x + BytesOf(a);
}

// The results of `members` that instructions besides them read.
std::vector<bool> ReadElsewhere(absl::Span<const Binding> members) {
  std::vector<bool> read(members.size(), false);
  absl::flat_hash_set<int> places;
  absl::flat_hash_map<int, size_t> made;  // value to member
  for (size_t i = 0; i < members.size(); ++i) {
    places.insert(members[i].index);
    made[members[i].instruction().results[0]] = i;
  }
  const std::vector<Instruction>& all = members[0].program->instructions;
  // Nobody reads a value before it is made.
  for (size_t i = members[0].index; i < all.size(); ++i) {
    if (places.contains(static_cast<int>(i))) continue;
    for (int operand : all[i].operands) {
      const auto it = made.find(operand);
      if (it != made.end()) read[it->second] = true;
    }
  }
  return read;
}

}  // namespace

bool SamePlaces(const BoundValue& a, const BoundValue& b) {
  if (!(a.value->shape == b.value->shape)) return false;
  for (size_t i = 0; i < a.dims.size(); ++i) {
    if (a.dims[i].extent != b.dims[i].extent) return false;
  }
  return true;
}

std::optional<GroupWiring> GroupWiring::Of(absl::Span<const Binding> members) {
  GroupWiring wiring;
  wiring.stored = ReadElsewhere(members);
  for (size_t i = 0; i < members.size(); ++i) {
    std::vector<Source>& sources = wiring.sources.emplace_back();
    for (const BoundValue& operand : members[i].operands) {
      Source source;
      // What the last of them that touched this memory has left there.
      for (size_t j = i; j-- > 0 && source.member < 0;) {
        const BoundValue& made = members[j].results[0];
        if (!Overlap(made, operand)) continue;
        if (made.data != operand.data || made.dtype() != operand.dtype() ||
            !SamePlaces(made, operand)) {
          return std::nullopt;
        }
        source.member = static_cast<int>(j);
      }
      for (size_t k = 0; k < wiring.inputs.size() && source.member < 0; ++k) {
        const BoundValue& input = wiring.inputs[k];
        if (input.data == operand.data && input.dtype() == operand.dtype() &&
            SamePlaces(input, operand)) {
          source.input = static_cast<int>(k);
          break;
        }
      }
      if (source.member < 0 && source.input < 0) {
        source.input = static_cast<int>(wiring.inputs.size());
        wiring.inputs.push_back(operand);
      }
      sources.push_back(source);
    }
  }
  return wiring;
}

bool GroupWiring::StoresAreSafe(absl::Span<const Binding> members) const {
  for (size_t i = 0; i < members.size(); ++i) {
    if (!stored[i]) continue;
    const BoundValue& result = members[i].results[0];
    for (const BoundValue& input : inputs) {
      if (!Overlap(result, input)) continue;
      const bool in_place =
          result.data == input.data && SamePlaces(result, input) &&
          DTypeSize(result.dtype()) == DTypeSize(input.dtype());
      if (!in_place) return false;
    }
    for (size_t j = 0; j < i; ++j) {
      if (stored[j] && Overlap(result, members[j].results[0])) return false;
    }
  }
  return true;
}

}  // namespace mtf::cuda
