// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "backends/cuda/codegen/loop_nest.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtf::cuda {
namespace {

TEST(LoopNest, ContiguousDimensionsMerge) {
  LoopNest nest("i", 2);
  nest.Add("a", 4, {24, 24}, false);
  nest.Add("b", 3, {8, 8}, false);
  nest.Add("c", 8, {1, 1}, false);
  EXPECT_EQ(nest.elements(), 96);
  EXPECT_EQ(nest.inner_extent(), 96);
  EXPECT_EQ(nest.Offset(0), "i");
  EXPECT_EQ(nest.Coordinates("  "), "");
}

TEST(LoopNest, BroadcastArrayUsesItsOwnCoordinates) {
  LoopNest nest("i", 2);
  nest.Add("a", 4, {24, 0}, false);
  nest.Add("b", 3, {8, 1}, false);
  nest.Add("c", 8, {1, 0}, false);
  EXPECT_EQ(nest.Offset(0), "i");
  EXPECT_EQ(nest.Offset(1), "i_1");
  EXPECT_EQ(nest.Coordinates("  "), "  const Index i_1 = i / 8 % 3;\n");
}

TEST(LoopNest, TransposedArrayUsesAllCoordinates) {
  LoopNest nest("i", 2);
  nest.Add("a", 4, {3, 1}, false);
  nest.Add("b", 3, {1, 4}, false);
  EXPECT_EQ(nest.Offset(0), "i");
  EXPECT_EQ(nest.Offset(1), "i_0 + i_1 * 4");
  EXPECT_EQ(nest.Coordinates(""),
            "const Index i_1 = i % 3;\nconst Index i_0 = i / 3;\n");
  EXPECT_EQ(nest.Reach(1), 11);
}

TEST(LoopNest, IotaDimensionsDoNotMerge) {
  LoopNest nest("i", 1);
  nest.Add("a", 4, {6}, false);
  nest.Add("one", 1, {6}, true);
  nest.Add("b", 6, {1}, true);
  EXPECT_EQ(nest.Coordinate("b"), "i_1");
  EXPECT_EQ(nest.Coordinate("one"), "0");
  EXPECT_EQ(nest.Coordinate("a"), "") << "is not counted";
  EXPECT_TRUE(nest.IsInner("b"));
  EXPECT_EQ(nest.Offset(0), "i");
  EXPECT_THAT(nest.Coordinates(""), ::testing::HasSubstr("i_1 = i % 6"));
}

TEST(LoopNest, SingleNumberHasNoOffset) {
  LoopNest nest("i", 1);
  nest.Add("a", 1, {1}, false);
  EXPECT_EQ(nest.elements(), 1);
  EXPECT_EQ(nest.Offset(0), "");
  EXPECT_EQ(nest.inner_stride(0), 0);
  EXPECT_EQ(SumText({nest.Offset(0)}), "0");
  EXPECT_EQ(SumText({"", "a", "", "b"}), "a + b");
}

// Rows of 10 allow packs of two; packs of four need aligned rows.
TEST(LoopNest, PacksNeedAlignedOffsets) {
  LoopNest nest("i", 2);
  nest.Add("a", 3, {20, 10}, false);
  nest.Add("b", 8, {1, 1}, false);
  EXPECT_TRUE(nest.InnerDivides(8));
  EXPECT_TRUE(nest.OffsetsDivide(0, 4));
  EXPECT_FALSE(nest.OffsetsDivide(0, 8));
  EXPECT_TRUE(nest.OffsetsDivide(1, 2));
  EXPECT_FALSE(nest.OffsetsDivide(1, 4));
  EXPECT_FALSE(nest.StridesDivide(0, 2)) << "neighbours along b";
}

}  // namespace
}  // namespace mtf::cuda
