// SPDX-License-Identifier: Apache-2.0
//
// Equal layers of a graph, and lowering a few of them.
#include "planning/cost/repeated_layers.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lowering/program/count_costs.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reshape.h"
#include "ops/variable.h"
#include "planning/cost/few_layers.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"
#include "tests/planning/explain/explain_test.h"

namespace mtf::testing {
namespace {

using internal::RepeatedLayers;

// `layers` of one shape; layer i computes what `kinds` says at i.
void BuildStack(Graph& graph, const std::string& kinds) {
  const Dimension batch{"batch", 8}, io{"io", 4}, other{"other", 4};
  Tensor x = Input(graph, "x", kFloat32, {batch, io});
  for (size_t i = 0; i < kinds.size(); ++i) {
    Scope scope(graph, absl::StrCat("layer_", i));
    const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {io, other}));
    const Tensor y = Rename(Einsum({x, w}, {batch, other}), "other", "io");
    x = kinds[i] == 't' ? Tanh(y) : Relu(y);
  }
}

TEST(RepeatedLayers, EqualLayersAreOneRun) {
  Graph graph;
  BuildStack(graph, "tttttttt");
  ASSERT_OK(graph.status());
  const RepeatedLayers layers(graph);
  ASSERT_EQ(layers.num_runs(), 1);
  EXPECT_GE(layers.repeats(0), 6);
}

TEST(RepeatedLayers, PeriodMayBeTwoLayers) {
  Graph graph;
  BuildStack(graph, "trtrtrtrtrtr");
  ASSERT_OK(graph.status());
  const RepeatedLayers layers(graph);
  ASSERT_EQ(layers.num_runs(), 1);
  EXPECT_GE(layers.repeats(0), 4);
  EXPECT_LE(layers.repeats(0), 6);
}

TEST(RepeatedLayers, LayersThatDoNotRepeatAreNoRun) {
  Graph graph;
  BuildStack(graph, "trrttrtrr");
  ASSERT_OK(graph.status());
  const RepeatedLayers layers(graph);
  EXPECT_EQ(layers.num_runs(), 0);
}

// A longer period that occurs only once does not hide the three equal layers.
TEST(RepeatedLayers, ThreeEqualLayersAreARun) {
  Graph graph;
  BuildStack(graph, "trrtttrtrr");
  ASSERT_OK(graph.status());
  const RepeatedLayers layers(graph);
  EXPECT_EQ(layers.num_runs(), 1);
}

TEST(RepeatedLayers, AGraphWithoutLayersHasNone) {
  Graph graph;
  Input(graph, "x", kFloat32, {{"batch", 8}});
  EXPECT_EQ(RepeatedLayers(graph).num_runs(), 0);
}

// The layers before and after a run may stand in for its own.
TEST(RepeatedLayers, StepWithLayersLeftOutIsThatOfASmallerModel) {
  Graph deep;
  const Transformer of_deep = BuildTransformer(deep, {.layers = 12});
  const RepeatedLayers layers(deep);
  ASSERT_EQ(layers.num_runs(), 1);
  EXPECT_EQ(layers.num_layers(), 12);
  EXPECT_EQ(layers.repeats(0) - layers.least_kept(0), 10);
  for (int kept = layers.least_kept(0); kept <= 3; ++kept) {
    SCOPED_TRACE(kept);
    const int left_out = layers.repeats(0) - kept;
    ASSERT_GE(left_out, 4);
    Graph shallow;
    const Transformer of_shallow =
        BuildTransformer(shallow, {.layers = 12 - left_out});
    for (const std::string preset : {"data_model", "zero3"}) {
      SCOPED_TRACE(preset);
      const Mesh mesh = *LayoutRules::PresetMesh(preset, 4);
      const LayoutRules rules = *LayoutRules::Preset(preset);
      const internal::FewLayers few_layers = internal::KeepFew(layers, {kept});
      const auto few = internal::LowerFewLayers(
          deep, *BindLayout(deep, mesh, rules),
          {.fetches = {of_deep.loss}, .updates = {of_deep.step}}, &few_layers);
      const auto small =
          Lower(shallow, *BindLayout(shallow, mesh, rules),
                {.fetches = {of_shallow.loss}, .updates = {of_shallow.step}});
      ASSERT_OK(few);
      ASSERT_OK(small);
      ASSERT_EQ(few->instructions.size(), small->instructions.size());
      for (size_t i = 0; i < few->instructions.size(); ++i) {
        EXPECT_EQ(few->instructions[i].opcode, small->instructions[i].opcode);
        EXPECT_EQ(few->instructions[i].operands,
                  small->instructions[i].operands);
      }
      EXPECT_EQ(few->variables.size(), small->variables.size());
      EXPECT_EQ(few->buffers.arena_bytes, small->buffers.arena_bytes);
      EXPECT_EQ(CountCollectives(*few), CountCollectives(*small));
    }
  }
}

// Names of left out operations map to those of their representatives.
TEST(RepeatedLayers, NamesMapToTheSameOperationOfAnotherLayer) {
  Graph graph;
  const Transformer model = BuildTransformer(graph, {.layers = 12});
  const RepeatedLayers layers(graph);
  ASSERT_EQ(layers.num_runs(), 1);
  const auto names = layers.Names(layers.Representatives({2}));
  ASSERT_TRUE(names.contains("layer_5/feed_forward/in/einsum"));
  const std::string forward(names.at("layer_5/feed_forward/in/einsum"));
  EXPECT_THAT(forward, ::testing::EndsWith("/feed_forward/in/einsum"));
  EXPECT_FALSE(names.contains(forward));
  EXPECT_TRUE(names.contains("layer_5/feed_forward/in/kernel"));
  EXPECT_FALSE(names.contains("layer_0/feed_forward/in/kernel"));
  EXPECT_FALSE(names.contains("layer_11/feed_forward/in/kernel"));
}

// The value that an update writes has the name of its parameter, so that equal
// layers are one row. With padded dimensions the padding is filled between the
// gather of a parameter and its write.
TEST(ExplainedLayers, GathersOfUpdatesHaveTheNamesOfParameters) {
  for (const int64_t d_model : {8, 11}) {
    SCOPED_TRACE(d_model);
    Graph graph;
    const Transformer model =
        BuildTransformer(graph, {.layers = 3,
                                 .d_model = d_model,
                                 .heads = d_model == 8 ? 4 : 5,
                                 .d_ff = d_model == 8 ? 32 : 33});
    const auto explanation = ExplainTextLayout(
        graph, "a:2,b:2",
        "batch:a, heads:b, d_ff:b, vocab:b [optimizer] d_model:a",
        {.fetches = {model.loss}, .updates = {model.step}});
    ASSERT_OK(explanation);
    int gathers = 0;
    for (const ExplainedCollective& collective : explanation->collectives) {
      if (collective.kind != "all_gather") continue;
      ++gathers;
      EXPECT_THAT(collective.tensor,
                  ::testing::Not(::testing::HasSubstr("adam")));
    }
    EXPECT_GT(gathers, 12);
    EXPECT_THAT(ExplainFullText(*explanation, 120),
                ::testing::HasSubstr("layer_0..2/attention/query/kernel"));
  }
}

}  // namespace
}  // namespace mtf::testing
