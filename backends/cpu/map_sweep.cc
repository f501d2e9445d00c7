// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/map_sweep.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "backends/cpu/block_prefetch.h"
#include "backends/cpu/threads.h"

namespace mtf::cpu {
namespace {

constexpr int64_t kSweepBlock = BlockMap::kBlock;
// Minimum number of blocks of maps per thread, about 10 microseconds of work.
constexpr int64_t kSweepGrain = 32;

}  // namespace

MapSweep::MapSweep(std::vector<MapChain> chains) : chains_(std::move(chains)) {
  int64_t blocks = 0;
  size_t maps = 0;
  for (const MapChain& chain : chains_) {
    first_block_.push_back(blocks);
    blocks += (chain[0].elements() + kSweepBlock - 1) / kSweepBlock;
    maps = std::max(maps, chain.size());
  }
  first_block_.push_back(blocks);
  grain_ = std::max<int64_t>(1, kSweepGrain / static_cast<int64_t>(maps));
}

void MapSweep::Run(StepContext&) {
  ParallelFor(first_block_.back(), grain_, [&](int64_t begin, int64_t end) {
    // The chain that `begin` is in, and those after it.
    size_t chain =
        std::upper_bound(first_block_.begin(), first_block_.end(), begin) -
        first_block_.begin() - 1;
    for (; begin < end; ++chain) {
      const int64_t first = first_block_[chain];
      const int64_t last = std::min(end, first_block_[chain + 1]);
      RunBlocks(chains_[chain], begin - first, last - first);
      begin = last;
    }
  });
}

void MapSweep::RunBlocks(const MapChain& chain, int64_t first, int64_t last) {
  if (first == last) return;
  const int64_t elements = chain[0].elements();
  const auto size_of = [&](int64_t block) {
    return std::min(kSweepBlock, elements - block * kSweepBlock);
  };
  BlockPrefetch prefetch;
  for (const BlockMap& map : chain) map.AddTo(prefetch);
  prefetch.Start(0, 0);
  std::vector<std::unique_ptr<BlockMap::Runner>> runners;
  // The runner of a map is made after the block of the map before it, because
  // it reads operands of a single element.
  for (const BlockMap& map : chain) {
    runners.push_back(std::make_unique<BlockMap::Runner>(map, &prefetch));
    runners.back()->Run(first * kSweepBlock, size_of(first));
  }
  for (int64_t block = first + 1; block < last; ++block) {
    const bool has_next = block + 1 < last;
    prefetch.Start((block + 1) * kSweepBlock,
                   has_next ? size_of(block + 1) : 0);
    for (const auto& runner : runners) {
      runner->Run(block * kSweepBlock, size_of(block));
    }
  }
}

}  // namespace mtf::cpu
