// SPDX-License-Identifier: Apache-2.0
//
// The errors and notices of a layout that does not suit a program.
#include <string>
#include <vector>

#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/gather.h"
#include "ops/gradients.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/variable.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Dimension kBatch{"batch", 8}, kHidden{"hidden", 16}, kOut{"out", 4},
    kVocab{"vocab", 6};

std::string ErrorOf(const Graph& graph, absl::string_view mesh,
                    absl::string_view layout, Tensor fetch) {
  const auto program = LowerText(graph, mesh, layout, {.fetches = {fetch}});
  return program.ok() ? "OK" : ErrorText(program.status());
}

std::string FirstLine(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

TEST(LayoutErrors, TwoDimensionsOfAnOperationOnOneAxis) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch});
  const Tensor w = Input(graph, "w", kFloat32, {kHidden, kOut});
  const int line = __LINE__ + 1;
  const Tensor y = x * w;
  EXPECT_EQ(
      ErrorOf(graph, "data:2,model:4",
              "batch:model, hidden:data+model, out:data", y),
      absl::StrCat(
          "INVALID_ARGUMENT dimensions \"hidden\" and \"out\" of one "
          "operation are both sharded over mesh axis \"data\" (w, "
          "layout_errors_test.cc:",
          line - 2,
          ")\n"
          "  shape    [hidden=16, out=4]\n"
          "  rule     hidden:data+model   (--layout, rule 2 of 3, "
          "characters 14-30)\n"
          "  rule     out:data   (--layout, rule 3 of 3, characters "
          "33-40)\n"
          "  mesh     data:2,model:4\n"
          "  help     drop one of the two rules, give one of the dimensions "
          "another axis, or Rename() \"hidden\" or "
          "\"out\" before this operation, to a name with other rules"));
  EXPECT_EQ(
      ErrorOf(graph, "data:2,model:4", "batch:model, hidden:data+model", y),
      absl::StrCat(
          "INVALID_ARGUMENT dimensions \"batch\" and \"hidden\" of "
          "one operation are both sharded over mesh axis \"model\" (mul, "
          "layout_errors_test.cc:",
          line,
          ")\n"
          "  shape    [batch=8, hidden=16, out=4]\n"
          "  rule     batch:model   (--layout, rule 1 of 2, "
          "characters 1-11)\n"
          "  rule     hidden:data+model   (--layout, rule 2 of 2, "
          "characters 14-30)\n"
          "  mesh     data:2,model:4\n"
          "  help     drop one of the two rules, give one of the dimensions "
          "another axis, or Rename() \"batch\" or \"hidden\" before this "
          "operation, to a name with other rules"));
}

TEST(LayoutErrors, AnAxisThatIsFreeIsNamed) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kOut});
  EXPECT_THAT(ErrorOf(graph, "data:2,model:4,one:1", "batch:data, out:data", x),
              ::testing::HasSubstr("another axis (free here: \"model\"), or "
                                   "Rename() \"batch\" or \"out\""));
}

// The layouts of the operands and of the result are each legal, but their union
// is not: the sums would be wrong.
TEST(LayoutErrors, DimensionsOfBothOperandsOnOneAxis) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kHidden});
  const Tensor w = Input(graph, "w", kFloat32, {kHidden, kOut});
  const int line = __LINE__ + 1;
  const Tensor y = Einsum({x, w}, {kBatch});
  EXPECT_EQ(ErrorOf(graph, "model:4", "batch:model, out:model", y),
            absl::StrCat(
                "INVALID_ARGUMENT dimensions \"batch\" and \"out\" of one "
                "operation are both sharded over mesh axis \"model\" (einsum, "
                "layout_errors_test.cc:",
                line,
                ")\n"
                "  shape    [batch=8, hidden=16]\n"
                "  shape    [hidden=16, out=4]\n"
                "  rule     batch:model   (--layout, rule 1 of 2, characters "
                "1-11)\n"
                "  rule     out:model   (--layout, rule 2 of 2, characters "
                "14-22)\n"
                "  mesh     model:4\n"
                "  help     drop one of the two rules, give one of the "
                "dimensions another axis, or Rename() \"batch\" or \"out\" "
                "before this operation, to a name with other rules"));
}

TEST(LayoutErrors, EveryOperationChecksItsUnion) {
  struct Case {
    const char* name;
    Tensor (*make)(Graph& graph);
  };
  const Case kCases[] = {
      {"gather",
       [](Graph& graph) {
         return Gather(Input(graph, "t", kFloat32, {{"vocab", 4}, kHidden}),
                       Input(graph, "i", kInt32, {kBatch}), "vocab");
       }},
      {"scatter_add",
       [](Graph& graph) {
         return ScatterAdd(Input(graph, "u", kFloat32, {kBatch, kHidden}),
                           Input(graph, "i", kInt32, {kBatch}), "vocab",
                           {{"vocab", 4}, kHidden});
       }},
      {"broadcast",
       [](Graph& graph) {
         return Broadcast(Input(graph, "u", kFloat32, {kBatch}),
                          {kBatch, kHidden});
       }},
      {"three operands",
       [](Graph& graph) {
         return Einsum({Input(graph, "u", kFloat32, {kBatch}),
                        Input(graph, "v", kFloat32, {kHidden, kOut}),
                        Input(graph, "w", kFloat32, {kOut})},
                       {});
       }},
      {"input",
       [](Graph& graph) {
         return Input(graph, "u", kFloat32, {kBatch, kHidden});
       }},
      {"constant",
       [](Graph& graph) {
         return Ones(graph, kFloat32, {kBatch, kHidden});
       }},
      {"renamed",
       [](Graph& graph) {
         return Relu(Rename(Input(graph, "u", kFloat32, {kBatch, {"h2", 16}}),
                            "h2", "hidden"));
       }},
      {"split and merged",
       [](Graph& graph) {
         const Tensor u = Input(graph, "u", kFloat32, {{"both", 128}});
         return MergeDimensions(SplitDimension(u, "both", {kBatch, kHidden}),
                                {"batch", "hidden"}, "m");
       }},
      {"joined",
       [](Graph& graph) {
         const Tensor u = Input(graph, "u", kFloat32, {kBatch, {"h2", 16}});
         return Concat({Rename(u, "h2", "hidden"), Rename(u, "h2", "hidden")},
                       "batch") +
                1.0;
       }},
  };
  for (const Case& c : kCases) {
    Graph graph;
    const Tensor y = c.make(graph);
    ASSERT_OK(graph.status()) << c.name;
    EXPECT_THAT(
        FirstLine(ErrorOf(graph, "model:4", "batch:model, hidden:model", y)),
        AllOf(StartsWith("INVALID_ARGUMENT dimensions \""),
              HasSubstr("\"batch\""), HasSubstr("\"hidden\""),
              HasSubstr(" of one operation are both sharded over mesh axis "
                        "\"model\" ("),
              HasSubstr("layout_errors_test.cc:")))
        << c.name;
  }
}

TEST(LayoutErrors, SumOverAShardedDimensionIsLegal) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kHidden});
  const Tensor w = Input(graph, "w", kFloat32, {kHidden, kOut});
  const Tensor y = Einsum({x, w}, {kBatch, kOut});
  // Each operand has one sharded dimension that the other lacks or shards
  // alike.
  EXPECT_EQ(ErrorOf(graph, "data:2,model:4", "batch:data, hidden:model", y),
            "OK");
  // An axis of size 1 shards nothing, so no two dimensions conflict.
  EXPECT_EQ(ErrorOf(graph, "model:1", "batch:model, hidden:model", y), "OK");
}

TEST(LayoutErrors, TheFirstLineIsTheSameOnEveryMesh) {
  Graph graph;
  const Transformer model = BuildTransformer(graph);
  const std::string layout = "batch:data, heads:data";
  const std::string error =
      FirstLine(ErrorOf(graph, "data:2", layout, model.loss));
  EXPECT_THAT(error,
              StartsWith("INVALID_ARGUMENT dimensions \"batch\" and "
                         "\"heads\" of one operation are both sharded over "
                         "mesh axis \"data\" "
                         "(layer_0/attention/query/einsum, "
                         "small_transformer.h:"));
  for (const char* mesh :
       {"data:3", "data:4096", "data:2,model:2", "model:2,data:2,z:5"}) {
    EXPECT_EQ(FirstLine(ErrorOf(graph, mesh, layout, model.loss)), error)
        << mesh;
  }
}

// The error of a graph is reported before its layout is read.
TEST(LayoutErrors, AWrongProgramIsTheSameErrorUnderEveryLayout) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, {"hidden", 17}});
  const Tensor w = Input(graph, "w", kFloat32, {kHidden, kOut});
  const int line = __LINE__ + 1;
  const Tensor y = Einsum({x, w}, {kBatch, kOut});
  const std::string error = ErrorOf(graph, "data:2", "", y);
  EXPECT_EQ(FirstLine(error),
            absl::StrCat("INVALID_ARGUMENT dimension \"hidden\" is 17 in \"x\" "
                         "but 16 in \"w\" (einsum, layout_errors_test.cc:",
                         line, ")"));
  for (const char* layout :
       {"batch:data", "hidden:data", "batch:data, hidden:data", "typo:typo"}) {
    EXPECT_EQ(ErrorOf(graph, "data:2", layout, y), error) << layout;
  }
}

TEST(LayoutErrors, TwoDimensionsOfOneSectionOnOneAxis) {
  Graph graph;
  const int line = __LINE__ + 1;
  const Tensor w =
      Variable(graph, "w", Zeros(graph, kFloat32, {kHidden, kOut}));
  const Tensor y = ReduceSum(w, {});
  EXPECT_EQ(
      FirstLine(
          ErrorOf(graph, "data:2", "[parameters], hidden:data, out:data", y)),
      absl::StrCat("INVALID_ARGUMENT dimensions \"hidden\" and \"out\" of one "
                   "operation are both sharded over mesh axis \"data\" (w, "
                   "layout_errors_test.cc:",
                   line + 1, ")"));
  // Two sections may use the same axis.
  EXPECT_EQ(ErrorOf(graph, "data:2",
                    "[parameters], hidden:data, [optimizer], out:data", y),
            "OK");
}

absl::StatusOr<LayoutBinding> Bind(const Graph& graph, absl::string_view mesh,
                                   absl::string_view layout,
                                   bool strict = false) {
  return BindLayout(graph, *Mesh::Parse(mesh),
                    *LayoutRules::Parse(layout, "--layout"), strict);
}

TEST(LayoutErrors, RulesWithoutEffectAreReportedAndHarmless) {
  Graph graph;
  const Transformer model = BuildTransformer(graph);
  const auto binding = Bind(graph, "data:2",
                            "batch:data, heads:model, experts:data, "
                            "d_ff:data+model, vocab:pod+model");
  ASSERT_OK(binding);
  EXPECT_THAT(
      binding->rules.notices(),
      ElementsAre(
          "rule \"heads:model\" (--layout, rule 2 of 5, characters 13-23) has "
          "no effect: mesh \"data:2\" has no axis \"model\"",
          "rule \"experts:data\" (--layout, rule 3 of 5, characters 26-37) "
          "has no effect: no tensor has a dimension \"experts\"",
          "axis \"model\" of rule \"d_ff:data+model\" (--layout, rule 4 of 5, "
          "characters 40-54) has no effect: mesh \"data:2\" lacks it",
          "rule \"vocab:pod+model\" (--layout, rule 5 of 5, characters 57-71) "
          "has no effect: mesh \"data:2\" has no axis \"pod\", \"model\""));
  // One rule set serves many meshes, so rules that apply have their effect.
  EXPECT_THAT(Lower(graph, *binding, {.fetches = {model.loss}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"batch\" and \"d_ff\" of one operation")));
}

TEST(LayoutErrors, RulesForVariablesThatNoVariableHasAreReported) {
  Graph graph;
  BuildTransformer(graph);
  const auto binding =
      Bind(graph, "data:2", "d_ff:data, [parameters] batch:data d_ff:data",
           /*strict=*/false);
  ASSERT_OK(binding);
  EXPECT_THAT(
      binding->rules.notices(),
      ElementsAre("rule \"batch:data\" (--layout, rule 2 of 3, characters "
                  "25-34) has no effect: no variable has a dimension "
                  "\"batch\", and [parameters] has the rules of variables"));
}

TEST(LayoutErrors, StrictLayoutsRejectRulesWithoutEffect) {
  Graph graph;
  BuildTransformer(graph);
  EXPECT_THAT(
      Bind(graph, "data:2", "batch:data, heads:model", /*strict=*/true),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "rule \"heads:model\" (--layout, rule 2 of 2, characters "
               "13-23) has no effect: mesh \"data:2\" has no axis \"model\"\n"
               "  mesh     \"data:2\"\n"
               "  help     remove the rule, or allow rules without effect by "
               "leaving out --strict_layout"));
  EXPECT_OK(Bind(graph, "data:2", "batch:data", /*strict=*/true));
}

TEST(LayoutErrors, MisspeltNamesAreErrorsWithASuggestion) {
  Graph graph;
  BuildTransformer(graph);
  EXPECT_THAT(Bind(graph, "data:2,model:2", "batch:data, d_fff:model"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "no tensor has a dimension \"d_fff\"; did you mean "
                       "\"d_ff\"?\n"
                       "  rule     \"d_fff:model\" in [default], --layout, "
                       "rule 2 of 2, characters 13-23\n"
                       "  mesh     \"data:2,model:2\"\n"
                       "  help     write \"d_ff\", or remove the rule if "
                       "another name is meant"));
  EXPECT_THAT(Bind(graph, "data:2,model:2", "batch:data, d_ff:modle"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("mesh \"data:2,model:2\" has no axis "
                                  "\"modle\"; did you mean \"model\"?\n")));
}

TEST(LayoutErrors, TargetsOfAnotherGraphAreErrors) {
  Graph graph, other;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch});
  const Tensor foreign = Input(other, "x", kFloat32, {kBatch});
  const std::vector<std::pair<Targets, std::string>> cases = {
      {{.fetches = {x, Tensor()}}, "fetch 1 is an empty Tensor\n  help     "},
      {{.fetches = {foreign}}, "fetch 0, \"x\", belongs to another graph"},
      {{.fetches = {x}, .updates = {x, foreign}},
       "update 1, \"x\", belongs to another graph"}};
  for (const auto& [targets, words] : cases) {
    EXPECT_THAT(
        LowerText(graph, "data:2", "batch:data", targets),
        StatusIs(absl::StatusCode::kInvalidArgument, StartsWith(words)));
  }
}

}  // namespace
}  // namespace mtf::testing
