// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/hoist_slices.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lowering/program/readers.h"

namespace mtf {
namespace {

// The maximum number of maps and renames that a slice moves across; each may
// read several reductions.
constexpr size_t kMaxPassed = 32;

class SliceHoister {
 public:
  explicit SliceHoister(Program& program)
      : program_(program),
        readers_(CountReaders(program)),
        producers_(FindProducers(program)),
        slices_before_(program.instructions.size()) {}

  void Run() {
    std::vector<bool> dead(program_.instructions.size(), false);
    bool any = false;
    for (size_t i = 0; i < dead.size(); ++i) {
      if (program_.instructions[i].opcode != Opcode::kAllSlice) continue;
      if (!FindPath(program_.instructions[i])) continue;
      Hoist(program_.instructions[i]);
      dead[i] = any = true;
    }
    if (any) Rewrite(dead);
  }

 private:
  // An operand that must be sliced: operand number `operand` of `instruction`,
  // along dimension `dim`.
  struct SlicedOperand {
    int instruction;
    size_t operand;
    int dim;
  };

  const ProgramValue& value(int id) const { return program_.values[id]; }

  // Collects in `passed_` the values that the slice moves across and in
  // `sliced_operands_` the operands that must then be sliced. Returns false if
  // none of those is a reduction over the axes of the slice, or if one cannot
  // be sliced.
  bool FindPath(const Instruction& slice) {
    passed_.clear();
    sliced_operands_.clear();
    const int slice_dim = slice.Get<CollectiveAttributes>().dim;
    const AxisList& unsliced_axes =
        value(slice.operands[0]).layout.dims[slice_dim];
    bool reaches_sum = false;
    std::vector<std::pair<int, int>> open = {{slice.operands[0], slice_dim}};
    if (!CanPass(slice.operands[0])) return false;
    while (!open.empty()) {
      const auto [id, dim] = open.back();
      open.pop_back();
      const int producer = producers_[id];
      if (passed_.size() == kMaxPassed) return false;
      passed_.push_back({id, dim});
      const Instruction& instruction = program_.instructions[producer];
      for (size_t o = 0; o < instruction.operands.size(); ++o) {
        const int operand = instruction.operands[o];
        const int at =
            instruction.opcode == Opcode::kReshape
                ? dim
                : value(operand).shape.Find(value(id).shape[dim].name);
        if (at < 0) continue;  // broadcast along the dimension
        if (value(operand).layout.dims[at] != unsliced_axes) return false;
        if (CanPass(operand)) {
          open.push_back({operand, at});
          continue;
        }
        sliced_operands_.push_back({producer, o, at});
        reaches_sum = reaches_sum || IsReductionOver(operand, slice);
      }
    }
    return reaches_sum;
  }

  // Whether a value comes from a map or a rename and has one reader only.
  bool CanPass(int id) const {
    if (producers_[id] < 0 || readers_[id] != 1) return false;
    const Instruction& instruction = program_.instructions[producers_[id]];
    if (instruction.opcode == Opcode::kMap) {
      return !instruction.operands.empty();
    }
    if (instruction.opcode != Opcode::kReshape) return false;
    const ProgramValue &from = value(instruction.operands[0]), &to = value(id);
    if (from.shape.rank() != to.shape.rank()) return false;
    for (int i = 0; i < to.shape.rank(); ++i) {
      if (from.shape[i].size != to.shape[i].size ||
          from.layout.dims[i] != to.layout.dims[i] ||
          !program_.grains.Tied(from.shape[i].name, to.shape[i].name)) {
        return false;
      }
    }
    return true;
  }

  // Whether a value is an all_reduce over the axes of `slice` with one reader.
  bool IsReductionOver(int id, const Instruction& slice) const {
    if (producers_[id] < 0 || readers_[id] != 1) return false;
    const Instruction& sum = program_.instructions[producers_[id]];
    return sum.opcode == Opcode::kAllReduce && sum.operands.size() == 1 &&
           SetOf(sum.Get<CollectiveAttributes>().axes) ==
               SetOf(slice.Get<CollectiveAttributes>().axes);
  }

  void Hoist(const Instruction& slice) {
    const int slice_dim = slice.Get<CollectiveAttributes>().dim;
    // The values between the reduction and the slice are sharded from now on.
    const AxisList sharded = value(slice.results[0]).layout.dims[slice_dim];
    for (const auto& [id, dim] : passed_) {
      program_.values[id].layout.dims[dim] = sharded;
    }
    // The last instruction that the slice moves across yields its result.
    const int last = producers_[slice.operands[0]];
    program_.instructions[last].results[0] = slice.results[0];
    producers_[slice.results[0]] = last;
    for (const SlicedOperand& each : sliced_operands_) {
      Instruction moved = slice;
      int& operand =
          program_.instructions[each.instruction].operands[each.operand];
      const ProgramValue from = value(operand);  // AddValue may reallocate
      TensorLayout layout = from.layout;
      layout.dims[each.dim] = sharded;
      moved.Get<CollectiveAttributes>().dim = each.dim;
      moved.operands = {operand};
      moved.results = {program_.AddValue(from.name, from.dtype, from.shape,
                                         std::move(layout))};
      operand = moved.results[0];
      readers_.push_back(1);
      producers_.push_back(-1);  // not in the program yet
      slices_before_[each.instruction].push_back(std::move(moved));
    }
  }

  void Rewrite(const std::vector<bool>& dead) {
    std::vector<Instruction> before = std::move(program_.instructions);
    program_.instructions.clear();
    program_.instructions.reserve(before.size() + 16);
    for (size_t i = 0; i < before.size(); ++i) {
      for (Instruction& slice : slices_before_[i]) {
        program_.instructions.push_back(std::move(slice));
      }
      if (!dead[i]) program_.instructions.push_back(std::move(before[i]));
    }
  }

  Program& program_;
  std::vector<int> readers_, producers_;
  std::vector<std::vector<Instruction>> slices_before_;  // by instruction
  std::vector<std::pair<int, int>> passed_;              // value, dimension
  std::vector<SlicedOperand> sliced_operands_;
};

}  // namespace

absl::Status HoistSlices(Program& program) {
  const bool slices =
      std::any_of(program.instructions.begin(), program.instructions.end(),
                  [](const Instruction& instruction) {
                    return instruction.opcode == Opcode::kAllSlice;
                  });
  if (slices) SliceHoister(program).Run();
  return absl::OkStatus();
}

}  // namespace mtf
