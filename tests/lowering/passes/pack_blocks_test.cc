// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/pack_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace mtf {
namespace {

// Blocks needed at the same time do not overlap, and all lie within the arena.
void ExpectPacked(const std::vector<MemoryBlock>& blocks, int64_t arena) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const MemoryBlock& a = blocks[i];
    EXPECT_GE(a.offset, 0);
    EXPECT_LE(a.offset + a.bytes, arena);
    for (size_t j = 0; j < i; ++j) {
      const MemoryBlock& b = blocks[j];
      if (a.begin > b.end || b.begin > a.end) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset ||
                  b.offset + b.bytes <= a.offset)
          << "blocks " << j << " and " << i;
    }
  }
}

TEST(PackBlocks, NoBlocksTakeNoMemory) {
  std::vector<MemoryBlock> blocks;
  EXPECT_EQ(PackBlocks(blocks), 0);
  EXPECT_EQ(PeakBytes(blocks), 0);
}

TEST(PackBlocks, BlocksOfDisjointTimesShareAnOffset) {
  std::vector<MemoryBlock> blocks = {{64, 0, 1}, {64, 1, 2}, {64, 2, 3}};
  EXPECT_EQ(PeakBytes(blocks), 128);
  EXPECT_EQ(PackBlocks(blocks), 128);
  ExpectPacked(blocks, 128);
  EXPECT_EQ(blocks[0].offset, blocks[2].offset);
}

// Packed in time order, the hole of the first block goes to a small block that
// outlives it, so the large one comes on top: 256 + 256 + 512 bytes.
TEST(PackBlocks, PackingLargeBlocksFirstFillsHoles) {
  std::vector<MemoryBlock> blocks = {
      {256, 0, 1}, {256, 1, 9}, {64, 2, 9}, {512, 3, 9}};
  EXPECT_EQ(PeakBytes(blocks), 832);
  EXPECT_EQ(PackBlocks(blocks), 832);
  ExpectPacked(blocks, 832);
}

// The shape of a training step: the backward pass needs the saved values in
// reverse order, and many short-lived values lie in between.
std::vector<MemoryBlock> Step(int layers, std::mt19937& random) {
  std::vector<MemoryBlock> blocks;
  const int last = layers * 20;
  for (int time = 0; time < last; ++time) {
    const auto any = [&](int most) {
      return 1 + static_cast<int>(random() % most);
    };
    if (random() % 2 == 0 && time < last / 2) {
      blocks.push_back({64 * any(64), time, last - time + any(8)});
    }
    blocks.push_back({64 * any(100), time, time + any(6)});
  }
  return blocks;
}

TEST(PackBlocks, RandomStepsAreWithinTwentyPerCentAndNeverOverlap) {
  std::mt19937 random(17);
  for (int round = 0; round < 40; ++round) {
    std::vector<MemoryBlock> blocks = Step(1 + round, random);
    const int64_t arena = PackBlocks(blocks), most = PeakBytes(blocks);
    ExpectPacked(blocks, arena);
    EXPECT_GE(arena, most);
    EXPECT_LE(arena, most + most / 5) << round;
  }
}

TEST(PackBlocks, IsAFunctionOfItsArgument) {
  std::mt19937 random(3);
  const std::vector<MemoryBlock> blocks = Step(12, random);
  std::vector<MemoryBlock> one = blocks, two = blocks;
  EXPECT_EQ(PackBlocks(one), PackBlocks(two));
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].offset, two[i].offset);
  }
}

}  // namespace
}  // namespace mtf
