// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/map_groups.h"

#include <algorithm>
#include <utility>

#include "backends/cpu/map.h"
#include "backends/cpu/threads.h"

namespace mtf::cpu {
namespace {

// Minimum number of blocks per thread, about 10 microseconds of work.
constexpr int64_t kGroupGrain = 16;

bool Overlaps(const BoundValue& x, const BoundValue& y) {
  const char* const x_begin = static_cast<const char*>(x.data);
  const char* const y_begin = static_cast<const char*>(y.data);
  return x_begin < y_begin + y.elements() * DTypeSize(y.dtype()) &&
         y_begin < x_begin + x.elements() * DTypeSize(x.dtype());
}

// Whether element i of both is at the same address, for every i.
bool IsSameMemory(const BoundValue& x, const BoundValue& y) {
  return x.data == y.data && DTypeSize(x.dtype()) == DTypeSize(y.dtype()) &&
         x.value->shape == y.value->shape && x.value->local == y.value->local;
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
