// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/fuse_convolutions.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/parse_program.h"
#include "lowering/program/convolution_spec.h"
#include "lowering/program/print_program.h"
#include "lowering/verify/verify_program.h"
#include "ops/convolution.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/windows.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf {
namespace {

using ::mtf::testing::LowerText;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Dimension kBatch{"batch", 4}, kHeight{"height", 8}, kWidth{"width", 6},
    kIn{"in", 3}, kOut{"out", 5};
const std::vector<SpatialDimension> kImage = {{"height", "kh"},
                                              {"width", "kw"}};

struct Step {
  Graph graph;
  Tensor x, w, y, dx, dw;

  explicit Step(const std::vector<SpatialDimension>& spatial = kImage,
                DType dtype = kFloat32) {
    x = Input(graph, "x", dtype, {kBatch, kHeight, kWidth, kIn});
    w = Input(graph, "w", dtype, {{"kh", 3}, {"kw", 2}, kIn, kOut});
    y = Convolution(x, w, spatial, {kIn});
    const Tensor dy = Input(graph, "dy", dtype, y.shape());
    const std::vector<Tensor> gradients = Gradients(y, {x, w}, dy);
    dx = gradients[0];
    dw = gradients[1];
  }
  Program Lowered(const std::vector<Tensor>& fetches, const char* mesh = "",
                  const char* layout = "", bool fuses = true) {
    auto program = LowerText(graph, mesh, layout,
                             {.fetches = fetches, .fetch_shards = true},
                             {.fusion = {.convolutions = fuses}});
    EXPECT_OK(program);
    return program.ok() ? *std::move(program) : Program();
  }
};

// The opcodes of the members of each group.
std::vector<std::string> Groups(const Program& program) {
  std::vector<std::string> texts;
  for (const FusedGroup& group : program.groups) {
    EXPECT_TRUE(group.Find<ConvolutionGroup>() != nullptr);
    std::string text;
    for (int member : group.members) {
      absl::StrAppend(&text, text.empty() ? "" : " ",
                      OpcodeName(program.instructions[member].opcode));
    }
    texts.push_back(text);
  }
  return texts;
}

constexpr char kForward[] = "place_rows place_rows windows windows einsum";
constexpr char kFilter[] = "place_rows place_rows windows windows einsum";
constexpr char kInput[] =
    "einsum fold_windows fold_windows place_rows place_rows";

TEST(FuseConvolutions, AStepIsThree) {
  Step step;
  const Program program = step.Lowered({step.y, step.dx, step.dw});
  EXPECT_THAT(Groups(program),
              ::testing::UnorderedElementsAre(kForward, kFilter, kInput));
  for (const FusedGroup& group : program.groups) {
    const auto spec = FindConvolution(program, group.members);
    ASSERT_TRUE(spec.has_value());
    EXPECT_EQ(spec->batch, 4);
    EXPECT_EQ(spec->groups, 1);
    EXPECT_EQ(spec->inputs, 3);
    EXPECT_EQ(spec->outputs, 5);
    ASSERT_EQ(spec->spatial.size(), 2);
    EXPECT_EQ(spec->spatial[0].before, 1);
    EXPECT_EQ(spec->spatial[0].after, 1);
    EXPECT_EQ(spec->spatial[1].before, 0);
    EXPECT_EQ(spec->spatial[1].after, 1);
    EXPECT_EQ(spec->spatial[1].output, 6);
    // [kh, kw, in, out]
    EXPECT_THAT(spec->filter_strides, ElementsAre(0, 1, 5, 30, 15));
    EXPECT_EQ(spec->flops(), 2 * 4 * 8 * 6 * 3 * 5 * 3 * 2);
  }
}

TEST(FuseConvolutions, NoWindowsAreInMemory) {
  Step step;
  const Program program = step.Lowered({step.y, step.dx, step.dw});
  const int64_t image = 4 * kBatch.size * kHeight.size * kWidth.size;
  // Inputs and results, each padded to 64 bytes, and nothing else.
  EXPECT_LE(program.buffers.arena_bytes,
            image * (2 * kIn.size + 2 * kOut.size) + 2 * 4 * 90 + 6 * 64);
  const Program unfused =
      step.Lowered({step.y, step.dx, step.dw}, "", "", false);
  EXPECT_THAT(Groups(unfused), IsEmpty());
  EXPECT_GT(unfused.buffers.arena_bytes, 2 * program.buffers.arena_bytes);
}

// The CPU has convolutions of f32 only; of 16-bit floats, it runs windows.
TEST(FuseConvolutions, OnlyOfTheTypesOfTheDevice) {
  for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    Step step(kImage, dtype);
    Program program = step.Lowered({step.y, step.dx, step.dw}, "", "", false);
    ASSERT_OK(FuseFor({.convolutions = true}, program));
    EXPECT_EQ(Groups(program).size(), dtype == kFloat32 ? 3 : 0);
    ASSERT_OK(FuseFor({.convolutions_of_16_bits = true}, program));
    EXPECT_EQ(Groups(program).size(), dtype == kFloat32 ? 0 : 3);
    for (const FusedGroup& group : program.groups) {
      const auto spec = FindConvolution(program, group.members);
      ASSERT_TRUE(spec.has_value());
      EXPECT_EQ(spec->dtype, dtype);
    }
    EXPECT_OK(VerifyProgram(program));
  }
}

TEST(FuseConvolutions, AgainChangesNothing) {
  Step step;
  Program program = step.Lowered({step.y, step.dx, step.dw});
  const std::string text = PrintProgram(program);
  ASSERT_OK(FuseFor({.convolutions = true}, program));
  EXPECT_EQ(PrintProgram(program), text);
  const auto parsed = ParseProgram(text);
  ASSERT_OK(parsed);
  EXPECT_EQ(PrintProgram(*parsed), text);
}

// A group that would leave values without their elements is an error.
TEST(FuseConvolutions, GroupsAreVerified) {
  Step step;
  Program program = step.Lowered({step.y, step.dx, step.dw});
  ASSERT_OK(VerifyProgram(program));
  Program read_outside = program;
  FusedGroup& group = read_outside.groups[0];
  const int windows =
      read_outside.instructions[group.members[group.members.size() - 2]]
          .results[0];
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
  EXPECT_THAT(
      VerifyProgram(half),
      testing::StatusIs(absl::StatusCode::kInternal,
                        ::testing::HasSubstr("are not one convolution")));
}

// Rows are exchanged before the windows, so those are still one convolution.
TEST(FuseConvolutions, ShardsAreConvolutionsOfRowsAndTheirHalos) {
  Step step;
  const Program program =
      step.Lowered({step.y, step.dx, step.dw}, "rows:2,columns:2",
                   "height:rows, width:columns");
  EXPECT_THAT(Groups(program),
              ::testing::UnorderedElementsAre(
                  "windows windows einsum", "windows windows einsum",
                  "einsum fold_windows fold_windows"));
  const Program uneven = step.Lowered({step.y}, "rows:3", "height:rows");
  EXPECT_THAT(Groups(uneven), IsEmpty());  // windows read zeros after a shard
}

// Each window is multiplied, and not summed.
TEST(FuseConvolutions, ProductsThatKeepWindowsRemain) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kHeight});
  const Tensor w = Input(graph, "w", kFloat32, {{"kh", 3}});
  const Tensor y = Windows(x, "height", {"kh", 3}) * w;
  const Tensor dx = Gradients(ReduceSum(y, {}), {x})[0];
  const auto program = LowerText(graph, "", "", {.fetches = {y, dx}},
                                 {.fusion = {.convolutions = true}});
  ASSERT_OK(program);
  EXPECT_THAT(Groups(*program), IsEmpty());
}

TEST(FuseConvolutions, OtherProductsOfWindowsRemain) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kHeight, kWidth, kIn});
  const Tensor windows = Windows(x, "height", {"kh", 3});
  // Windows that are a result.
  const Tensor w = Input(graph, "w", kFloat32, {{"kh", 3}, kIn, kOut});
  const Tensor y = Einsum({windows, w}, {kBatch, kHeight, kWidth, kOut});
  // Integers, and a sum over some windows only.
  const Tensor n = Input(graph, "n", kInt32, {kBatch, kHeight, kIn});
  const Tensor v = Input(graph, "v", kInt32, {{"kh", 3}, kIn, kOut});
  const Tensor z =
      Einsum({Windows(n, "height", {"kh", 3}), v}, {kBatch, kHeight, kOut});
  const auto program = LowerText(graph, "", "", {.fetches = {windows, y, z}},
                                 {.fusion = {.convolutions = true}});
  ASSERT_OK(program);
  EXPECT_THAT(Groups(*program), IsEmpty());
}

}  // namespace
}  // namespace mtf
