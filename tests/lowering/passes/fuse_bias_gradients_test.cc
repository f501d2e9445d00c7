// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/fuse_bias_gradients.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/print_program.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "tests/lowering/gpu_fusion.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf {
namespace {

using ::mtf::testing::LowerText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Dimension kBatch{"batch", 6}, kLength{"length", 4}, kIn{"in", 8},
    kOut{"out", 16}, kHeads{"heads", 2}, kSize{"d_kv", 8}, kExperts{"e", 3};

std::string Name(const Program& program, int instruction) {
  return program.values[program.instructions[instruction].results[0]].name;
}

// "reduce_sum by einsum_1" for each group.
std::vector<std::string> Found(absl::StatusOr<Program> program) {
  std::vector<std::string> texts;
  EXPECT_OK(program);
  if (!program.ok()) return texts;
  program->buffers = {};  // planned for single instructions
  EXPECT_OK(RunPass("fuse_bias_gradients", *program, testing::GpuFusion()));
  for (const FusedGroup& group : program->groups) {
    const bool sum_first =
        program->instructions[group.members[0]].opcode == Opcode::kReduce;
    texts.push_back(
        absl::StrCat(Name(*program, group.members[sum_first ? 0 : 1]), " by ",
                     Name(*program, group.members[sum_first ? 1 : 0])));
  }
  return texts;
}

// The gradients of a dense layer.
struct Layer {
  Shape x{kBatch, kLength, kIn}, dy{kBatch, kLength, kOut}, w{kIn, kOut},
      dw{kIn, kOut};
  DType dtype = kFloat32, product = kFloat32;
  std::function<Tensor(Tensor dy)> sum = [](Tensor dy) {
    return ReduceSum(dy, {kOut});
  };
};

// The sum, the product with the weight and the gradient of the weight,
// "einsum_1", in this order.
absl::StatusOr<Program> Lowered(const Layer& layer, const char* mesh = "",
                                const char* layout = "") {
  Graph graph;
  const Tensor x = Input(graph, "x", layer.dtype, layer.x);
  const Tensor w = Input(graph, "w", layer.dtype, layer.w);
  const Tensor dy = Input(graph, "dy", layer.dtype, layer.dy);
  const Tensor sum = layer.sum(dy);
  const Tensor dx = Einsum({dy, w}, layer.x);
  const Tensor dw = Einsum({x, dy}, layer.dw, {.dtype = layer.product});
  return LowerText(graph, mesh, layout, {.fetches = {sum, dx, dw}});
}

TEST(BiasGradients, JoinTheGradientOfTheWeight) {
  const auto program = Lowered({});
  EXPECT_THAT(Found(program), ElementsAre("reduce_sum by einsum_1"));
}

TEST(BiasGradients, OfBiasesWithSeveralDimensions) {
  EXPECT_THAT(Found(Lowered({.dy = {kBatch, kLength, kHeads, kSize},
                             .w = {kIn, kHeads, kSize},
                             .dw = {kIn, kHeads, kSize},
                             .sum =
                                 [](Tensor dy) {
                                   return ReduceSum(dy, {kHeads, kSize});
                                 }})),
              SizeIs(1));
}

TEST(BiasGradients, OfRowsIfTheWeightIsTransposed) {
  EXPECT_THAT(Found(Lowered({.dw = {kOut, kIn}})), SizeIs(1));
}

// Libraries write it in the dtype of the product.
TEST(BiasGradients, HaveTheDTypeOfTheProduct) {
  const auto found = [](DType product, DType sum) {
    return Found(Lowered(
        {.dtype = kBFloat16, .product = product, .sum = [sum](Tensor dy) {
           return ReduceSum(Cast(dy, sum), {kOut});
         }}));
  };
  EXPECT_THAT(found(kFloat32, kFloat32), SizeIs(1));
  EXPECT_THAT(found(kBFloat16, kBFloat16), SizeIs(1));
  EXPECT_THAT(found(kBFloat16, kFloat32), IsEmpty());
  EXPECT_THAT(found(kFloat32, kBFloat16), IsEmpty());
}

TEST(BiasGradients, SumOverTheDimensionsThatTheProductSumsOver) {
  const auto found = [](std::function<Tensor(Tensor)> sum) {
    return Found(Lowered({.sum = std::move(sum)}));
  };
  EXPECT_THAT(found([](Tensor dy) {
                return ReduceSum(dy, {kLength, kOut});
              }),
              IsEmpty());
  EXPECT_THAT(found([](Tensor dy) { return ReduceSum(dy, {kLength}); }),
              IsEmpty());
  EXPECT_THAT(found([](Tensor dy) { return ReduceSum(Square(dy), {kOut}); }),
              IsEmpty());
  EXPECT_THAT(found([](Tensor dy) { return ReduceMax(dy, {kOut}); }),
              IsEmpty());
}

// For batched matmuls the libraries do not specify the sum.
TEST(BiasGradients, NeedASingleMatmul) {
  EXPECT_THAT(Found(Lowered({.x = {kBatch, kLength, kExperts, kIn},
                             .dy = {kBatch, kLength, kExperts, kOut},
                             .w = {kExperts, kIn, kOut},
                             .dw = {kExperts, kIn, kOut},
                             .sum =
                                 [](Tensor dy) {
                                   return ReduceSum(dy, {kExperts, kOut});
                                 }})),
              IsEmpty());
}

// The product would run at the sum.
TEST(BiasGradients, NeedOperandsComputedBeforeBoth) {
  Graph graph;
  const Tensor w = Input(graph, "w", kFloat32, {kIn, kOut});
  const Tensor dy = Input(graph, "dy", kFloat32, {kBatch, kOut});
  const Tensor sum = ReduceSum(dy, {kOut});
  const Tensor dx = Einsum({dy, w}, {kBatch, kIn});
  const Tensor dw = Einsum({dx, dy}, {kIn, kOut});
  EXPECT_THAT(Found(LowerText(graph, "", "", {.fetches = {sum, dw}})),
              IsEmpty());
}

// The compute that an asynchronous collective overlaps with is not moved.
TEST(BiasGradients, DoNotCrossACollective) {
  EXPECT_THAT(Found(Lowered({}, "data:2", "batch:data")), SizeIs(1));
  const auto program = Lowered({}, "model:2", "out:model");
  ASSERT_OK(program);
  EXPECT_TRUE(absl::StrContains(PrintProgram(*program), "all_reduce"));
  EXPECT_THAT(Found(program), IsEmpty());
}

// A sum over the gradient of a layer norm belongs to the kernel of the norm;
// the biases without a norm after them remain.
TEST(BiasGradients, OfATransformerAllJoin) {
  for (DType dtype : {kFloat32, kBFloat16}) {
    for (const char* mesh : {"", "data:2"}) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " ", mesh));
      Graph graph;
      const testing::Transformer model =
          testing::BuildTransformer(graph, {.layers = 1,
                                            .d_model = 64,
                                            .d_kv = 16,
                                            .dtype = dtype,
                                            .biases = true});
      const auto program =
          LowerText(graph, mesh, std::string(mesh).empty() ? "" : "batch:data",
                    {.fetches = {model.loss}, .updates = {model.step}},
                    {.fusion = testing::GpuFusion()});
      ASSERT_OK(program);
      std::vector<std::string> pairs;
      for (const FusedGroup& group : program->groups) {
        if (group.Find<BiasGradientGroup>() != nullptr) {
          pairs.push_back(Name(*program, group.members.front()));
        }
      }
      // No norm follows the last block.
      EXPECT_THAT(pairs, ElementsAre(HasSubstr("feed_forward/out/add_grad"),
                                     HasSubstr("feed_forward/in/add_grad"),
                                     HasSubstr("value/add_grad"),
                                     HasSubstr("key/add_grad"),
                                     HasSubstr("query/add_grad")))
          << PrintProgram(*program);
    }
  }
}

TEST(BiasGradients, HaveMemoryFromTheFirstMemberOn) {
  auto program = Lowered({});
  ASSERT_OK(program);
  ASSERT_OK(FuseFor(testing::GpuFusion(), *program));
  const std::vector<FusedGroup>& groups = program->groups;
  ASSERT_THAT(groups, SizeIs(1));
  ASSERT_THAT(groups[0].members, SizeIs(2));
  // The values read, written and produced in between.
  const BufferPlan& plan = program->buffers;
  std::vector<int> values;
  for (int member :
       {groups[0].members[0], groups[0].members[0] + 1, groups[0].members[1]}) {
    const Instruction& instruction = program->instructions[member];
    values.push_back(instruction.results[0]);
  }
  for (int operand : program->instructions[groups[0].members[1]].operands) {
    values.push_back(operand);
  }
  for (int a : values) {
    for (int b : values) {
      const auto &x = plan.buffers[a], &y = plan.buffers[b];
      const bool apart =
          x.offset + program->values[a].local_bytes() <= y.offset ||
          y.offset + program->values[b].local_bytes() <= x.offset;
      EXPECT_EQ(apart, a != b) << a << " " << b;
    }
  }
}

}  // namespace
}  // namespace mtf
