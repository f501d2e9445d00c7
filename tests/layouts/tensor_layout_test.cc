// SPDX-License-Identifier: Apache-2.0
#include "layouts/tensor_layout.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace mtf {
namespace {

TEST(TensorLayout, ReplicatedUsesNoAxis) {
  const TensorLayout layout = TensorLayout::Replicated(2);
  EXPECT_TRUE(layout.IsReplicated());
  EXPECT_TRUE(layout.IsLegal());
  EXPECT_EQ(layout.Sharded(), AxisSet{0});
}

TEST(TensorLayout, AnAxisIsUsedAtMostOnce) {
  TensorLayout layout = TensorLayout::Replicated(2);
  layout.dims[0] = {0, 1};
  layout.unreduced = 0b100;
  EXPECT_TRUE(layout.IsLegal());
  EXPECT_EQ(layout.Sharded(), AxisSet{0b11});
  layout.dims[1] = {1};
  EXPECT_FALSE(layout.IsLegal()) << "one axis on two dimensions";
  layout.dims[1] = {2};
  EXPECT_FALSE(layout.IsLegal()) << "sharded over an unreduced axis";
  layout.dims[1] = {3, 3};
  EXPECT_FALSE(layout.IsLegal()) << "twice on one dimension";
}

TEST(TensorLayout, ReducedKeepsTheShardingOnly) {
  TensorLayout layout = TensorLayout::Replicated(1);
  layout.dims[0] = {0};
  TensorLayout unreduced = layout;
  unreduced.unreduced = 0b10;
  unreduced.reduction = ReduceKind::kMax;
  EXPECT_FALSE(unreduced.IsReplicated());
  EXPECT_EQ(unreduced.Reduced(), layout);
}

TEST(LayoutText, ShowsAxesAndUnreducedSet) {
  const Mesh mesh = *Mesh::Parse("pod:2,model:4,cols:2");
  const Shape shape = {{"batch", 8}, {"hidden", 16}};
  TensorLayout layout = TensorLayout::Replicated(2);
  EXPECT_EQ(LayoutText(mesh, shape, layout), "batch:8, hidden:16");
  layout.dims[1] = {1, 0};
  layout.unreduced = 0b100;
  EXPECT_EQ(LayoutText(mesh, shape, layout),
            "batch:8, hidden:16/model+pod unreduced{cols}");
  layout.reduction = ReduceKind::kMax;
  EXPECT_EQ(LayoutText(mesh, shape, layout),
            "batch:8, hidden:16/model+pod unreduced{cols} max");
  layout.reduction = ReduceKind::kMin;
  EXPECT_EQ(LayoutText(mesh, shape, layout),
            "batch:8, hidden:16/model+pod unreduced{cols} min");
  TensorLayout scalar;
  EXPECT_EQ(LayoutText(mesh, {}, scalar), "");
  scalar.unreduced = 0b11;
  EXPECT_EQ(LayoutText(mesh, {}, scalar), "unreduced{pod, model}");
}

TEST(Grains, GrainIsTheProductOfAllAxesADimensionMayUse) {
  Grains grains(*Mesh::Parse("a:2,b:3,c:4"));
  EXPECT_EQ(grains.GrainOf("unknown"), 1);
  grains.Allow("x", 0b001);
  EXPECT_EQ(grains.GrainOf("x"), 2);
  grains.Allow("x", 0b101);
  EXPECT_EQ(grains.GrainOf("x"), 8);
  EXPECT_EQ(grains.AxesOf("x"), AxisSet{0b101});
}

TEST(Grains, ExtentIsTheSmallestMultipleOfTheGrain) {
  Grains grains(*Mesh::Parse("a:2,b:3"));
  grains.Allow("x", 0b11);
  EXPECT_EQ(grains.ExtentOf("x", 0), 0);
  EXPECT_EQ(grains.ExtentOf("x", 1), 6);
  EXPECT_EQ(grains.ExtentOf("x", 6), 6);
  EXPECT_EQ(grains.ExtentOf(Dimension{"x", 7}), 12);
  EXPECT_EQ(grains.ExtentOf("unknown", 7), 7);
  EXPECT_EQ(grains.ExtentOf("x", int64_t{1} << 62) % 6, 0);
}

TEST(Grains, TiedNamesShareOneGrainInAnyOrder) {
  const Mesh mesh = *Mesh::Parse("a:2,b:3,c:5");
  Grains grains(mesh);
  grains.Allow("x", 0b001);
  grains.Tie("x", "y");
  EXPECT_EQ(grains.GrainOf("y"), 2);
  grains.Allow("y", 0b010);
  EXPECT_EQ(grains.GrainOf("x"), 6);
  grains.Allow("w", 0b100);
  grains.Tie("v", "w");
  grains.Tie("y", "v");
  grains.Tie("x", "w");  // already so
  for (const char* name : {"v", "w", "x", "y"}) {
    EXPECT_EQ(grains.GrainOf(name), 30) << name;
  }
  grains.Tie("x", "x");
  EXPECT_EQ(grains.GrainOf("x"), 30);
  EXPECT_EQ(grains.GrainOf("z"), 1);
}

}  // namespace
}  // namespace mtf
