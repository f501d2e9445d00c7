// SPDX-License-Identifier: Apache-2.0
#include "layouts/shard.h"

#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layouts/all_layouts.h"

namespace mtf {
namespace {

using ::mtf::internal::AllLayouts;
using ::testing::ElementsAre;

// All dimensions may use all axes.
Grains AllAxes(const Mesh& mesh, const Shape& shape) {
  Grains grains(mesh);
  for (const Dimension& dim : shape) {
    grains.Allow(dim.name, (AxisSet{1} << mesh.num_axes()) - 1);
  }
  return grains;
}

TEST(ShardOf, LastShardsMayBeShortOrEmpty) {
  const Mesh mesh = *Mesh::Parse("x:4");
  const Shape shape = {{"a", 5}};
  const Grains grains = AllAxes(mesh, shape);
  TensorLayout layout = TensorLayout::Replicated(1);
  layout.dims[0] = {0};
  std::vector<ShardedDimension> shards;
  for (int rank = 0; rank < 4; ++rank) {
    shards.push_back(ShardOf(grains, shape, layout, rank)[0]);
  }
  EXPECT_THAT(
      shards,
      ElementsAre(ShardedDimension{2, 0, 2}, ShardedDimension{2, 2, 2},
                  ShardedDimension{2, 4, 1}, ShardedDimension{2, 5, 0}));
  EXPECT_EQ(ShardOf(grains, shape, TensorLayout::Replicated(1), 3)[0],
            (ShardedDimension{8, 0, 5}))
      << "a replicated value keeps the padding of its grain";
}

TEST(ShardOf, EmptyDimensionHasExtentZero) {
  const Mesh mesh = *Mesh::Parse("x:2");
  const Shape shape = {{"a", 0}};
  const Grains grains = AllAxes(mesh, shape);
  TensorLayout layout = TensorLayout::Replicated(1);
  layout.dims[0] = {0};
  EXPECT_EQ(ShardOf(grains, shape, layout, 1)[0], (ShardedDimension{0, 0, 0}));
  EXPECT_EQ(LocalElements(grains, shape, layout), 0);
}

TEST(ShardOf, TheOrderOfAxesPermutesShards) {
  const Mesh mesh = *Mesh::Parse("x:2,y:2");
  const Shape shape = {{"a", 4}};
  const Grains grains = AllAxes(mesh, shape);
  TensorLayout layout = TensorLayout::Replicated(1);
  layout.dims[0] = {1, 0};
  std::vector<int64_t> offsets;
  for (int rank = 0; rank < 4; ++rank) {
    offsets.push_back(ShardOf(grains, shape, layout, rank)[0].offset);
  }
  EXPECT_THAT(offsets, ElementsAre(0, 2, 1, 3));
}

TEST(ShardOf, FinerShardsNestInCoarserOnesForEverySize) {
  const Mesh mesh = *Mesh::Parse("x:2,y:3,z:2");
  for (int64_t size = 0; size <= 13; ++size) {
    const Shape shape = {{"a", size}};
    const Grains grains = AllAxes(mesh, shape);
    for (const TensorLayout& fine : AllLayouts(mesh, 1, false)) {
      for (int kept = 0; kept <= fine.dims[0].size(); ++kept) {
        TensorLayout coarse = fine;
        coarse.dims[0] = fine.dims[0].Prefix(kept);
        for (int rank = 0; rank < 12; ++rank) {
          const ShardedDimension in = ShardOf(grains, shape, fine, rank)[0];
          const ShardedDimension out = ShardOf(grains, shape, coarse, rank)[0];
          EXPECT_GE(in.offset, out.offset);
          EXPECT_LE(in.offset + in.valid, out.offset + out.valid);
        }
      }
    }
  }
}

TEST(LocalElements, SaturatesBeyondTheAddressSpace) {
  const Mesh mesh = *Mesh::Parse("x:2147483647");
  const Shape shape = {{"a", 1}, {"b", 1}, {"c", 1}};
  EXPECT_EQ(
      LocalElements(AllAxes(mesh, shape), shape, TensorLayout::Replicated(3)),
      std::numeric_limits<int64_t>::max());
}

TEST(LocalExtentDeathTest, NamesAnAxisThatWasNotAllowed) {
  const Grains grains(*Mesh::Parse("x:2"));
  TensorLayout layout = TensorLayout::Replicated(1);
  layout.dims[0] = {0};
  EXPECT_DEATH(LocalExtent(grains, {{"a", 3}}, layout, 0),
               "extent 3 of \"a\" is not a multiple of 2 shards: "
               "Grains::Allow was not called for x");
}

TEST(ScatterShard, FillsPaddingWithZeros) {
  const Mesh mesh = *Mesh::Parse("x:2,y:2");
  const Shape shape = {{"a", 3}, {"b", 3}};
  Grains grains(mesh);
  grains.Allow("a", 0b01);
  grains.Allow("b", 0b10);
  TensorLayout layout = TensorLayout::Replicated(2);
  layout.dims[0] = {0};
  layout.dims[1] = {1};
  const std::vector<int32_t> global = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto shard = [&](int rank) {
    std::vector<int32_t> result(4, -1);
    ScatterShard(grains, shape, layout, rank, 4, global.data(), result.data());
    return result;
  };
  EXPECT_THAT(shard(0), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(shard(1), ElementsAre(3, 0, 6, 0));
  EXPECT_THAT(shard(2), ElementsAre(7, 8, 0, 0));
  EXPECT_THAT(shard(3), ElementsAre(9, 0, 0, 0));
}

TEST(ScatterShard, ScalarIsReplicated) {
  const Grains grains(*Mesh::Parse("x:2"));
  const double global = 7;
  double shard = 0;
  ScatterShard(grains, {}, TensorLayout(), 1, 8, &global, &shard);
  EXPECT_EQ(shard, 7);
}

TEST(ScatterShard, EmptyTensorWritesNothing) {
  const Mesh mesh = *Mesh::Parse("x:2");
  const Shape shape = {{"a", 0}, {"b", 3}};
  const Grains grains = AllAxes(mesh, shape);
  const TensorLayout layout = TensorLayout::Replicated(2);
  ScatterShard(grains, shape, layout, 0, 4, nullptr, nullptr);
  GatherShard(grains, shape, layout, 0, 4, nullptr, nullptr);
}

TEST(GatherShard, UndoesScatterForEveryLayoutAndElementSize) {
  const Mesh mesh = *Mesh::Parse("x:2,y:3");
  for (const Shape& shape :
       {Shape{{"a", 5}}, Shape{{"a", 4}, {"b", 7}},
        Shape{{"a", 6}, {"b", 6}, {"c", 2}}, Shape{{"a", 1}, {"b", 13}}}) {
    const Grains grains = AllAxes(mesh, shape);
    for (const TensorLayout& layout : AllLayouts(mesh, shape.rank(), false)) {
      for (int element_size : {1, 2, 8}) {
        std::vector<unsigned char> global(shape.num_elements() * element_size);
        std::iota(global.begin(), global.end(), 1);
        std::vector<unsigned char> gathered(global.size(), 0);
        for (int rank = 0; rank < 6; ++rank) {
          std::vector<unsigned char> shard(
              LocalElements(grains, shape, layout) * element_size, 255);
          ScatterShard(grains, shape, layout, rank, element_size, global.data(),
                       shard.data());
          GatherShard(grains, shape, layout, rank, element_size, shard.data(),
                      gathered.data());
        }
        EXPECT_EQ(gathered, global) << LayoutText(mesh, shape, layout);
      }
    }
  }
}

}  // namespace
}  // namespace mtf
