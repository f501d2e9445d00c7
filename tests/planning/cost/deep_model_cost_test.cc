// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (large models)
//
// The cost of a change of rules that is computed from few layers equals that of
// all layers, for every change of models of many sizes, presets and meshes.
#include "planning/cost/deep_model_cost.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/sgd.h"
#include "planning/explain/explain.h"
#include "tests/lowering/gpt_recompute.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"
#include "tests/repeats.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

// Explains a step with all layers and with few. Returns whether few were
// enough for any change.
bool ExpectFewTellAll(const Graph& graph, const Targets& targets,
                      const Mesh& mesh, const LayoutRules& rules) {
  const Machine machine = *Machine::Load("h100_nvlink_ib");
  const auto all = Explain(graph, mesh, rules, targets, machine,
                           {.most_operations = 1 << 30});
  const auto few =
      Explain(graph, mesh, rules, targets, machine, {.most_operations = 0});
  EXPECT_OK(all);
  EXPECT_OK(few);
  if (!all.ok() || !few.ok()) return false;
  EXPECT_EQ(all->changes_note, "");
  EXPECT_EQ(all->changes.size(), few->changes.size());
  if (all->changes.size() != few->changes.size()) return false;
  for (size_t i = 0; i < all->changes.size(); ++i) {
    const RuleChange &exact = all->changes[i], &from_few = few->changes[i];
    SCOPED_TRACE(exact.edit);
    EXPECT_EQ(exact.layout, from_few.layout);
    EXPECT_FALSE(from_few.estimated);
    EXPECT_EQ(exact.cost.wire_bytes, from_few.cost.wire_bytes);
    EXPECT_NEAR(exact.cost.seconds, from_few.cost.seconds,
                1e-5 * exact.cost.seconds);
    EXPECT_EQ(exact.memory.parameters, from_few.memory.parameters);
    EXPECT_EQ(exact.memory.optimizer_state, from_few.memory.optimizer_state);
    const double tensors =
        static_cast<double>(exact.memory.total() - exact.memory.unused);
    EXPECT_NEAR(
        tensors,
        static_cast<double>(from_few.memory.total() - from_few.memory.unused),
        1e-5 * tensors);
    // Unused memory between tensors may be up to 1/64 for either.
    EXPECT_NEAR(static_cast<double>(exact.cost.memory_bytes),
                static_cast<double>(from_few.cost.memory_bytes), tensors / 64);
  }
  for (size_t i = 0; i < all->collectives.size(); ++i) {
    const ExplainedCollective &exact = all->collectives[i],
                              &from_few = few->collectives[i];
    EXPECT_EQ(exact.change, from_few.change) << exact.tensor;
    EXPECT_EQ(exact.no_change, from_few.no_change) << exact.tensor;
    EXPECT_EQ(exact.instead, from_few.instead) << exact.tensor;
  }
  return few->changes_note != "";
}

template <typename T>
T Pick(std::mt19937_64& numbers, const std::vector<T>& from) {
  return from[numbers() % from.size()];
}

struct Case {
  TransformerSizes sizes;
  std::string preset;
  Mesh mesh;
};

// Sizes from a layer of a few hundred weights to one of GPT-3, so that gathers
// start ahead by less than a layer or by many, and buckets hold the sums of
// many layers or of less than one.
Case MakeCase(uint64_t seed) {
  std::mt19937_64 numbers(seed * 0x9e3779b97f4a7c15u + 3);
  Case c;
  c.sizes.layers = 6 + static_cast<int>(numbers() % 19);
  c.sizes.heads = Pick<int64_t>(numbers, {4, 12, 16, 25});
  c.sizes.d_kv = Pick<int64_t>(numbers, {2, 32, 64, 128});
  c.sizes.d_model =
      Pick<int64_t>(numbers, {c.sizes.heads * c.sizes.d_kv, 768, 1024});
  c.sizes.d_ff = Pick<int64_t>(numbers, {1, 4, 4, 8}) * c.sizes.d_model;
  c.sizes.batch = Pick<int64_t>(numbers, {8, 12, 48});
  c.sizes.length = Pick<int64_t>(numbers, {16, 256, 1024});
  c.sizes.vocab = Pick<int64_t>(numbers, {64, 1000, 50257});
  c.sizes.dtype = Pick<DType>(numbers, {kFloat32, kBFloat16});
  c.preset = Pick<std::string>(
      numbers, {"data", "megatron", "megatron_sequence", "data_model", "zero2",
                "zero3", "all_to_all", "three_axes", "zero3", "data_model"});
  const int devices =
      c.preset == "three_axes" ? 8 : Pick<int>(numbers, {4, 8, 16});
  c.mesh = *LayoutRules::PresetMesh(c.preset, devices);
  if (c.preset == "data_model") {
    c.mesh = *Mesh::Parse(Pick<std::string>(
        numbers, {"data:3,model:4", "data:2,model:2", "data:4,model:2"}));
  } else if (absl::StartsWith(c.preset, "zero")) {
    c.mesh = *Mesh::Parse(
        Pick<std::string>(numbers, {"data:3", "data:4", "data:8"}));
  }
  return c;
}

class DeepCostOfRandomModels : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Explain, DeepCostOfRandomModels,
                         ::testing::Range(0, Repeats(40, 10)));

TEST_P(DeepCostOfRandomModels, IsThatOfAllLayers) {
  const Case c = MakeCase(GetParam());
  SCOPED_TRACE(absl::StrCat(c.preset, " on ", c.mesh.ToString(), ", layers ",
                            c.sizes.layers, ", d_model ", c.sizes.d_model,
                            ", heads ", c.sizes.heads, ", d_kv ", c.sizes.d_kv,
                            ", d_ff ", c.sizes.d_ff, ", batch ", c.sizes.batch,
                            ", length ", c.sizes.length, ", vocab ",
                            c.sizes.vocab, ", ", DTypeName(c.sizes.dtype)));
  Graph graph;
  const Transformer model = BuildTransformer(graph, c.sizes);
  ExpectFewTellAll(graph, {.fetches = {model.loss}, .updates = {model.step}},
                   c.mesh, *LayoutRules::Preset(c.preset));
}

// GPT-2 350M: eight layers have three times 64 MiB of bf16 gradients, and the
// head is gathered ahead over the bytes of four layers. Half of 48 layers
// determine the cost of all.
TEST(DeepCost, SumsAndGathersOfSeveralLayersNeedSeveralLayers) {
  const TransformerSizes sizes = {48, 64,   1024,  1024,     16,
                                  64, 4096, 50257, kBFloat16};
  Graph graph;
  const Transformer model = BuildTransformer(graph, sizes);
  const Targets targets{.fetches = {model.loss}, .updates = {model.step}};
  for (const auto& [preset, mesh] :
       {std::make_pair("zero3", "data:4"),
        std::make_pair("data_model", "data:3,model:4")}) {
    SCOPED_TRACE(preset);
    EXPECT_TRUE(ExpectFewTellAll(graph, targets, *Mesh::Parse(mesh),
                                 *LayoutRules::Preset(preset)));
  }
}

// The norm of all gradients is an input of every update; an optimizer may
// update the layers from the last to the first; layers may have dropout and
// experts.
TEST(DeepCost, OtherStepsCostWhatAllLayersCost) {
  const Mesh mesh = *Mesh::Parse("data:8");
  const LayoutRules data = *LayoutRules::Parse(gpt_layouts::kData, ""),
                    zero1 = *LayoutRules::Parse(gpt_layouts::kZero1, ""),
                    zero3 = *LayoutRules::Parse(gpt_layouts::kZero3, "");
  GptSizes sizes = {.layers = 24,
                    .batch = 8,
                    .length = 64,
                    .d_model = 64,
                    .heads = 8,
                    .vocab = 1024};
  sizes.master = kFloat32;
  sizes.biases = true;
  sizes.dropout = 0.1;
  {
    SCOPED_TRACE("clipped");
    Graph graph;
    const Gpt gpt = GptBuilder(graph, sizes).Build();
    const Tensor step = nn::Sgd({.max_gradient_norm = 1.0}).Minimize(gpt.loss);
    for (const LayoutRules& rules : {data, zero3}) {
      EXPECT_TRUE(ExpectFewTellAll(
          graph, {.fetches = {gpt.loss}, .updates = {step}}, mesh, rules));
    }
  }
  {
    SCOPED_TRACE("experts");
    sizes.experts = 8;
    Graph graph;
    const Gpt gpt = BuildGpt(graph, sizes);
    EXPECT_TRUE(
        ExpectFewTellAll(graph, {.fetches = {gpt.loss}, .updates = {gpt.step}},
                         mesh, *LayoutRules::Parse(gpt_layouts::kExperts, "")));
  }
  {
    SCOPED_TRACE("rematerialized");
    GptSizes large = {.layers = 24,
                      .batch = 8,
                      .length = 64,
                      .d_model = 2048,
                      .heads = 16,
                      .vocab = 50257};
    Graph graph;
    const Gpt gpt =
        RecomputingGpt(graph, large, {.what = Recompute::kAttention}).Build();
    EXPECT_TRUE(ExpectFewTellAll(
        graph, {.fetches = {gpt.loss}, .updates = {gpt.step}}, mesh, zero1));
  }
}

// A bucket holds the sums of some eighty layers.
TEST(DeepCost, IsEstimatedForAGraphTooLargeToLowerForEachChange) {
  Graph graph;
  const Transformer model = BuildTransformer(
      graph,
      {.layers = 184, .d_model = 128, .heads = 4, .d_kv = 32, .d_ff = 512});
  ASSERT_GT(graph.operations().size(), 60000u);
  const Targets targets{.fetches = {model.loss}, .updates = {model.step}};
  const Machine machine = *Machine::Load("h100_nvlink_ib");
  const auto e = Explain(graph, *Mesh::Parse("data:4"),
                         *LayoutRules::Preset("zero2"), targets, machine);
  ASSERT_OK(e);
  ASSERT_EQ(e->changes.size(), 2u);
  // Without batch:data nothing is summed.
  EXPECT_EQ(e->changes[0].edit, "drop batch:data");
  EXPECT_FALSE(e->changes[0].estimated);
  EXPECT_TRUE(e->changes[1].estimated);
  EXPECT_THAT(e->changes_note, HasSubstr("the costs of 1 of 2 are estimates"));
  EXPECT_THAT(ExplainFullText(*e, 120),
              HasSubstr("drop [optimizer] d_model:data (estimate)"));
  EXPECT_THAT(ExplainJson(*e), HasSubstr("\"estimated\": true"));
  const auto exact = Explain(graph, *Mesh::Parse("data:4"),
                             *LayoutRules::Parse(e->changes[1].layout, ""),
                             targets, machine, {.changes = false});
  ASSERT_OK(exact);
  EXPECT_NEAR(e->changes[1].cost.seconds, exact->cost.seconds,
              0.05 * exact->cost.seconds);
}

}  // namespace
}  // namespace mtf::testing
