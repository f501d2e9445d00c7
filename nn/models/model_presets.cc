// SPDX-License-Identifier: Apache-2.0
#include "nn/models/model_presets.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mtf/status.h"

namespace mtf::nn {
namespace {

// The one layout of all transformers, without rules for axes that the mesh does
// not have.
std::string LayoutOn(absl::string_view mesh) {
  std::vector<std::string> rules;
  if (absl::StrContains(mesh, "batch")) rules.emplace_back("batch:batch");
  if (absl::StrContains(mesh, "model")) {
    rules.emplace_back("vocab:model, d_ff:model, heads:model");
  }
  return absl::StrJoin(rules, ", ");
}

// A preset of mtf_transformer, with dropout and label smoothing, or of
// mtf_transformer2, with a z_loss instead.
struct MeshPreset {
  const char* name;
  const char* transformer_type;  // of MeshTransformerConfig
  int layers;                    // of each stack
  int batch;
  int d_model, heads, d_kv, d_ff;
  bool tied;  // the softmax to the embedding
  DType activations;
  const char* mesh;
  int length = 256;     // for which there are positions
  bool second = false;  // of mtf_transformer2
};

// paper_lm and paper_tr double heads and d_ff from size to size.
constexpr MeshPreset kMeshPresets[] = {
    {"transformer_base", "encdec", 6, 64, 512, 8, 128, 2048, true, kBFloat16,
     "model:8"},
    {"transformer_base_lm", "decoder", 6, 64, 512, 8, 128, 2048, true,
     kBFloat16, "model:8"},
    {"transformer_tiny", "encdec", 2, 8, 128, 8, 128, 512, true, kFloat32,
     "batch:2,model:4"},
    {"transformer_tiny_lm", "decoder", 2, 8, 128, 8, 128, 512, true, kFloat32,
     "batch:2,model:4"},
    {"transformer_single", "encdec", 2, 8, 128, 8, 128, 512, true, kFloat32,
     ""},
    {"transformer_enc_single", "encoder", 2, 8, 128, 8, 128, 512, true,
     kFloat32, ""},
    {"transformer_tiny_8gpu", "encdec", 2, 8, 128, 8, 128, 512, true, kFloat32,
     "model:8"},
    {"transformer_lm_baseline", "decoder", 6, 128, 1024, 4, 256, 4096, false,
     kBFloat16, "batch:8"},
    {"transformer_paper_lm_m1", "decoder", 6, 256, 1024, 4, 256, 4096, false,
     kBFloat16, "batch:32"},
    {"transformer_paper_lm_0", "decoder", 6, 256, 1024, 8, 256, 8192, false,
     kBFloat16, "batch:32"},
    {"transformer_paper_lm_1", "decoder", 6, 256, 1024, 16, 256, 16384, false,
     kBFloat16, "model:4,batch:8"},
    {"transformer_paper_lm_2", "decoder", 6, 256, 1024, 32, 256, 32768, false,
     kBFloat16, "model:4,batch:8"},
    {"transformer_paper_lm_3", "decoder", 6, 256, 1024, 64, 256, 65536, false,
     kBFloat16, "model:8,batch:16"},
    {"transformer_paper_lm_4", "decoder", 6, 256, 1024, 128, 256, 131072, false,
     kBFloat16, "batch:16,model:32"},
    {"transformer_paper_lm_5", "decoder", 6, 256, 1024, 256, 256, 262144, false,
     kBFloat16, "batch:16,model:32"},
    {"transformer_paper_tr_m1", "encdec", 6, 128, 1024, 4, 128, 2048, false,
     kBFloat16, "batch:32"},
    {"transformer_paper_tr_0", "encdec", 6, 128, 1024, 8, 128, 4096, false,
     kBFloat16, "batch:32"},
    {"transformer_paper_tr_0_a32", "encdec", 6, 128, 1024, 8, 128, 4096, false,
     kFloat32, "batch:32"},
    {"transformer_paper_tr_0_nf", "encdec", 6, 128, 1024, 8, 128, 4096, false,
     kBFloat16, "batch:32"},
    {"transformer_paper_tr_1", "encdec", 6, 128, 1024, 16, 128, 8192, false,
     kBFloat16, "model:4,batch:8"},
    {"transformer_paper_tr_2", "encdec", 6, 128, 1024, 32, 128, 16384, false,
     kBFloat16, "model:4,batch:8"},
    {"transformer_paper_tr_3", "encdec", 6, 128, 1024, 64, 128, 32768, false,
     kBFloat16, "model:8,batch:16"},
    {"transformer_paper_tr_4", "encdec", 6, 128, 1024, 128, 128, 65536, false,
     kBFloat16, "model:8,batch:16"},
    {"transformer_paper_tr_0_mesh_8", "encdec", 6, 128, 1024, 8, 128, 4096,
     false, kBFloat16, "batch:8"},
    {"transformer_paper_tr_0_mesh_8_v2", "encdec", 6, 32, 1024, 8, 128, 4096,
     false, kBFloat16, "batch:8"},
    {"transformer_paper_tr_0_mesh_128", "encdec", 6, 512, 1024, 8, 128, 4096,
     false, kBFloat16, "batch:128"},
    {"transformer_paper_tr_0_mesh_512", "encdec", 6, 2048, 1024, 8, 128, 4096,
     false, kBFloat16, "batch:512"},
    {"transformer_paper_tr_4_mesh_16_8", "encdec", 6, 128, 1024, 128, 128,
     65536, false, kBFloat16, "batch:8,model:16"},
    {"transformer_paper_tr_6_mesh_64_8", "encdec", 6, 128, 1024, 512, 128,
     262144, false, kBFloat16, "model:64,batch:8"},
    {"unitransformer_base", "decoder", 6, 4, 1024, 8, 128, 2048, false,
     kBFloat16, "model:8", 1024, true},
    {"unitransformer_tiny", "decoder", 2, 2, 128, 4, 128, 512, false, kBFloat16,
     "", 1024, true},
    {"bitransformer_base", "encdec", 6, 4, 1024, 8, 128, 2048, false, kBFloat16,
     "model:8", 256, true},
    {"bitransformer_tiny", "encdec", 2, 2, 128, 8, 128, 512, false, kBFloat16,
     "", 256, true},
};

ModelPreset PresetOf(const MeshPreset& preset) {
  const bool smooths = absl::string_view(preset.transformer_type) != "decoder";
  const std::string regularization =
      preset.second
          ? R"("attention_dropout": 0, "relu_dropout": 0,
              "layer_prepostprocess_dropout": 0, "label_smoothing": 0,
              "z_loss": 1e-4)"
          : absl::StrCat(R"("label_smoothing": )", smooths ? "0.1" : "0");
  return {.name = absl::StrCat("mtf_", preset.name),
          .type = "mtf_transformer",
          .config = absl::StrCat(
              R"({"model_type": "mtf_transformer", "transformer_type": ")",
              preset.transformer_type, R"(", "vocab_size": 32768, )",
              R"("max_length": )", preset.length, R"(, "num_encoder_layers": )",
              preset.layers, R"(, "d_model": )", preset.d_model,
              R"(, "num_heads": )", preset.heads, R"(, "d_kv": )", preset.d_kv,
              R"(, "d_ff": )", preset.d_ff, ", ", regularization,
              R"(, "shared_embedding_and_softmax_weights": )",
              preset.tied ? "true" : "false", "}"),
          .batch = preset.batch,
          .length = preset.length,
          .activations = preset.activations,
          .mesh = preset.mesh,
          .layout = LayoutOn(preset.mesh)};
}

// A preset of mtf_image_transformer.
struct ImagePreset {
  const char* name;
  int batch, img_len, layers, hidden_size, heads, d_ff;
  const char* attention_type;
  int block;            // block_length, or block_height and block_width
  const char* dropout;  // layer_prepostprocess_dropout
  const char *mesh, *layout;
};

constexpr char kImageParallel[] = "batch:batch, d_ff:model, heads:model";

constexpr ImagePreset kImagePresets[] = {
    {"base", 1, 32, 6, 256, 8, 2048, "local1d", 128, "0.1", "batch:8",
     "batch:batch"},
    {"tiny", 4, 32, 4, 128, 4, 256, "local1d", 32, "0.1", "batch:2",
     "batch:batch"},
    {"single", 1, 32, 1, 32, 2, 256, "local1d", 16, "0.1", "", ""},
    {"base_single", 1, 32, 6, 256, 8, 2048, "local1d", 128, "0.1", "", ""},
    {"tiny_spatial1d", 4, 32, 6, 128, 4, 256, "local1d_spatial", 32, "0.1", "",
     ""},
    {"tiny_spatial2d", 4, 32, 6, 128, 4, 256, "local2d_spatial", 8, "0.1",
     "b1:2,b2:2", "rows:b1, columns:b2"},
    {"base_cifar", 32, 32, 12, 512, 4, 2048, "local1d", 256, "0.3", "batch:8",
     "batch:batch"},
    {"cifar_4x", 128, 32, 12, 512, 4, 2048, "local1d", 256, "0.3", "batch:32",
     "batch:batch"},
    {"cifar_mp_4x", 32, 32, 12, 512, 8, 8192, "local1d", 256, "0.3",
     "model:4,batch:8", kImageParallel},
    {"base_imagenet", 128, 32, 12, 512, 4, 2048, "local1d", 256, "0.1",
     "batch:32", "batch:batch"},
    {"base_imagenet_mp", 32, 32, 12, 512, 8, 8192, "local1d", 256, "0.1",
     "model:4,batch:8", kImageParallel},
    {"base_imagenet_mp128", 8, 128, 4, 512, 8, 4096, "local1d", 128, "0.1",
     "model:8,batch:4", kImageParallel},
    {"base_imagenet_mp_sp", 8, 128, 4, 512, 8, 4096, "local1d_spatial", 128,
     "0.1", "model:8,batch:4", "batch:batch, length:model"},
    {"base_imagenet_mp64", 8, 64, 8, 512, 4, 2048, "local1d", 256, "0.1",
     "model:8,batch:4", kImageParallel},
    {"tiny_8gpu", 4, 32, 4, 128, 4, 256, "local1d", 32, "0.1", "all:8",
     "vocab:all, d_ff:all, heads:all"},
    {"length_sharded", 4, 32, 4, 128, 4, 256, "local1d", 32, "0.1", "all:2",
     "length:all"},
};

ModelPreset PresetOf(const ImagePreset& preset) {
  return {.name = absl::StrCat("mtf_image_transformer_", preset.name),
          .type = "mtf_image_transformer",
          .config = absl::StrCat(
              R"({"model_type": "mtf_image_transformer", "img_len": )",
              preset.img_len, R"(, "num_decoder_layers": )", preset.layers,
              R"(, "hidden_size": )", preset.hidden_size, R"(, "num_heads": )",
              preset.heads, R"(, "d_kv": 64, "d_ff": )", preset.d_ff,
              R"(, "attention_type": ")", preset.attention_type,
              R"(", "block_length": )", preset.block, R"(, "block_height": )",
              preset.block, R"(, "block_width": )", preset.block,
              R"(, "layer_prepostprocess_dropout": )", preset.dropout, "}"),
          .batch = preset.batch,
          .length = int64_t{3} * preset.img_len * preset.img_len,
          .mesh = preset.mesh,
          .layout = preset.layout};
}

std::vector<ModelPreset> AllPresets() {
  std::vector<ModelPreset> all;
  for (const MeshPreset& preset : kMeshPresets) all.push_back(PresetOf(preset));
  for (const ImagePreset& preset : kImagePresets) {
    all.push_back(PresetOf(preset));
  }
  return all;
}

}  // namespace

std::vector<std::string> ModelPresetNames() {
  std::vector<std::string> names;
  for (const ModelPreset& preset : AllPresets()) names.push_back(preset.name);
  return names;
}

absl::StatusOr<ModelPreset> FindModelPreset(absl::string_view name) {
  for (ModelPreset& preset : AllPresets()) {
    if (preset.name == name) return std::move(preset);
  }
  const std::string shown(absl::Utf8SafeCEscape(name).substr(0, 80)),
      nearest = NearestName(name, ModelPresetNames());
  return absl::NotFoundError(absl::StrCat(
      "no preset of a model is called \"", shown, "\"",
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"),
      "\n  presets  ", absl::StrJoin(ModelPresetNames(), ", ")));
}

}  // namespace mtf::nn
