// SPDX-License-Identifier: Apache-2.0
//
// What the training of adapters alone costs: in the lowered program and in the
// plan of its memory, only adapters have gradients, collectives and state.
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nn/layers/adapter.h"
#include "nn/models/build_model.h"
#include "nn/optimizers/adam.h"
#include "planning/cost/memory_use.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::testing {
namespace {

constexpr int kLayers = 2, kAdapterRank = 4;
// Of the Dense layers of a Llama below: inputs and outputs together, of
// queries, keys, values, output, and three kernels of feed-forward.
constexpr int64_t kAdapterParameters =
    kLayers * kAdapterRank *
    ((64 + 64) + (64 + 32) + (64 + 32) + (64 + 64) + 3 * (64 + 96));

struct TrainingCosts {
  int64_t calls = 0, bytes = 0;  // of collectives
  int64_t optimizer_state = 0, gradients = 0;
};

// A Llama, with adapters unless `adapted` is false, of which all parameters or
// the adapters alone are trained by Adam.
TrainingCosts CostsOfTraining(absl::string_view mesh, absl::string_view preset,
                              bool all, bool adapted = true) {
  Graph graph;
  std::optional<nn::AdapterScope> adapters;
  if (adapted) {
    adapters.emplace(graph,
                     nn::AdapterOptions{.pattern = "**", .rank = kAdapterRank});
  }
  const auto model =
      nn::BuildModel(graph, "",
                     absl::StrCat(R"({"model_type": "llama", "vocab_size": 128,
          "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 8,
          "num_key_value_heads": 4, "num_hidden_layers": )",
                                  kLayers, "}"),
                     {.batch = 8, .length = 16});
  adapters.reset();
  EXPECT_OK(model);
  const Tensor step = nn::Adam().Minimize(model->objective,
                                          {.only = all ? "**" : "**/adapter"});
  const auto program =
      LowerText(graph, mesh, LayoutRules::Preset(preset)->ToString(),
                {.fetches = {model->loss}, .updates = {step}});
  EXPECT_OK(program);
  TrainingCosts costs;
  for (const auto& [key, count] : CountCollectives(*program)) {
    costs.calls += count.first;
    costs.bytes += count.second;
  }
  const ExplainedMemory memory = internal::ExplainMemory(*program);
  costs.optimizer_state = memory.parts.optimizer_state;
  costs.gradients = memory.parts.gradients;
  return costs;
}

// One all_reduce of the gradients of adapters, and of the loss and its count;
// 2 (d-1)/d of their bytes.
TEST(AdapterCosts, OfDataParallelismAreThoseOfAdapters) {
  const TrainingCosts some = CostsOfTraining("data:4", "data", false),
                      all = CostsOfTraining("data:4", "data", true);
  const int64_t gradients = 2 * 3 * kAdapterParameters * 4 / 4;
  EXPECT_GE(some.bytes, gradients);
  EXPECT_LE(some.bytes, gradients + 64);
  EXPECT_GT(all.bytes, 3 * some.bytes);
}

// Two moments of each parameter, and a counter; tensors are aligned.
TEST(AdapterCosts, OptimizerStateIsThatOfAdapters) {
  const TrainingCosts some = CostsOfTraining("data:1", "single", false),
                      all = CostsOfTraining("data:1", "single", true);
  EXPECT_GE(some.optimizer_state, 2 * 4 * kAdapterParameters);
  EXPECT_LE(some.optimizer_state, 2 * 4 * kAdapterParameters + 64);
  EXPECT_GT(all.optimizer_state, 5 * some.optimizer_state);
}

// Frozen parameters that are sharded at rest are gathered for use, but have no
// gradient to reduce_scatter.
TEST(AdapterCosts, OfZero3AreGathersWithoutGradients) {
  const TrainingCosts some = CostsOfTraining("data:4", "zero3", false),
                      all = CostsOfTraining("data:4", "zero3", true);
  EXPECT_LT(some.bytes, all.bytes * 3 / 4);
  EXPECT_LT(some.optimizer_state, all.optimizer_state / 5);
}

// Adapters add no all_reduce of activations to those of the model: both
// products of a layer are summed in one. What they add is at most as large as
// the gradients of all A and B.
TEST(AdapterCosts, OfMegatronsLayoutAreThoseOfTheModel) {
  const TrainingCosts some = CostsOfTraining("model:4", "megatron", false),
                      plain =
                          CostsOfTraining("model:4", "megatron", true, false);
  EXPECT_LE(some.bytes, plain.bytes + 2 * 3 * kAdapterParameters * 4 / 4);
}

}  // namespace
}  // namespace mtf::testing
