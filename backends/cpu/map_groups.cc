// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/map_groups.h"

#include <algorithm>
#include <utility>

#include "backends/cpu/map.h"
#include "backends/cpu/threads.h"
#include "lowering/program/is_no_op.h"

namespace mtf::cpu {
namespace {

// Minimum number of blocks per thread, about 10 microseconds of work.
constexpr int64_t kGroupGrain = 16;
// Longer groups would not keep their blocks in the first-level cache.
constexpr size_t kMaxMembers = 8;

const ProgramValue& ResultOf(const Program& program, int index) {
  return program.values[program.instructions[index].results[0]];
}

bool HaveSameElements(const ProgramValue& x, const ProgramValue& y) {
  return x.local == y.local && x.shape == y.shape;
}

// Whether `instruction` reads or writes a value that a member reads or writes.
bool SharesValues(const Program& program, const std::vector<int>& members,
                  const Instruction& instruction) {
  return std::any_of(members.begin(), members.end(), [&](int member) {
    const Instruction& other = program.instructions[member];
    return std::any_of(
        instruction.operands.begin(), instruction.operands.end(),
        [&](int operand) {
          return operand == other.results[0] ||
                 (program.values[operand].shape.rank() > 0 &&
                  std::find(other.operands.begin(), other.operands.end(),
                            operand) != other.operands.end());
        });
  });
}

bool Overlaps(const BoundValue& x, const BoundValue& y) {
  const char* const x_begin = static_cast<const char*>(x.data);
  const char* const y_begin = static_cast<const char*>(y.data);
  return x_begin < y_begin + y.elements() * DTypeSize(y.dtype()) &&
         y_begin < x_begin + x.elements() * DTypeSize(x.dtype());
}

// Whether element i of both is at the same address, for every i.
bool IsSameMemory(const BoundValue& x, const BoundValue& y) {
  return x.data == y.data && DTypeSize(x.dtype()) == DTypeSize(y.dtype()) &&
         HaveSameElements(*x.value, *y.value);
}

// Whether `later` may compute a block as soon as `earlier` has computed the
// same block: each writes nothing that the other reads or writes at other
// elements.
bool CanInterleave(const Binding& earlier, const Binding& later) {
  const auto is_safe = [](const BoundValue& x, const BoundValue& y) {
    return !Overlaps(x, y) || IsSameMemory(x, y);
  };
  const BoundValue &first = earlier.results[0], &second = later.results[0];
  return is_safe(first, second) &&
         std::all_of(
             earlier.operands.begin(), earlier.operands.end(),
             [&](const BoundValue& read) { return is_safe(read, second); }) &&
         std::all_of(
             later.operands.begin(), later.operands.end(),
             [&](const BoundValue& read) { return is_safe(read, first); });
}

class MapGroupKernel : public Kernel {
 public:
  explicit MapGroupKernel(std::vector<std::unique_ptr<BlockMap>> maps)
      : maps_(std::move(maps)) {}

  void Run(StepContext&) override {
    const int64_t elements = maps_[0]->elements();
    const int64_t blocks = (elements + BlockMap::kBlock - 1) / BlockMap::kBlock;
    ParallelFor(blocks, kGroupGrain, [&](int64_t first, int64_t last) {
      std::vector<std::unique_ptr<BlockMap::Runner>> runners;
      for (const auto& map : maps_) runners.push_back(map->MakeRunner());
      for (int64_t block = first; block < last; ++block) {
        const int64_t begin = block * BlockMap::kBlock;
        const int64_t count = std::min(BlockMap::kBlock, elements - begin);
        for (const auto& runner : runners) runner->Run(begin, count);
      }
    });
  }

 private:
  std::vector<std::unique_ptr<BlockMap>> maps_;
};

}  // namespace

std::vector<std::vector<int>> FindMapGroups(const Program& program) {
  std::vector<std::vector<int>> groups;
  std::vector<int> group;
  const auto finish = [&] {
    if (group.size() > 1) groups.push_back(group);
    group.clear();
  };
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.opcode != Opcode::kMap) {
      if (!IsNoOp(program, instruction)) finish();
      continue;
    }
    const int index = static_cast<int>(i);
    const ProgramValue& result = ResultOf(program, index);
    if (!group.empty() &&
        (group.size() == kMaxMembers ||
         !HaveSameElements(ResultOf(program, group[0]), result) ||
         !SharesValues(program, group, instruction))) {
      finish();
    }
    // A single element is read before the first block, so it cannot be the
    // result of another member.
    if (result.local_elements() > 1) group.push_back(index);
  }
  finish();
  return groups;
}

std::unique_ptr<Kernel> PrepareMapGroup(absl::Span<const Binding> members) {
  for (size_t later = 1; later < members.size(); ++later) {
    for (size_t earlier = 0; earlier < later; ++earlier) {
      if (!CanInterleave(members[earlier], members[later])) return nullptr;
    }
  }
  std::vector<std::unique_ptr<BlockMap>> maps;
  for (const Binding& member : members) {
    maps.push_back(BlockMap::Create(ExpressionOf(member.instruction()),
                                    member.operands, member.results[0]));
    if (maps.back() == nullptr) return nullptr;
  }
  return std::make_unique<MapGroupKernel>(std::move(maps));
}

}  // namespace mtf::cpu
