// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/program.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/check.h"

namespace mtf {

absl::string_view OpcodeName(Opcode opcode) {
  switch (opcode) {
    case Opcode::kInput:
      return "input";
    case Opcode::kReadVariable:
      return "read_variable";
    case Opcode::kWriteVariable:
      return "write_variable";
    case Opcode::kOutput:
      return "output";
    case Opcode::kConstant:
      return "constant";
    case Opcode::kRandom:
      return "random";
    case Opcode::kMap:
      return "map";
    case Opcode::kEinsum:
      return "einsum";
    case Opcode::kReduce:
      return "reduce";
    case Opcode::kReshape:
      return "reshape";
    case Opcode::kSlice:
      return "slice";
    case Opcode::kPad:
      return "pad";
    case Opcode::kConcat:
      return "concat";
    case Opcode::kGather:
      return "gather";
    case Opcode::kScatterAdd:
      return "scatter_add";
    case Opcode::kScan:
      return "scan";
    case Opcode::kReduceBlocks:
      return "reduce_blocks";
    case Opcode::kTopK:
      return "top_k";
    case Opcode::kMask:
      return "mask";
    case Opcode::kReshard:
      return "reshard";
    case Opcode::kWait:
      return "wait";
    case Opcode::kAllReduce:
      return "all_reduce";
    case Opcode::kAllGather:
      return "all_gather";
    case Opcode::kAllSlice:
      return "all_slice";
    case Opcode::kReduceScatter:
      return "reduce_scatter";
    case Opcode::kAllToAll:
      return "all_to_all";
    case Opcode::kCollectivePermute:
      return "collective_permute";
  }
  return "?";
}

CollectiveKind CollectiveOf(Opcode opcode) {
  MTF_CHECK(IsCollective(opcode)) << OpcodeName(opcode);
  return static_cast<CollectiveKind>(static_cast<int>(opcode) -
                                     static_cast<int>(Opcode::kAllReduce));
}

Opcode OpcodeOf(CollectiveKind kind) {
  return static_cast<Opcode>(static_cast<int>(kind) +
                             static_cast<int>(Opcode::kAllReduce));
}

int Program::AddValue(absl::string_view name, DType dtype, Shape shape,
                      TensorLayout layout) {
  std::string unique(name);
  // Who has reserved room for values gives each of them a name.
  if (name_counts_.empty()) name_counts_.reserve(values.capacity());
  const auto [known, is_new] = name_counts_.try_emplace(name, 1);
  if (!is_new) {
    // A suffixed name may be taken by another value's own name.
    int count = known->second;
    while (
        !name_counts_.try_emplace(absl::StrCat(name, "_", count), 1).second) {
      ++count;
    }
    absl::StrAppend(&unique, "_", count);
    name_counts_[name] = count + 1;
  }
  ProgramValue& value = values.emplace_back();
  value.name = std::move(unique);
  value.dtype = dtype;
  value.shape = std::move(shape);
  value.layout = std::move(layout);
  return static_cast<int>(values.size()) - 1;
}

const ProgramVariable* Program::FindVariable(absl::string_view name) const {
  for (const ProgramVariable& variable : variables) {
    if (variable.name == name) return &variable;
  }
  return nullptr;
}

int Program::ScatteredDim(const Instruction& instruction, int i) const {
  const TensorLayout& from = values[instruction.operands[i]].layout;
  const TensorLayout& to = values[instruction.results[i]].layout;
  int found = -1;
  for (size_t d = 0; d < from.dims.size() && d < to.dims.size(); ++d) {
    if (from.dims[d] == to.dims[d]) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(d);
  }
  return found;
}

std::string Program::OriginText(const Instruction& instruction) const {
  if (instruction.origin < 0) return "";
  const Origin& origin = origins[instruction.origin];
  return absl::StrCat(origin.operation, " (", origin.site.ToString(), ")");
}

}  // namespace mtf
