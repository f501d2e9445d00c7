// SPDX-License-Identifier: Apache-2.0
//
// The explanation of a small Llama whose optimizer state is in host memory. To
// update its golden, run
//
//   MTF_UPDATE_GOLDENS=1 train_weights_test --gtest_filter='OffloadedLlama*'
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/lower.h"
#include "nn/models/build_model.h"
#include "nn/optimizers/adam.h"
#include "planning/explain/explain.h"
#include "planning/machine/machine.h"
#include "tests/golden_files.h"
#include "tests/matchers.h"

namespace mtf::testing {
namespace {

constexpr char kSmallLlama[] = R"({"model_type": "llama", "vocab_size": 1024,
    "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8,
    "num_key_value_heads": 4, "num_hidden_layers": 2})";

struct OffloadedStep {
  Graph graph;
  Targets targets;
  Mesh mesh = *Mesh::Parse("data:2,model:2");
  LayoutRules rules =
      *LayoutRules::Parse("data_model, [offload] optimizer", "--layout");

  absl::Status Build() {
    MTF_ASSIGN_OR_RETURN(
        const nn::PublishedModel model,
        nn::BuildModel(graph, "", kSmallLlama, {.batch = 8, .length = 64}));
    targets.fetches = {model.loss};
    targets.updates = {nn::AdamW().Minimize(model.objective)};
    return graph.status();
  }
};

// Lines of sources would change with every edit of the layers.
void RemoveSites(Explanation& explanation) {
  for (auto& collective : explanation.collectives) collective.site.clear();
  for (auto& tensor : explanation.memory.alive) tensor.site.clear();
  for (auto& composed : explanation.attention.composed) composed.site.clear();
  explanation.memory.peak_site.clear();
}

TEST(OffloadedLlama, IsExplained) {
  OffloadedStep step;
  ASSERT_OK(step.Build());
  const auto machine = Machine::Load("h100_nvlink_ib");
  ASSERT_OK(machine);
  auto explanation =
      Explain(step.graph, step.mesh, step.rules, step.targets, *machine);
  ASSERT_OK(explanation);
  RemoveSites(*explanation);
  ExpectGolden("data_model.llama_offload.explain.txt",
               ExplainText(*explanation, 100));
}

}  // namespace
}  // namespace mtf::testing
