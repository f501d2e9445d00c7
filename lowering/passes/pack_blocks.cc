// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/pack_blocks.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace mtf {
namespace {

// The free ranges of an arena, by offset; adjacent ranges are merged.
class ArenaAllocator {
 public:
  // Allocates from the smallest free range that is large enough, or at the end.
  int64_t Allocate(int64_t bytes) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->bytes >= bytes &&
          (best == free_.end() || it->bytes < best->bytes)) {
        best = it;
      }
    }
    if (best == free_.end()) {
      // A free range at the end of the arena is extended.
      int64_t offset = end_;
      if (!free_.empty() && free_.back().end() == end_) {
        offset = free_.back().offset;
        free_.pop_back();
      }
      end_ = offset + bytes;
      return offset;
    }
    const int64_t offset = best->offset;
    best->offset += bytes;
    best->bytes -= bytes;
    if (best->bytes == 0) free_.erase(best);
    return offset;
  }

  // Frees a range and merges it with its neighbours.
  void Free(int64_t offset, int64_t bytes) {
    auto next = std::lower_bound(free_.begin(), free_.end(), offset,
                                 [](const FreeRange& range, int64_t begin) {
                                   return range.offset < begin;
                                 });
    const bool joins_next =
        next != free_.end() && offset + bytes == next->offset;
    if (next != free_.begin() && std::prev(next)->end() == offset) {
      std::prev(next)->bytes += bytes;
      if (!joins_next) return;
      std::prev(next)->bytes += next->bytes;
      free_.erase(next);
    } else if (joins_next) {
      next->offset = offset;
      next->bytes += bytes;
    } else {
      free_.insert(next, {offset, bytes});
    }
  }

  int64_t end() const { return end_; }

 private:
  struct FreeRange {
    int64_t offset, bytes;
    int64_t end() const { return offset + bytes; }
  };
  std::vector<FreeRange> free_;
  int64_t end_ = 0;
};

// The indices of the blocks, sorted by end.
std::vector<int> OrderByEnd(const std::vector<MemoryBlock>& blocks) {
  std::vector<int> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return blocks[a].end < blocks[b].end; });
  return order;
}

// Assigns offsets to blocks by start time; reuses the memory of blocks that
// have ended. Returns the size of the arena.
int64_t PackForwards(const std::vector<int>& by_end,
                     std::vector<MemoryBlock>& blocks) {
  ArenaAllocator arena;
  size_t ended = 0;
  for (MemoryBlock& block : blocks) {
    while (blocks[by_end[ended]].end < block.begin) {
      const MemoryBlock& dead = blocks[by_end[ended++]];
      arena.Free(dead.offset, dead.bytes);
    }
    block.offset = arena.Allocate(block.bytes);
  }
  return arena.end();
}

// The same with time reversed.
int64_t PackBackwards(std::vector<MemoryBlock>& blocks) {
  const std::vector<int> by_end = OrderByEnd(blocks);
  std::vector<MemoryBlock> reversed;
  reversed.reserve(blocks.size());
  for (size_t i = blocks.size(); i-- > 0;) {
    const MemoryBlock& block = blocks[by_end[i]];
    reversed.push_back({block.bytes, -block.end, -block.begin});
  }
  const int64_t bytes = PackForwards(OrderByEnd(reversed), reversed);
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[by_end[blocks.size() - 1 - i]].offset = reversed[i].offset;
  }
  return bytes;
}

// The blocks placed so far, sorted by offset: all of them, and those of each of
// kSegments equal segments of time. A short-lived block is compared with the
// blocks of one segment only.
class PlacedBlocks {
 public:
  explicit PlacedBlocks(const std::vector<MemoryBlock>& blocks) {
    begin_ = blocks.empty() ? 0 : blocks.front().begin;
    int end = begin_;
    for (const MemoryBlock& block : blocks) end = std::max(end, block.end);
    segment_length_ = (end - begin_) / kSegments + 1;
    by_segment_.resize(kSegments);
  }

  // The offset of the smallest hole, between blocks that are needed at the same
  // time, that holds `block`; or the end of the last of them.
  int64_t FindHole(const MemoryBlock& block) const {
    const int segment = SegmentOf(block.begin);
    const std::vector<PlacedBlock>& placed =
        SegmentOf(block.end) == segment ? by_segment_[segment] : all_;
    int64_t end = 0, best = -1, smallest = 0;
    for (const PlacedBlock& other : placed) {
      if (other.begin > block.end || other.end < block.begin) continue;
      const int64_t hole = other.offset - end;
      if (hole >= block.bytes && (best < 0 || hole < smallest)) {
        best = end;
        smallest = hole;
      }
      end = std::max(end, other.offset + other.bytes);
    }
    return best < 0 ? end : best;
  }

  void Add(const MemoryBlock& block) {
    const PlacedBlock entry = {block.offset, block.bytes, block.begin,
                               block.end};
    Insert(entry, all_);
    for (int i = SegmentOf(block.begin); i <= SegmentOf(block.end); ++i) {
      Insert(entry, by_segment_[i]);
    }
  }

 private:
  struct PlacedBlock {
    int64_t offset, bytes;
    int begin, end;
  };
  static constexpr int kSegments = 24;

  int SegmentOf(int time) const { return (time - begin_) / segment_length_; }
  static void Insert(const PlacedBlock& entry, std::vector<PlacedBlock>& list) {
    list.insert(std::upper_bound(list.begin(), list.end(), entry.offset,
                                 [](int64_t offset, const PlacedBlock& other) {
                                   return offset < other.offset;
                                 }),
                entry);
  }

  int begin_ = 0;
  int segment_length_ = 1;
  std::vector<PlacedBlock> all_;
  std::vector<std::vector<PlacedBlock>> by_segment_;
};

// Places the blocks in the order of decreasing weight.
template <class Weight>
int64_t PackByWeight(Weight weight, std::vector<MemoryBlock>& blocks) {
  std::vector<std::pair<double, int>> order;
  order.reserve(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    order.emplace_back(-weight(blocks[i]), static_cast<int>(i));
  }
  std::sort(order.begin(), order.end());
  PlacedBlocks placed(blocks);
  int64_t end = 0;
  for (const auto& [unused, index] : order) {
    MemoryBlock& block = blocks[index];
    block.offset = placed.FindHole(block);
    end = std::max(end, block.offset + block.bytes);
    placed.Add(block);
  }
  return end;
}

}  // namespace

int64_t PeakBytes(const std::vector<MemoryBlock>& blocks) {
  const std::vector<int> by_end = OrderByEnd(blocks);
  int64_t now = 0, peak = 0;
  size_t ended = 0;
  for (const MemoryBlock& block : blocks) {
    while (blocks[by_end[ended]].end < block.begin) {
      now -= blocks[by_end[ended++]].bytes;
    }
    peak = std::max(peak, now += block.bytes);
  }
  return peak;
}

int64_t PackBlocks(std::vector<MemoryBlock>& blocks) {
  const int64_t peak = PeakBytes(blocks), enough = peak + peak / 64;
  int64_t best = PackForwards(OrderByEnd(blocks), blocks);
  if (best <= enough) return best;
  std::vector<MemoryBlock> candidate = blocks;
  const auto try_order = [&](auto pack) {
    if (best <= enough) return;
    const int64_t bytes = pack(candidate);
    if (bytes >= best) return;
    best = bytes;
    blocks = candidate;
  };
  try_order(PackBackwards);
  try_order([](std::vector<MemoryBlock>& all) {
    return PackByWeight(
        [](const MemoryBlock& block) {
          const auto bytes = static_cast<double>(block.bytes);
          return bytes * bytes * (block.end - block.begin + 1);
        },
        all);
  });
  try_order([](std::vector<MemoryBlock>& all) {
    return PackByWeight(
        [](const MemoryBlock& block) {
          return static_cast<double>(block.bytes);
        },
        all);
  });
  return best;
}

}  // namespace mtf
