// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/fusion/group_dataflow.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace mtf::cuda {
namespace {

// By member: whether an instruction outside the group reads its result.
std::vector<bool> ReadElsewhere(absl::Span<const Binding> members) {
  std::vector<bool> read(members.size(), false);
  absl::flat_hash_set<int> members_at;
  absl::flat_hash_map<int, size_t> made;  // value to member
  for (size_t i = 0; i < members.size(); ++i) {
    members_at.insert(members[i].index);
    made[members[i].instruction().results[0]] = i;
  }
  const std::vector<Instruction>& all = members[0].program->instructions;
  // All readers follow the first member.
  for (size_t i = members[0].index; i < all.size(); ++i) {
    if (members_at.contains(static_cast<int>(i))) continue;
    for (int operand : all[i].operands) {
      const auto it = made.find(operand);
      if (it != made.end()) read[it->second] = true;
    }
  }
  return read;
}

}  // namespace

int64_t BytesOf(const BoundValue& value) {
  return value.elements() * DTypeSize(value.dtype());
}

bool Overlap(const BoundValue& a, const BoundValue& b) {
  const char* x = static_cast<const char*>(a.data);
  const char* y = static_cast<const char*>(b.data);
  return x < y + BytesOf(b) && y < x + BytesOf(a);
}

const BoundValue* FindValue(absl::Span<const Binding> members, int value) {
  for (const Binding& member : members) {
    const Instruction& instruction = member.instruction();
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      if (instruction.operands[i] == value) return &member.operands[i];
    }
    for (size_t i = 0; i < instruction.results.size(); ++i) {
      if (instruction.results[i] == value) return &member.results[i];
    }
  }
  return nullptr;
}

bool SameLocalShape(const BoundValue& a, const BoundValue& b) {
  if (!(a.value->shape == b.value->shape)) return false;
  for (size_t i = 0; i < a.dims.size(); ++i) {
    if (a.dims[i].extent != b.dims[i].extent) return false;
  }
  return true;
}

GroupDataflow GroupDataflow::Of(absl::Span<const Binding> members) {
  GroupDataflow dataflow;
  dataflow.stored = ReadElsewhere(members);
  absl::flat_hash_map<const ProgramValue*, int> made;
  for (size_t i = 0; i < members.size(); ++i) {
    std::vector<Source>& sources = dataflow.sources.emplace_back();
    for (const BoundValue& operand : members[i].operands) {
      Source source;
      const auto it = made.find(operand.value);
      if (it != made.end()) {
        source.member = it->second;
      } else {
        source.input = dataflow.AddInput(operand);
      }
      sources.push_back(source);
    }
    made[members[i].results[0].value] = static_cast<int>(i);
  }
  return dataflow;
}

int GroupDataflow::AddInput(const BoundValue& operand) {
  const auto size = static_cast<int>(inputs.size());
  for (int i = 0; i < size; ++i) {
    // Views of the same memory are one input.
    if (inputs[i].data == operand.data &&
        inputs[i].dtype() == operand.dtype() &&
        SameLocalShape(inputs[i], operand)) {
      return i;
    }
  }
  inputs.push_back(operand);
  return size;
}

bool GroupDataflow::StoresAreSafe(absl::Span<const Binding> members) const {
  for (size_t i = 0; i < members.size(); ++i) {
    if (!stored[i]) continue;
    const BoundValue& result = members[i].results[0];
    for (const BoundValue& input : inputs) {
      if (!Overlap(result, input)) continue;
      const bool in_place =
          result.data == input.data && SameLocalShape(result, input) &&
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
