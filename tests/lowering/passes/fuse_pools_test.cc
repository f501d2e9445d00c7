// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/fuse_pools.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/parse_program.h"
#include "lowering/program/pool_spec.h"
#include "lowering/program/print_program.h"
#include "lowering/verify/verify_program.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/pool.h"
#include "ops/reduce.h"
#include "ops/windows.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf {
namespace {

using ::mtf::testing::LowerText;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const Shape kImage = {{"batch", 4}, {"height", 8}, {"width", 6}, {"in", 3}};
const Shape kThree = {{"height", 3}, {"width", 3}};
constexpr PoolOptions kPadded = {
    .stride = 2, .padding = WindowPadding::kExplicit, .before = 1, .after = 1};

struct PoolStep {
  Graph graph;
  Tensor x, y, dx;

  explicit PoolStep(bool max = true, const Shape& windows = kThree,
                    DType dtype = kFloat32) {
    x = Input(graph, "x", dtype, kImage);
    y = max ? MaxPool(x, windows, kPadded) : AveragePool(x, windows, kPadded);
    const Tensor dy = Input(graph, "dy", dtype, y.shape());
    dx = Gradients(y, {x}, dy)[0];
  }
  Program Lowered(const std::vector<Tensor>& fetches, const char* mesh = "",
                  const char* layout = "", bool fuses = true) {
    auto program = LowerText(graph, mesh, layout,
                             {.fetches = fetches, .fetch_shards = true},
                             {.fusion = {.pools = fuses}});
    EXPECT_OK(program);
    return program.ok() ? *std::move(program) : Program();
  }
};

// The opcodes of the members of each group.
std::vector<std::string> PoolGroups(const Program& program) {
  std::vector<std::string> texts;
  for (const FusedGroup& group : program.groups) {
    EXPECT_TRUE(group.Find<PoolGroup>() != nullptr);
    std::string text;
    for (int member : group.members) {
      absl::StrAppend(&text, text.empty() ? "" : " ",
                      OpcodeName(program.instructions[member].opcode));
    }
    texts.push_back(text);
  }
  return texts;
}

constexpr char kForward[] =
    "place_rows windows reduce place_rows windows reduce";
constexpr char kOfMaximum[] =
    "place_rows windows map reduce map map fold_windows place_rows";

TEST(FusePools, AStepIsTwo) {
  PoolStep step;
  const Program program = step.Lowered({step.y, step.dx});
  EXPECT_THAT(PoolGroups(program),
              UnorderedElementsAre(kForward,
                                   absl::StrCat(kOfMaximum, " ", kOfMaximum)));
  const auto pool = FindPool(program, program.groups[0].members);
  ASSERT_TRUE(pool.has_value());
  ASSERT_EQ(pool->stages.size(), 2);
  const PoolWindows& height = pool->stages[0].windows;
  EXPECT_EQ(height.outer, 4);
  EXPECT_EQ(height.line, 8);
  EXPECT_EQ(height.inner, 18);
  EXPECT_EQ(height.windows, 4);
  EXPECT_EQ(height.window, 3);
  EXPECT_EQ(height.stride, 2);
  EXPECT_EQ(height.before, 1);
  EXPECT_EQ(pool->stages[1].windows.outer, 16);
  const auto gradient = FindPoolGradient(program, program.groups[1].members);
  ASSERT_TRUE(gradient.has_value());
  ASSERT_EQ(gradient->stages.size(), 2);
  EXPECT_EQ(gradient->stages[0].windows.line, 6);
  EXPECT_EQ(gradient->stages[1].windows.line, 8);
}

TEST(FusePools, AnAverageIsDividedInItsGroup) {
  PoolStep step(/*max=*/false);
  EXPECT_THAT(
      PoolGroups(step.Lowered({step.y, step.dx})),
      UnorderedElementsAre(absl::StrCat(kForward, " map"),
                           "map map fold_windows place_rows map fold_windows "
                           "place_rows"));
}

TEST(FusePools, NoWindowsAreInMemory) {
  PoolStep step;
  const Program program = step.Lowered({step.y, step.dx});
  const int64_t image = 4 * kImage.num_elements();
  // The image and its gradient, the maxima of rows and of windows.
  EXPECT_LE(program.buffers.arena_bytes, 3 * image + 6 * 64);
  const Program unfused = step.Lowered({step.y, step.dx}, "", "", false);
  EXPECT_THAT(PoolGroups(unfused), IsEmpty());
  EXPECT_GT(unfused.buffers.arena_bytes, program.buffers.arena_bytes);
}

TEST(FusePools, AgainChangesNothing) {
  PoolStep step;
  Program program = step.Lowered({step.y, step.dx});
  const std::string text = PrintProgram(program);
  ASSERT_OK(FuseFor({.pools = true}, program));
  EXPECT_EQ(PrintProgram(program), text);
  const auto parsed = ParseProgram(text);
  ASSERT_OK(parsed);
  EXPECT_EQ(PrintProgram(*parsed), text);
}

// A group that would leave values without their elements is an error.
TEST(FusePools, GroupsAreVerified) {
  PoolStep step;
  const Program program = step.Lowered({step.y, step.dx});
  ASSERT_OK(VerifyProgram(program));
  Program read_outside = program;
  const int windows =
      read_outside.instructions[read_outside.groups[0].members[1]].results[0];
  for (Instruction& instruction : read_outside.instructions) {
    if (instruction.opcode != Opcode::kOutput) continue;
    instruction.operands = {windows};
    break;
  }
  EXPECT_THAT(VerifyProgram(read_outside),
              testing::StatusIs(absl::StatusCode::kInternal,
                                ::testing::HasSubstr("read outside")));
  Program half = program;
  half.groups[0].members.pop_back();
  EXPECT_THAT(VerifyProgram(half),
              testing::StatusIs(absl::StatusCode::kInternal,
                                ::testing::HasSubstr("are not one pooling")));
}

// Rows are exchanged before the windows, so those are still poolings.
TEST(FusePools, ShardsArePoolingsOfRowsAndTheirHalos) {
  PoolStep step;
  EXPECT_THAT(PoolGroups(step.Lowered({step.y}, "rows:2,columns:3",
                                      "height:rows, width:columns")),
              ElementsAre("windows reduce", "windows reduce"));
  // Windows read zeros after an uneven shard.
  EXPECT_THAT(PoolGroups(step.Lowered({step.y}, "rows:3", "height:rows")),
              ElementsAre("place_rows windows reduce"));
}

TEST(FusePools, DimensionsInAnotherOrderArePoolsOfTheirOwn) {
  PoolStep step(true, {{"width", 3}, {"height", 3}});
  EXPECT_THAT(PoolGroups(step.Lowered({step.y, step.dx})),
              UnorderedElementsAre("place_rows windows reduce",
                                   "place_rows windows reduce", kOfMaximum,
                                   kOfMaximum));
}

TEST(FusePools, OtherReductionsOfWindowsRemain) {
  PoolStep half(true, kThree, kBFloat16);
  EXPECT_THAT(PoolGroups(half.Lowered({half.y, half.dx})), IsEmpty());
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, kImage);
  // Windows that are a result, whose padding counts, and a sum over more than
  // the window.
  const Tensor windows = Windows(x, "height", {"kh", 3});
  const Tensor most = MaxOver(Windows(x, "width", {"kw", 3}), {{"kw", 3}});
  const Tensor all = ReduceSum(Windows(x, "height", {"kh", 3}), {{"in", 3}});
  const auto program =
      LowerText(graph, "", "", {.fetches = {windows, most, all}},
                {.fusion = {.pools = true}});
  ASSERT_OK(program);
  // The maximum reads rows with their padding.
  EXPECT_THAT(PoolGroups(*program), ElementsAre("windows reduce"));
}

}  // namespace
}  // namespace mtf
