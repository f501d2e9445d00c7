// SPDX-License-Identifier: Apache-2.0
//
// The parameters of published models, built from their config.json, are as many
// as their publishers' implementations have.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nn/models/build_model.h"
#include "tests/matchers.h"

namespace mtf::nn {
namespace {

struct ParameterCount {
  std::string name;
  std::string config;  // the fields that determine sizes
  int64_t parameters = 0;
  friend void PrintTo(const ParameterCount& model, std::ostream* out) {
    *out << model.name;
  }
};

std::string LlamaConfigText(absl::string_view sizes) {
  return absl::StrCat(
      R"({"model_type": "llama", "rms_norm_eps": 1e-05, "rope_scaling": null,
          "max_position_embeddings": 4096, "hidden_act": "silu", )",
      sizes, "}");
}

std::string T5ConfigText(absl::string_view sizes) {
  return absl::StrCat(
      R"({"model_type": "t5", "vocab_size": 32128, "n_positions": 512,
          "relative_attention_num_buckets": 32, "is_encoder_decoder": true, )",
      sizes, "}");
}

std::string BertConfigText(absl::string_view sizes) {
  return absl::StrCat(
      R"({"model_type": "bert", "vocab_size": 30522, "type_vocab_size": 2,
          "max_position_embeddings": 512, "hidden_act": "gelu", )",
      sizes, "}");
}

// The heads for pre-training: a dense layer and a norm, the bias of the tied
// embedding, and two classes. `BertModel` is counted without them.
constexpr int64_t BertHeads(int64_t width) {
  return width * width + width + 2 * width + 30522 + 2 * width + 2;
}

std::string ImageConfigText(absl::string_view sizes) {
  std::string classes;
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&classes, i == 0 ? "" : ", ", "\"", i, "\": \"c", i, "\"");
  }
  return absl::StrCat(R"({"image_size": 224, "num_channels": 3, "id2label": {)",
                      classes, "}, ", sizes, "}");
}

std::vector<ParameterCount> LanguageModelCounts() {
  return {
      {"Llama_2_7B",
       LlamaConfigText(R"("vocab_size": 32000, "hidden_size": 4096,
                "intermediate_size": 11008, "num_attention_heads": 32,
                "num_hidden_layers": 32, "num_key_value_heads": 32)"),
       6738415616},
      {"Llama_3_8B",
       LlamaConfigText(R"("vocab_size": 128256, "hidden_size": 4096,
                "intermediate_size": 14336, "num_attention_heads": 32,
                "num_hidden_layers": 32, "num_key_value_heads": 8,
                "rope_theta": 500000.0)"),
       8030261248},
      {"Llama_3_70B",
       LlamaConfigText(R"("vocab_size": 128256, "hidden_size": 8192,
                "intermediate_size": 28672, "num_attention_heads": 64,
                "num_hidden_layers": 80, "num_key_value_heads": 8,
                "rope_theta": 500000.0)"),
       70553706496},
      {"Llama_3_2_1B_tied",
       LlamaConfigText(
           R"("vocab_size": 128256, "hidden_size": 2048, "head_dim": 64,
                "intermediate_size": 8192, "num_attention_heads": 32,
                "num_hidden_layers": 16, "num_key_value_heads": 8,
                "tie_word_embeddings": true)"),
       1235814400},
      {"Mistral_7B",
       R"({"model_type": "mistral", "vocab_size": 32000, "hidden_size": 4096,
           "intermediate_size": 14336, "num_attention_heads": 32,
           "num_hidden_layers": 32, "num_key_value_heads": 8,
           "sliding_window": 4096, "max_position_embeddings": 32768})",
       7241732096},
      {"Mixtral_8x7B",
       R"({"model_type": "mixtral", "vocab_size": 32000, "hidden_size": 4096,
           "intermediate_size": 14336, "num_attention_heads": 32,
           "num_hidden_layers": 32, "num_key_value_heads": 8,
           "num_local_experts": 8, "num_experts_per_tok": 2,
           "sliding_window": null, "max_position_embeddings": 32768})",
       46702792704},
      {"GPT_2",
       R"({"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024,
           "n_embd": 768, "n_head": 12, "n_layer": 12})",
       124439808},
      {"GPT_2_XL",
       R"({"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024,
           "n_embd": 1600, "n_head": 25, "n_layer": 48})",
       1557611200},
      {"T5_small",
       T5ConfigText(R"("d_model": 512, "d_ff": 2048, "d_kv": 64, "num_heads": 8,
             "num_layers": 6)"),
       60506624},
      {"T5_base",
       T5ConfigText(
           R"("d_model": 768, "d_ff": 3072, "d_kv": 64, "num_heads": 12,
             "num_layers": 12)"),
       222903552},
      {"T5_11b",
       T5ConfigText(
           R"("d_model": 1024, "d_ff": 65536, "d_kv": 128, "num_heads": 128,
             "num_layers": 24)"),
       11307321344},
      {"Flan_T5_base",
       T5ConfigText(
           R"("d_model": 768, "d_ff": 2048, "d_kv": 64, "num_heads": 12,
             "num_layers": 12, "num_decoder_layers": 12,
             "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false)"),
       247577856}};
}

std::vector<ParameterCount> OtherModelCounts() {
  return {{"BERT_base",
           BertConfigText(R"("hidden_size": 768, "intermediate_size": 3072,
               "num_attention_heads": 12, "num_hidden_layers": 12)"),
           109482240 + BertHeads(768)},
          {"BERT_large",
           BertConfigText(R"("hidden_size": 1024, "intermediate_size": 4096,
               "num_attention_heads": 16, "num_hidden_layers": 24)"),
           335141888 + BertHeads(1024)},
          {"ViT_B_16",
           ImageConfigText(
               R"("model_type": "vit", "patch_size": 16, "hidden_size": 768,
              "intermediate_size": 3072, "num_attention_heads": 12,
              "num_hidden_layers": 12)"),
           86567656},
          {"ViT_L_16",
           ImageConfigText(
               R"("model_type": "vit", "patch_size": 16, "hidden_size": 1024,
              "intermediate_size": 4096, "num_attention_heads": 16,
              "num_hidden_layers": 24)"),
           304326632},
          {"ResNet_50",
           ImageConfigText(R"("model_type": "resnet", "depths": [3, 4, 6, 3],
              "embedding_size": 64, "layer_type": "bottleneck",
              "hidden_sizes": [256, 512, 1024, 2048])"),
           25557032}};
}

class ParameterCounts : public ::testing::TestWithParam<ParameterCount> {};
INSTANTIATE_TEST_SUITE_P(Language, ParameterCounts,
                         ::testing::ValuesIn(LanguageModelCounts()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Other, ParameterCounts,
                         ::testing::ValuesIn(OtherModelCounts()),
                         [](const auto& info) { return info.param.name; });

TEST_P(ParameterCounts, AreThePublishedOnes) {
  Graph graph;
  ASSERT_OK(
      BuildModel(graph, "", GetParam().config, {.batch = 1, .length = 8}));
  int64_t parameters = 0;
  for (const VariableInfo& variable : graph.variables()) {
    // The moving averages of batch norms are not trained.
    if (variable.kind == VariableKind::kParameter && variable.trainable) {
      parameters += variable.shape.num_elements();
    }
  }
  EXPECT_EQ(parameters, GetParam().parameters);
}

}  // namespace
}  // namespace mtf::nn
