// SPDX-License-Identifier: Apache-2.0
//
// Options of config.json that change what a model computes: each is either
// read as the package `transformers` reads it, or an error that names it.
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nn/models/bert.h"
#include "nn/models/build_model.h"
#include "nn/models/gpt2.h"
#include "nn/models/llama.h"
#include "nn/models/t5.h"
#include "tests/matchers.h"

namespace mtf::nn {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The least config of a model of `type`, with `fields` at its end, where they
// replace those before.
std::string SmallConfig(const std::string& type, const std::string& fields) {
  std::string sizes;
  if (type == "gpt2") {
    sizes = R"("n_positions": 256, "n_embd": 8, "n_layer": 1, "n_head": 2)";
  } else if (type == "t5") {
    sizes = R"("d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1,
               "num_heads": 2)";
  } else if (type == "resnet") {
    sizes = R"("embedding_size": 4, "hidden_sizes": [4], "depths": [1])";
  } else {
    sizes = R"("hidden_size": 32, "intermediate_size": 8,
               "num_hidden_layers": 2, "num_attention_heads": 16)";
  }
  return absl::StrCat(R"({"vocab_size": 7, "model_type": ")", type, "\", ",
                      sizes, fields.empty() ? "" : ", ", fields, "}");
}

template <class Config>
Config Read(absl::StatusOr<Config> (*read)(ConfigFields),
            const std::string& type, const std::string& fields = "") {
  const auto parsed = ConfigFields::Parse(SmallConfig(type, fields));
  EXPECT_OK(parsed);
  const auto config = read(*parsed);
  EXPECT_OK(config) << fields;
  return config.ok() ? *config : Config();
}

struct UnsupportedField {
  const char *type, *fields, *named;
};

class UnsupportedConfigs : public ::testing::TestWithParam<UnsupportedField> {};

TEST_P(UnsupportedConfigs, AreErrorsThatNameTheField) {
  const auto& [type, fields, named] = GetParam();
  Graph graph;
  const ModelSizes sizes = {.batch = 2, .length = 4, .image_size = 16};
  EXPECT_OK(BuildModel(graph, "", SmallConfig(type, ""), sizes)) << type;
  Graph other;
  EXPECT_THAT(BuildModel(other, "", SmallConfig(type, fields), sizes).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(named)))
      << type << " " << fields;
}

TEST(UnsupportedConfig, NeedsAType) {
  Graph graph;
  EXPECT_THAT(BuildModel(graph, "", R"({"vocab_size": 7})", {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("the config has no \"model_type\""),
                             HasSubstr("add it, or give the type"))));
}

INSTANTIATE_TEST_SUITE_P(
    All, UnsupportedConfigs,
    ::testing::Values(
        UnsupportedField{"gpt2", R"("scale_attn_weights": false)",
                         "\"scale_attn_weights\""},
        UnsupportedField{"gpt2", R"("scale_attn_by_inverse_layer_idx": true)",
                         "\"scale_attn_by_inverse_layer_idx\""},
        UnsupportedField{"gpt2", R"("add_cross_attention": true)",
                         "\"add_cross_attention\""},
        UnsupportedField{"gpt2", R"("activation_function": "quick_gelu")",
                         "\"quick_gelu\""},
        UnsupportedField{"gpt2", R"("n_inner": [8, 8])", "\"n_inner\""},
        UnsupportedField{"gpt2", R"("layer_norm_epsilon": 0)",
                         "\"layer_norm_epsilon\" of the model's config is 0, "
                         "not a positive number"},
        UnsupportedField{"llama", R"("rms_norm_eps": -1e-6)",
                         "\"rms_norm_eps\" of the model's config is -1e-06"},
        UnsupportedField{"mistral", R"("rms_norm_eps": 1e-60)",
                         "\"rms_norm_eps\""},
        UnsupportedField{"t5", R"("layer_norm_epsilon": 0)",
                         "\"layer_norm_epsilon\""},
        UnsupportedField{"bert", R"("layer_norm_eps": 0.0)",
                         "\"layer_norm_eps\""},
        UnsupportedField{"vit", R"("layer_norm_eps": 0)", "\"layer_norm_eps\""},
        UnsupportedField{"resnet", R"("hidden_sizes": [])",
                         "\"hidden_sizes\" of the model's config is an empty"},
        UnsupportedField{"resnet", R"("hidden_sizes": {"a": 1})",
                         "\"hidden_sizes\" of the model's config is not a"},
        UnsupportedField{"resnet", R"("hidden_sizes": {})",
                         "\"hidden_sizes\" of the model's config is not a"},
        UnsupportedField{"resnet", R"("depths": [null])",
                         "\"depths.0\" of the model's config is null"},
        UnsupportedField{"resnet", R"("depths": [[1]])", "\"depths.0\""},
        UnsupportedField{"llama", R"("hidden_act": "gelu_fast")",
                         "\"gelu_fast\""},
        UnsupportedField{"llama", R"("rope_scaling": {"type": "dynamic",
                                                      "factor": 2.0})",
                         "\"rope_scaling.rope_type\""},
        UnsupportedField{"llama", R"("rope_scaling": {"rope_type": "yarn",
                                                      "factor": 2.0})",
                         "\"rope_scaling.rope_type\""},
        UnsupportedField{"llama", R"("rope_scaling": {"rope_type": "linear"})",
                         "\"rope_scaling.factor\""},
        UnsupportedField{"llama", R"("rope_parameters": {"rope_type": "llama3",
                             "factor": 8, "high_freq_factor": 4})",
                         "\"rope_parameters.low_freq_factor\""},
        UnsupportedField{"llama",
                         R"("rope_parameters": {"rope_theta": 10000.0,
                             "partial_rotary_factor": 0.5})",
                         "\"rope_parameters.partial_rotary_factor\""},
        UnsupportedField{"llama",
                         R"("rope_parameters": {"full_attention":
                             {"rope_theta": 1e6}})",
                         "\"rope_parameters.full_attention\" of the model's "
                         "config is an object"},
        UnsupportedField{"mixtral", R"("quantization_config": {"bits": 4})",
                         "\"quantization_config\" of the model's config is "
                         "present"},
        UnsupportedField{"llama", R"("partial_rotary_factor": 0.5)",
                         "\"partial_rotary_factor\""},
        UnsupportedField{"llama", R"("sliding_window": 4)",
                         "\"sliding_window\""},
        UnsupportedField{"llama", R"("num_attention_heads": 6)",
                         "num_attention_heads"},
        UnsupportedField{"mistral",
                         R"("layer_types": ["sliding_attention",
                                            "full_attention"])",
                         "\"layer_types.1\""},
        UnsupportedField{"mistral",
                         R"("sliding_window": null,
                            "layer_types": ["full_attention",
                                            "sliding_attention"])",
                         "\"layer_types.1\""},
        UnsupportedField{"t5", R"("is_encoder_decoder": false)",
                         "\"is_encoder_decoder\""},
        UnsupportedField{"t5", R"("dense_act_fn": "gelu_new")",
                         "\"dense_act_fn\""},
        UnsupportedField{"t5", R"("is_gated_act": true)", "\"is_gated_act\""},
        UnsupportedField{"t5", R"("feed_forward_proj": "gated-mish")",
                         "\"mish\""},
        UnsupportedField{"bert", R"("position_embedding_type":
                                    "relative_key_query")",
                         "\"position_embedding_type\""},
        UnsupportedField{"bert", R"("is_decoder": true)", "\"is_decoder\""},
        UnsupportedField{"bert", R"("add_cross_attention": true)",
                         "\"add_cross_attention\""},
        UnsupportedField{"bert", R"("tie_word_embeddings": false)",
                         "\"tie_word_embeddings\""},
        UnsupportedField{"bert", R"("hidden_act": "tanh")", "\"tanh\""},
        UnsupportedField{"vit", R"("qkv_bias": false)", "\"qkv_bias\""},
        UnsupportedField{"vit", R"("image_size": [224, 384])",
                         "\"image_size\" of the model's config is a list or "
                         "an object, not a size"},
        UnsupportedField{"resnet", R"("hidden_act": "gelu")", "\"hidden_act\""},
        UnsupportedField{"resnet", R"("layer_type": "wide")", "\"layer_type\""},
        UnsupportedField{"resnet", R"("depths": 3)", "\"depths\""}));

TEST(LlamaConfigs, HaveTheDefaultsOfTheirTypes) {
  const LlamaConfig llama = Read(&ReadLlamaConfig, "llama"),
                    mistral = Read(&ReadLlamaConfig, "mistral"),
                    mixtral = Read(&ReadLlamaConfig, "mixtral");
  EXPECT_EQ(llama.num_key_value_heads, 16);
  EXPECT_EQ(mistral.num_key_value_heads, 8);
  EXPECT_EQ(mixtral.num_key_value_heads, 8);
  EXPECT_EQ(llama.sliding_window, 0);
  EXPECT_EQ(mistral.sliding_window, 4096);
  EXPECT_EQ(mixtral.sliding_window, 0);
  EXPECT_EQ(llama.rms_norm_eps, 1e-6);
  EXPECT_EQ(mistral.rms_norm_eps, 1e-6);
  EXPECT_EQ(mixtral.rms_norm_eps, 1e-5);
  EXPECT_EQ(mistral.rope_theta, 1e4);
  EXPECT_EQ(mixtral.rope_theta, 1e6);
  EXPECT_EQ(mixtral.num_local_experts, 8);
  // Null is not absent: a head of keys for each head of queries, no window.
  const LlamaConfig nulls =
      Read(&ReadLlamaConfig, "mistral",
           R"("num_key_value_heads": null, "sliding_window": null)");
  EXPECT_EQ(nulls.num_key_value_heads, 16);
  EXPECT_EQ(nulls.sliding_window, 0);
}

TEST(LlamaConfigs, FindTheOriginalLengthOfScaledPositions) {
  const auto length = [](const std::string& inside,
                         const std::string& outside) {
    return Read(&ReadLlamaConfig, "llama",
                absl::StrCat(R"("rope_scaling": {"rope_type": "llama3",
                                 "factor": 8, "low_freq_factor": 1,
                                 "high_freq_factor": 4)",
                             inside, "}", outside))
        .rope_scaling.original_length;
  };
  const std::string own = R"(, "original_max_position_embeddings": 64)",
                    outer = R"(, "original_max_position_embeddings": 32)",
                    most = R"(, "max_position_embeddings": 128)";
  EXPECT_EQ(length(own, most), 64);
  EXPECT_EQ(length(own, outer + most), 32);
  EXPECT_EQ(length("", most), 128);
  EXPECT_EQ(length("", ""), 2048);
}

TEST(LlamaConfigs, TakeBiasesAndTiedHeads) {
  const auto names = [](const std::string& fields) {
    Graph graph;
    EXPECT_OK(BuildModel(graph, "", SmallConfig("llama", fields)));
    std::string all;
    for (const VariableInfo& info : graph.variables()) {
      absl::StrAppend(&all, info.name, " ");
    }
    return all;
  };
  const std::string plain = names("");
  EXPECT_THAT(plain, HasSubstr("head/kernel"));
  EXPECT_THAT(plain, ::testing::Not(HasSubstr("bias")));
  EXPECT_THAT(names(R"("tie_word_embeddings": true)"),
              ::testing::Not(HasSubstr("head/kernel")));
  EXPECT_THAT(
      names(R"("attention_bias": true, "mlp_bias": true)"),
      AllOf(HasSubstr("attention/query/bias"), HasSubstr("attention/key/bias"),
            HasSubstr("attention/value/bias"),
            HasSubstr("attention/output/bias"),
            HasSubstr("feed_forward/in/bias"),
            HasSubstr("feed_forward/gate/bias"),
            HasSubstr("feed_forward/out/bias")));
}

// Version 1.1 has no tied head, and does not scale the decoder's output;
// recent versions of `transformers` write the scaling as a field of its own.
TEST(T5Configs, ScaleLogitsWhereEmbeddingsAreTied) {
  EXPECT_TRUE(Read(&ReadT5Config, "t5").scale_decoder_outputs);
  EXPECT_FALSE(Read(&ReadT5Config, "t5", R"("tie_word_embeddings": false)")
                   .scale_decoder_outputs);
  const T5Config stated =
      Read(&ReadT5Config, "t5",
           R"("tie_word_embeddings": true, "scale_decoder_outputs": false)");
  EXPECT_TRUE(stated.tie_word_embeddings);
  EXPECT_FALSE(stated.scale_decoder_outputs);
  const T5Config gated =
      Read(&ReadT5Config, "t5",
           R"("feed_forward_proj": "gated-gelu", "is_gated_act": true,
              "dense_act_fn": "gelu_new")");
  EXPECT_EQ(gated.feed_forward_proj, "gated-gelu");
}

}  // namespace
}  // namespace mtf::nn
