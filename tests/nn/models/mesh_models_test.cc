// SPDX-License-Identifier: Apache-2.0
//
// Mesh-TensorFlow's transformer and image transformer: what positions depend
// on, and the presets with their published sizes.
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nn/models/build_model.h"
#include "nn/models/config_fields.h"
#include "nn/models/image_transformer.h"
#include "nn/models/mesh_transformer.h"
#include "nn/models/model_presets.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr auto kInvalidModel = absl::StatusCode::kInvalidArgument;

// Which positions of the logits of a row [1, length] change if each of its
// tokens does: element i, j is whether logits i depend on token j.
using Network = std::function<nn::LanguageModel(Tensor tokens)>;
std::vector<std::vector<bool>> Dependencies(const Network& network,
                                            int64_t length) {
  const Shape shape = {{"batch", 1}, {"length", length}};
  OracleGraph o;
  const ModeScope mode(o.graph, Mode::kEvaluate);
  const std::vector<int32_t> tokens(length, 1);
  const Tensor logits =
      nn::LanguageModelLogits(network(o.Integers("tokens", shape, tokens)));
  EXPECT_OK(o.graph.status());
  if (!o.graph.status().ok()) return {};
  const std::vector<double> before = o.Run(logits);
  const int64_t vocab = logits.shape().dims().back().size,
                predictions = logits.shape().num_elements() / vocab;
  std::vector<std::vector<bool>> depends(predictions,
                                         std::vector<bool>(length));
  for (int64_t j = 0; j < length; ++j) {
    std::vector<int32_t> changed = tokens;
    changed[j] = 2;
    o.feeds["tokens"] = HostTensor::Of<int32_t>(shape, changed);
    const std::vector<double> after = o.Run(logits);
    for (size_t at = 0; at < after.size(); ++at) {
      if (std::abs(after[at] - before[at]) > 1e-9) {
        depends[static_cast<int64_t>(at) / vocab][j] = true;
      }
    }
  }
  return depends;
}

nn::ImageTransformerConfig SmallImages(const std::string& attention) {
  return {.img_len = 4,
          .num_channels = 1,
          .vocab_size = 5,
          .hidden_size = 6,
          .d_kv = 3,
          .d_ff = 7,
          .num_heads = 2,
          .num_decoder_layers = 1,
          .attention_type = attention,
          .block_length = 3,
          .block_height = 1,
          .block_width = 2};
}

// One layer shows the neighbourhood. Tokens are shifted pixels, so each may be
// read where it is.
TEST(ImageTransformer, AttendsToItsNeighbourhoodOnly) {
  for (const std::string type :
       {"local1d", "local1d_spatial", "local2d_spatial"}) {
    const auto depends = Dependencies(
        [&](Tensor x) { return nn::ImageTransformer(x, SmallImages(type)); },
        16);
    ASSERT_EQ(depends.size(), 16u);
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) {
        const int rows = i / 4 - j / 4, columns = std::abs(i % 4 - j % 4);
        const bool near = type == "local1d" ? i - j < 3
                          : type == "local1d_spatial"
                              ? i - j <= 3
                              : rows <= 1 && columns <= 2;
        EXPECT_EQ(depends[i][j], j <= i && near)
            << type << ": " << i << " of " << j;
      }
    }
  }
}

nn::MeshTransformerConfig SmallTransformer(const std::string& type) {
  return {.transformer_type = type,
          .vocab_size = 5,
          .max_length = 8,
          .d_model = 6,
          .d_kv = 3,
          .d_ff = 7,
          .num_heads = 2,
          .num_encoder_layers = 1,
          .num_decoder_layers = 2};
}

TEST(MeshTransformer, DecodersAreCausalAndEncodersAreNot) {
  const auto decoder = Dependencies(
      [](Tensor x) {
        return nn::MeshTransformer({}, x, SmallTransformer("decoder"));
      },
      4);
  const auto encoder = Dependencies(
      [](Tensor x) {
        return nn::MeshTransformer(x, {}, SmallTransformer("encoder"));
      },
      4);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      EXPECT_EQ(decoder[i][j], j <= i);
      EXPECT_TRUE(encoder[i][j]);
    }
  }
}

// Each target sees all of the input but its padding.
TEST(MeshTransformer, DecodersAttendToTokensThatAreNotPadding) {
  const Shape shape = {{"batch", 1}, {"length", 3}},
              target = {{"batch", 1}, {"length", 2}};
  OracleGraph o;
  const ModeScope mode(o.graph, Mode::kEvaluate);
  const Tensor logits = nn::LanguageModelLogits(nn::MeshTransformer(
      o.Integers("tokens", shape, {1, 2, 0}),
      o.Integers("targets", target, {3, 1}), SmallTransformer("encdec")));
  ASSERT_OK(o.graph.status());
  const std::vector<double> padded = o.Run(logits);
  // Another position of the table for the padding changes nothing.
  std::vector<double> rows = o.Value("position_embedding/table");
  for (int i = 0; i < 6; ++i)
    o.variables["position_embedding/table"].data[12 + i] = 9;
  EXPECT_EQ(o.Run(logits), padded);
  o.variables["position_embedding/table"].data = rows;
  o.feeds["tokens"] = HostTensor::Of<int32_t>(shape, {1, 2, 4});
  EXPECT_NE(o.Run(logits), padded);
}

TEST(MeshTransformer, ReportsTokensOfWrongStacksAndLengths) {
  const auto error = [](const nn::MeshTransformerConfig& config, bool encoded,
                        bool decoded, int64_t length) {
    OracleGraph o;
    const Shape shape = {{"batch", 1}, {"length", length}};
    const Tensor tokens =
        o.Integers("tokens", shape, std::vector<int32_t>(length, 1));
    nn::MeshTransformer(encoded ? tokens : Tensor(),
                        decoded ? tokens : Tensor(), config);
    return o.graph.status();
  };
  EXPECT_THAT(
      error(SmallTransformer("decoder"), true, true, 4),
      StatusIs(kInvalidModel, HasSubstr("takes no tokens for an encoder")));
  EXPECT_THAT(error(SmallTransformer("encdec"), true, false, 4),
              StatusIs(kInvalidModel, HasSubstr("needs tokens for a decoder")));
  EXPECT_THAT(error(SmallTransformer("decoder"), false, true, 9),
              StatusIs(kInvalidModel, HasSubstr("max_length is 8")));
  EXPECT_THAT(error(SmallTransformer("decodr"), false, true, 4),
              StatusIs(kInvalidModel, HasSubstr("\"decodr\", not encdec")));
}

TEST(ImageTransformer, ReportsImagesOfWrongSizes) {
  OracleGraph o;
  nn::ImageTransformer(
      o.Integers("pixels", {{"batch", 1}, {"length", 3}}, {1, 2, 3}),
      SmallImages("local1d"));
  EXPECT_THAT(
      o.graph.status(),
      StatusIs(kInvalidModel,
               HasSubstr("4 x 4 x 1 = 16 values, but \"length\" is 3")));
}

TEST(MeshModelConfigs, ReportWrongFields) {
  const auto error = [](const std::string& type, const std::string& config) {
    Graph graph;
    return nn::BuildModel(graph, type, config).status();
  };
  EXPECT_THAT(error("mtf_transformer", "{}"),
              StatusIs(kInvalidModel, HasSubstr("vocab_size")));
  EXPECT_THAT(error("mtf_image_transformer",
                    R"({"img_len": 4, "hidden_size": 4, "d_kv": 2, "d_ff": 4,
                "num_heads": 2, "num_decoder_layers": 1,
                "attention_type": "global"})"),
              StatusIs(kInvalidModel, HasSubstr("\"global\", not local1d")));
  EXPECT_THAT(
      error("mtf_image_transformer",
            R"({"img_len": 2000000000, "hidden_size": 4, "d_kv": 2, "d_ff": 4,
                "num_heads": 2, "num_decoder_layers": 1})"),
      StatusIs(kInvalidModel, HasSubstr("too large")));
  const std::string sizes =
      R"({"vocab_size": 7, "max_length": 8, "d_model": 4, "d_kv": 2, "d_ff": 4,
          "num_heads": 2, )";
  EXPECT_THAT(
      error("mtf_transformer", sizes + R"("num_decoder_layer": 1})"),
      StatusIs(kInvalidModel,
               HasSubstr("\"num_decoder_layer\" of the model's config is "
                         "unknown\n  help     did you mean "
                         "\"num_decoder_layers\"?")));
  EXPECT_THAT(error("mtf_transformer", sizes + R"("extra": []})"),
              StatusIs(kInvalidModel,
                       HasSubstr("the fields are attention_dropout, d_ff,")));
  EXPECT_THAT(error("mtf_transformer", sizes + R"("extra": {"a": 1}})"),
              StatusIs(kInvalidModel, HasSubstr("\"extra.a\"")));
  EXPECT_THAT(
      nn::FindModelPreset("mtf_transformer_papr_lm_5").status(),
      StatusIs(absl::StatusCode::kNotFound,
               HasSubstr("did you mean \"mtf_transformer_paper_lm_5\"")));
}

// The number of parameters of the model of a preset.
double ParametersOf(const nn::ModelPreset& preset) {
  Graph graph;
  const auto model =
      nn::BuildModel(graph, preset.type, preset.config,
                     {.batch = preset.batch, .length = preset.length});
  EXPECT_OK(model);
  double parameters = 0;
  for (const VariableInfo& info : graph.variables()) {
    parameters += static_cast<double>(info.shape.num_elements());
  }
  return parameters;
}

// Billions of parameters of the language models in tensor2tensor's
// mtf_transformer.py, and of the largest translation model of Shazeer et al.,
// 2018.
TEST(ModelPresets, HaveThePublishedNumbersOfParameters) {
  const std::pair<const char*, double> published[] = {
      {"paper_lm_m1", 0.14}, {"paper_lm_0", 0.22}, {"paper_lm_1", 0.37},
      {"paper_lm_2", 0.67},  {"paper_lm_3", 1.28}, {"paper_lm_4", 2.48},
      {"paper_lm_5", 4.90},  {"lm_baseline", 0.14}};
  for (const auto& [name, billions] : published) {
    const auto preset =
        nn::FindModelPreset(absl::StrCat("mtf_transformer_", name));
    ASSERT_OK(preset);
    EXPECT_NEAR(ParametersOf(*preset) / 1e9, billions, 0.006) << name;
  }
  EXPECT_NEAR(
      ParametersOf(*nn::FindModelPreset("mtf_transformer_paper_tr_4")) / 1e9,
      2.9, 0.05);
}

// Counted by hand: two tables of the vocabulary, positions, four projections
// and two kernels of a layer, a scale for each sublayer and stack.
TEST(ModelPresets, HaveTheParametersOfTheReference) {
  EXPECT_EQ(ParametersOf(*nn::FindModelPreset("mtf_transformer_paper_lm_0")),
            2. * 32768 * 1024 + 256 * 1024 +
                6. * (4 * 1024 * 8 * 256 + 2 * 1024 * 8192) + 13 * 1024);
  EXPECT_EQ(ParametersOf(*nn::FindModelPreset("mtf_transformer_base")),
            32768. * 512 + 256 * 512 +
                6. * (4 * 512 * 8 * 128 + 2 * 512 * 2048) + 13 * 512 +
                6. * (8 * 512 * 8 * 128 + 2 * 512 * 2048) + 19 * 512);
  // Rows, columns, values in and out, and norms with scale and bias.
  EXPECT_EQ(
      ParametersOf(*nn::FindModelPreset("mtf_image_transformer_base_cifar")),
      (32 + 96 + 2 * 256) * 512. +
          12. * (4 * 512 * 4 * 64 + 2 * 512 * 2048 + 4 * 512) + 2 * 512);
}

// Counted by hand: vocabulary in and out, and what else is as above.
TEST(ModelPresets, OfTheSecondTransformerHaveNoDropoutAndAZLoss) {
  const auto base = nn::FindModelPreset("mtf_unitransformer_base"),
             tiny = nn::FindModelPreset("mtf_bitransformer_tiny");
  ASSERT_OK(base);
  ASSERT_OK(tiny);
  EXPECT_EQ(ParametersOf(*base),
            2. * 32768 * 1024 + 1024 * 1024 +
                6. * (4 * 1024 * 8 * 128 + 2 * 1024 * 2048) + 13 * 1024);
  EXPECT_EQ(ParametersOf(*tiny), 2. * 32768 * 128 + 256 * 128 +
                                     2. * (12 * 128 * 8 * 128 + 4 * 128 * 512) +
                                     (5 + 7) * 128);
  EXPECT_EQ(base->mesh, "model:8");
  EXPECT_EQ(base->length, 1024);
  EXPECT_EQ(base->activations, kBFloat16);
  const auto fields = nn::ConfigFields::Parse(base->config);
  ASSERT_OK(fields);
  const auto config = nn::ReadMeshTransformerConfig(*fields);
  ASSERT_OK(config);
  EXPECT_EQ(config->attention_dropout + config->relu_dropout +
                config->layer_prepostprocess_dropout + config->label_smoothing,
            0);
  EXPECT_EQ(config->z_loss, 1e-4);
}

TEST(ModelPresets, AllBuildAndHaveAMesh) {
  ASSERT_THAT(nn::ModelPresetNames(), Not(IsEmpty()));
  for (const std::string& name : nn::ModelPresetNames()) {
    SCOPED_TRACE(name);
    const auto preset = nn::FindModelPreset(name);
    ASSERT_OK(preset);
    EXPECT_EQ(preset->name, name);
    EXPECT_GT(ParametersOf(*preset), 0);
    EXPECT_EQ(preset->mesh.empty(), preset->layout.empty());
  }
}

}  // namespace
}  // namespace mtf
