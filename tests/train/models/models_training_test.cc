// SPDX-License-Identifier: Apache-2.0
//
// Published models train alike under every preset, and learn.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layouts/presets.h"
#include "nn/models/build_model.h"
#include "nn/models/t5.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/schedules.h"
#include "ops/input.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "tests/train/models/trained_model.h"
#include "tests/train/weights/model_fixture.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

class ModelsTraining : public ::testing::TestWithParam<std::string> {};

TEST_P(ModelsTraining, LossesAreTheSameUnderEveryPreset) {
  TrainedModel model(GetParam());
  const int64_t steps = mtf::testing::ThoroughTests() ? 50 : 3;
  const std::vector<double> alone = model.Losses("data:1", "", steps);
  ASSERT_EQ(alone.size(), static_cast<size_t>(steps));
  if (steps == 50) {
    // Of the same batch.
    EXPECT_LT(alone[steps - 2], alone[0]);
  }
  for (const internal::PresetFile& preset : internal::PresetFiles()) {
    SCOPED_TRACE(preset.name);
    const std::string name(preset.name);
    if (name == "single") continue;
    const std::vector<double> losses = model.Losses(MeshFor(name), name, steps);
    ASSERT_EQ(losses.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_NEAR(losses[i], alone[i], 1e-4) << "step " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ModelsTraining, ::testing::ValuesIn(ModelNames()),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(MeshTensorFlow, ModelsTraining,
                         ::testing::ValuesIn(MeshModelNames()),
                         [](const auto& info) { return info.param; });

// The layouts with which tensor2tensor published its models, on smaller meshes:
// rules for vocab, d_ff and heads that mesh axes of 2 and of 3 divide and do
// not divide, pictures in rows and columns, and a sharded length.
TEST(MeshModels, LossesAreTheSameUnderTheirPublishedLayouts) {
  struct Published {
    std::vector<std::string> models;
    const char *mesh, *layout;
  };
  const std::vector<std::string> transformers = {"mesh_lm", "mesh_translation",
                                                 "mesh_encoder"},
                                 images = {"image_local1d",
                                           "image_local1d_spatial"};
  const Published layouts[] = {
      {transformers, "model:4",
       "batch:batch, vocab:model, d_ff:model, heads:model"},
      {transformers, "batch:2,model:3",
       "batch:batch, vocab:model, d_ff:model, heads:model"},
      {transformers, "batch:4",
       "batch:batch, vocab:model, d_ff:model, heads:model"},
      {images, "batch:4", "batch:batch"},
      {images, "model:2,batch:2", "batch:batch, d_ff:model, heads:model"},
      {images, "all:3", "vocab:all, d_ff:all, heads:all"},
      {images, "all:2", "length:all"},
      {images, "model:3,batch:2", "batch:batch, length:model"},
      {{"image_local2d_spatial"}, "b1:2,b2:2", "rows:b1, columns:b2"},
  };
  const int64_t steps = mtf::testing::ThoroughTests() ? 50 : 3;
  std::map<std::string, std::vector<double>> alone;
  for (const Published& each : layouts) {
    for (const std::string& name : each.models) {
      SCOPED_TRACE(absl::StrCat(name, " on ", each.mesh, ", ", each.layout));
      TrainedModel model(name);
      std::vector<double>& expected = alone[name];
      if (expected.empty()) expected = model.Losses("data:1", "", steps);
      const std::vector<double> losses =
          model.Losses(each.mesh, each.layout, steps);
      ASSERT_EQ(losses.size(), expected.size());
      for (size_t i = 0; i < losses.size(); ++i) {
        EXPECT_NEAR(losses[i], expected[i], 1e-4) << "step " << i;
      }
    }
  }
}

// A bias of both lengths cannot be sharded over one axis twice, so attention
// with relative positions gathers its keys. Attention to the encoder, which has
// no bias, is a ring.
TEST(EncoderDecoder, GathersKeysOfRelativePositionsInARing) {
  const TrainedModel model("t5");
  const auto session = Session::Create(model.graph(), "model:2", "ring");
  ASSERT_OK(session);
  const auto program = (*session)->ProgramOf(model.request());
  ASSERT_OK(program);
  int with_bias = 0, in_ring = 0;
  for (const Instruction& instruction : (*program)->instructions) {
    if (instruction.opcode != Opcode::kAttention) continue;
    const auto& attributes = instruction.Get<AttentionAttributes>();
    EXPECT_NE(attributes.bias, attributes.ring);
    with_bias += attributes.bias ? 1 : 0;
    in_ring += attributes.ring ? 1 : 0;
  }
  EXPECT_GT(with_bias, 0);
  EXPECT_GT(in_ring, 0);
}

// Sequences of `length` tokens from 2 on, other ones in every step.
HostTensor RandomTokens(const Shape& shape, int64_t vocab, int64_t step) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    uint64_t bits = (step * 1000003 + i) * 0x9E3779B97F4A7C15u;
    bits = (bits ^ (bits >> 29)) * 0xBF58476D1CE4E5B9u;
    tokens.push_back(static_cast<int32_t>(2 + (bits >> 33) % (vocab - 2)));
  }
  return HostTensor::Of<int32_t>(shape, tokens);
}

HostTensor Reversed(const HostTensor& tokens) {
  const int64_t length = tokens.shape()[1].size;
  const std::vector<double> values = tokens.ToDoubles();
  std::vector<double> reversed(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    reversed[i] = values[at / length * length + length - 1 - at % length];
  }
  return HostTensor::FromDoubles(tokens.shape(), kInt32, reversed);
}

// Tokens that it has not seen have a small loss, which a model that does not
// attend to the right positions cannot have: log(10) = 2.3 by guessing.
TEST(EncoderDecoder, LearnsToCopyAndToReverse) {
  SKIP_UNLESS_THOROUGH("three thousand steps");
  for (const bool reverses : {false, true}) {
    SCOPED_TRACE(reverses ? "reverse" : "copy");
    Graph graph;
    const Shape shape = {{"batch", 32}, {"length", 6}};
    const int64_t vocab = 12;
    const Tensor tokens = Input(graph, "tokens", kInt32, shape);
    const Tensor targets = Input(graph, "targets", kInt32, shape);
    const nn::LanguageModel model =
        nn::T5(tokens, nn::ShiftRight(targets),
               {.vocab_size = vocab,
                .d_model = 32,
                .d_kv = 8,
                .d_ff = 64,
                .num_layers = 2,
                .num_heads = 4,
                .relative_attention_max_distance = 32,
                .dropout_rate = 0});
    const Tensor loss = nn::LanguageModelLoss(model, targets);
    const Tensor step =
        nn::AdamW({.learning_rate = nn::Schedule(1e-2) * nn::LinearWarmup(50) *
                                    nn::LinearDecay(500, 1500)})
            .Minimize(loss);
    auto session = Session::Create(graph, "data:2", "zero3");
    ASSERT_OK(session);
    ASSERT_OK((*session)->Initialize());
    double mean = 0;
    for (int64_t i = 0; i < 1500; ++i) {
      const HostTensor source = RandomTokens(shape, vocab, i);
      const auto values = (*session)->Run(
          {.feeds = {{"tokens", source},
                     {"targets", reverses ? Reversed(source) : source}},
           .fetches = {loss},
           .updates = {step}});
      ASSERT_OK(values);
      if (i >= 1490) mean += (*values)[0].ToDoubles()[0] / 10;
    }
    EXPECT_LT(mean, 0.1);
  }
}

}  // namespace
}  // namespace mtf::train
