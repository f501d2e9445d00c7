// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/pack_blocks.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace mtf {
namespace {

// Free stretches of the arena, by offset; neighbours are joined.
class Arena {
 public:
  // The smallest free stretch that is large enough, or the end of the arena.
  int64_t Take(int64_t bytes) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->bytes >= bytes &&
          (best == free_.end() || it->bytes < best->bytes)) {
        best = it;
      }
    }
    if (best == free_.end()) {
      // A free stretch at the very end grows into the new one.
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

  void Give(int64_t offset, int64_t bytes) {
    auto next = std::lower_bound(free_.begin(), free_.end(), offset,
                                 [](const Stretch& stretch, int64_t place) {
                                   return stretch.offset < place;
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
  struct Stretch {
    int64_t offset, bytes;
    int64_t end() const { return offset + bytes; }
  };
  std::vector<Stretch> free_;
  int64_t end_ = 0;
};

// The places of the blocks in the order of their end.
std::vector<int> ByEnd(const std::vector<MemoryBlock>& blocks) {
  std::vector<int> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return blocks[a].end < blocks[b].end; });
  return order;
}

int64_t PackInTime(const std::vector<int>& by_end,
                   std::vector<MemoryBlock>& blocks) {
  Arena arena;
  size_t ended = 0;
  for (MemoryBlock& block : blocks) {
    while (blocks[by_end[ended]].end < block.begin) {
      const MemoryBlock& free = blocks[by_end[ended++]];
      arena.Give(free.offset, free.bytes);
    }
    block.offset = arena.Take(block.bytes);
  }
  return arena.end();
}

// The same from the last time to the first.
int64_t PackBackwards(std::vector<MemoryBlock>& blocks) {
  const std::vector<int> by_end = ByEnd(blocks);
  std::vector<MemoryBlock> turned;
  turned.reserve(blocks.size());
  for (size_t i = blocks.size(); i-- > 0;) {
    const MemoryBlock& block = blocks[by_end[i]];
    turned.push_back({block.bytes, -block.end, -block.begin});
  }
  const int64_t bytes = PackInTime(ByEnd(turned), turned);
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[by_end[blocks.size() - 1 - i]].offset = turned[i].offset;
  }
  return bytes;
}

// Blocks that have their place, in the order of their offsets: all of them, and
// those of each short stretch of time. A short block looks at few others.
class Placed {
 public:
  explicit Placed(const std::vector<MemoryBlock>& blocks) {
    begin_ = blocks.empty() ? 0 : blocks.front().begin;
    int end = begin_;
    for (const MemoryBlock& block : blocks) end = std::max(end, block.end);
    stretch_ = (end - begin_) / kStretches + 1;
    stretches_.resize(kStretches);
  }

  // The smallest hole between blocks of the same time that takes `block`, or
  // the end of the last.
  int64_t FindHole(const MemoryBlock& block) const {
    const int stretch = StretchOf(block.begin);
    const std::vector<Entry>& others =
        StretchOf(block.end) == stretch ? stretches_[stretch] : all_;
    int64_t end = 0, best = -1, smallest = 0;
    for (const Entry& other : others) {
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
    const Entry entry = {block.offset, block.bytes, block.begin, block.end};
    Insert(entry, all_);
    for (int i = StretchOf(block.begin); i <= StretchOf(block.end); ++i) {
      Insert(entry, stretches_[i]);
    }
  }

 private:
  struct Entry {
    int64_t offset, bytes;
    int begin, end;
  };
  static constexpr int kStretches = 24;

  int StretchOf(int time) const { return (time - begin_) / stretch_; }
  static void Insert(const Entry& entry, std::vector<Entry>& list) {
    list.insert(std::upper_bound(list.begin(), list.end(), entry.offset,
                                 [](int64_t offset, const Entry& other) {
                                   return offset < other.offset;
                                 }),
                entry);
  }

  int begin_ = 0;
  int stretch_ = 1;  // how long each is
  std::vector<Entry> all_;
  std::vector<std::vector<Entry>> stretches_;
};

// Places the blocks with the largest weight first.
template <class Weight>
int64_t PackByWeight(Weight weight, std::vector<MemoryBlock>& blocks) {
  std::vector<std::pair<double, int>> order;
  order.reserve(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    order.emplace_back(-weight(blocks[i]), static_cast<int>(i));
  }
  std::sort(order.begin(), order.end());
  Placed placed(blocks);
  int64_t end = 0;
  for (const auto& [unused, place] : order) {
    MemoryBlock& block = blocks[place];
    block.offset = placed.FindHole(block);
    end = std::max(end, block.offset + block.bytes);
    placed.Add(block);
  }
  return end;
}

}  // namespace

int64_t MostBytes(const std::vector<MemoryBlock>& blocks) {
  const std::vector<int> by_end = ByEnd(blocks);
  int64_t now = 0, most = 0;
  size_t ended = 0;
  for (const MemoryBlock& block : blocks) {
    while (blocks[by_end[ended]].end < block.begin) {
      now -= blocks[by_end[ended++]].bytes;
    }
    most = std::max(most, now += block.bytes);
  }
  return most;
}

int64_t PackBlocks(std::vector<MemoryBlock>& blocks) {
  const int64_t most = MostBytes(blocks), enough = most + most / 64;
  int64_t best = PackInTime(ByEnd(blocks), blocks);
  if (best <= enough) return best;
  std::vector<MemoryBlock> other = blocks;
  const auto try_order = [&](auto pack) {
    if (best <= enough) return;
    const int64_t bytes = pack(other);
    if (bytes >= best) return;
    best = bytes;
    blocks = other;
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
