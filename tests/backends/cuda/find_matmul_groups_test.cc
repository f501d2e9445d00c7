// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
//
// The groups of a matmul and its epilogue.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/print_program.h"
#include "nn/layers/dense.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "tests/backends/cuda/matmul_group_text.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"
#include "tests/program_text.h"

namespace mtf::cuda {
namespace {

using ::mtf::testing::LowerPreset;
using ::mtf::testing::LowerText;

TEST(FuseEpilogues, InATransformerUnlessAReductionIntervenes) {
  const auto text = [](const std::string& preset, int64_t ranks) {
    Graph graph;
    const mtf::testing::Transformer model =
        mtf::testing::BuildTransformer(graph, {.layers = 1,
                                               .length = 64,
                                               .d_model = 64,
                                               .heads = 4,
                                               .d_kv = 16,
                                               .d_ff = 256,
                                               .vocab = 128,
                                               .dtype = kBFloat16});
    const auto program =
        LowerPreset(graph, preset, ranks, {.fetches = {model.loss}});
    EXPECT_OK(program);
    return program.ok() ? MatmulGroupTexts(*program) : "";
  };
  // Residuals follow the outputs of attention and of feed-forward layers; the
  // gelu follows the first product of a feed-forward layer.
  EXPECT_EQ(text("single", 1),
            "2 members adds; 2 members gelu; 2 members adds");
  // The sum over ranks precedes the residual.
  EXPECT_EQ(text("megatron", 4), "2 members gelu");
}

// A bias that is cast at its use is available before the product.
TEST(FuseEpilogues, InLayersOfEveryPrecision) {
  for (const Precision& precision :
       {Precision(),
        Precision{.parameters = kBFloat16, .activations = kBFloat16},
        Precision{.activations = kBFloat16}}) {
    Graph graph;
    const PrecisionScope scope(graph, precision);
    const Dimension batch{"batch", 8}, in{"in", 16}, hidden{"hidden", 32},
        out{"out", 24};
    const Tensor x = Input(graph, "x", kFloat32, {batch, in});
    const Tensor y = nn::Dense(nn::Dense(x, {in}, {hidden}), {hidden}, {out});
    const auto program = LowerText(graph, "", "", {.fetches = {y}});
    ASSERT_OK(program);
    EXPECT_EQ(MatmulGroupTexts(*program), "2 members bias; 2 members bias")
        << PrintProgram(*program);
  }
}

// The gradient of the second weight is between the gradient of the hidden layer
// and that of its gelu.
TEST(FuseEpilogues, IncludeGeluGradientsInATrainingStep) {
  for (const auto& [preset, ranks] :
       std::vector<std::pair<std::string, int64_t>>{
           {"single", 1}, {"data", 2}, {"megatron", 4}, {"data_model", 4}}) {
    SCOPED_TRACE(preset);
    Graph graph;
    const mtf::testing::Transformer model = mtf::testing::BuildTransformer(
        graph, {.layers = 2, .dtype = kBFloat16, .biases = true});
    const auto program =
        LowerPreset(graph, preset, ranks,
                    {.fetches = {model.loss}, .updates = {model.step}});
    ASSERT_OK(program);
    int gradients = 0;
    for (const FusedGroup& group : MatmulGroupsOf(*program)) {
      if (group.Find<EpilogueGroup>()->gelu_gradient < 0) continue;
      ++gradients;
      EXPECT_GT(group.members[1], group.members[0] + 1);
    }
    EXPECT_EQ(gradients, 2) << PrintProgram(*program);
  }
}

// Memory has gradients of two products. The second adds to the first, before
// the gradient of its weight, if no sum over ranks starts in between.
TEST(FuseEpilogues, IncludeSumsOfTwoGradientsInATrainingStep) {
  for (DType dtype : {kFloat32, kBFloat16}) {
    Graph graph;
    const mtf::testing::Transformer model =
        mtf::testing::BuildTransformer(graph, {.layers = 2, .dtype = dtype});
    const auto program = LowerPreset(
        graph, "single", 1, {.fetches = {model.loss}, .updates = {model.step}});
    ASSERT_OK(program);
    int sums = 0;
    for (const FusedGroup& group : MatmulGroupsOf(*program)) {
      sums += group.Find<EpilogueGroup>()->addend >= 0 &&
              group.members[1] > group.members[0] + 1;
    }
    EXPECT_EQ(sums, 2) << PrintProgram(*program);
  }
}

// A map after its product joins it if that delays nothing and if it is the only
// reader of the product.
TEST(FuseEpilogues, IncludeMapsThatCanMoveToTheProduct) {
  const auto found = [](absl::string_view between, absl::string_view map,
                        absl::string_view last = "output(%z) z") {
    auto program = mtf::testing::ParseText(absl::StrCat(R"(
mesh{data:2}
%x : bf16[b:8/data=4, i:8] = input x
%w : bf16[i:8, o:8] = input w
%r : bf16[b:8/data=4, o:8] = input r
%b : bf16[o:8] = input b
%v : bf16[b:8/data=4, o:8] = read_variable v
%p : bf16[o:8] unreduced{data} = reduce(%r) sum
%y : bf16[b:8/data=4, o:8] = einsum(%x, %w) sum{i}
)",
                                                        between, "\n%z : ",
                                                        "bf16[b:8/data=4, o:8] "
                                                        "= map(",
                                                        map, "\n", last, "\n"));
    EXPECT_OK(program);
    if (!program.ok()) return std::string("no program");
    EXPECT_OK(RunPass("plan_einsums", *program));
    return MatmulGroupTexts(*program);
  };
  const std::string sum = "%s : bf16[b:8/data=4] = reduce(%r) sum";
  const std::string product =
      "%q : bf16[b:8/data=4, o:8] = einsum(%x, %w) sum{i}";
  EXPECT_EQ(found("", "%y, %r) add"), "2 members adds");
  EXPECT_EQ(found(sum, "%y, %r) add"), "2 members adds");
  EXPECT_EQ(found(sum, "%y, %b) add"), "2 members bias");
  EXPECT_EQ(found(sum, "%y) gelu"), "2 members gelu");
  EXPECT_EQ(found(product, "%y, %r) add"), "2 members adds");
  // The later of two products adds to the earlier one.
  EXPECT_EQ(found(product, "%y, %q) add"), "2 members adds");
  EXPECT_EQ(found(sum, "%y) gelu", "output(%z) z\noutput(%y) y"), "");
  // The product times the derivative of GELU, in any order.
  for (const char* map :
       {"%y, %r) [gelu_derivative($1); mul($0, $2)]",
        "%y, %r) [gelu_derivative($1); mul($2, $0)]",
        "%r, %y) [gelu_derivative($0); mul($1, $2)]",
        "%y, %r) [literal.bf16(1); mul($2, $0); gelu_derivative($1); "
        "mul($3, $4)]",
        "%y, %r) [gelu_derivative($1); literal.bf16(1); mul($2, $3); "
        "mul($4, $0)]"}) {
    EXPECT_EQ(found(sum, map), "2 members gelu gradient") << map;
    EXPECT_EQ(found(product, map), "2 members gelu gradient") << map;
  }
  for (const char* map :
       {"%y, %r) [gelu_derivative($0); mul($1, $2)]",
        "%y, %r) [gelu_derivative($1); mul($0, $2); mul($3, $0)]",
        "%y, %r) [gelu_derivative($1); mul($0, $2); mul($3, $2)]",
        "%y, %r) [gelu_derivative($1); gelu_derivative($2); mul($0, $3)]",
        "%y, %r) [gelu_derivative($1); literal.bf16(2); mul($2, $3); "
        "mul($4, $0)]",
        "%y, %r) [gelu_derivative($1); add($0, $2)]", "%y, %r) mul",
        "%y, %r) [cast.f32($1); gelu_derivative($2); cast.bf16($3); "
        "mul($0, $4)]"}) {
    EXPECT_EQ(found(sum, map), "") << map;
  }
  EXPECT_EQ(found(sum, "%y, %r) add", "output(%z) z\noutput(%y) y"), "");
  EXPECT_EQ(
      found("%s : bf16[o:8] = all_reduce(%p) sum over{data}", "%y, %r) add"),
      "");
  EXPECT_EQ(found("%s : bf16[b:8/data=4, o:8] = map(%r) exp", "%y, %s) add"),
            "");
  std::string far;
  for (int i = 0; i < 12; ++i) {
    absl::StrAppend(&far, "%s", i, " : bf16[b:8/data=4] = reduce(%r) sum\n");
  }
  EXPECT_EQ(found(far, "%y, %r) add"), "");
  // A variable may be updated in place.
  EXPECT_EQ(found(sum, "%y, %v) add",
                  "%v.2 : bf16[b:8/data=4, o:8] = write_variable(%z) v"),
            "");
}

}  // namespace
}  // namespace mtf::cuda
