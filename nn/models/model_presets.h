// SPDX-License-Identifier: Apache-2.0
//
// The published presets of tensor2tensor for Mesh-TensorFlow: models with their
// meshes and layouts, as mtf_transformer.py, mtf_image_transformer.py and
// Shazeer et al., 2018, list them.
#ifndef NN_MODELS_MODEL_PRESETS_H_
#define NN_MODELS_MODEL_PRESETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/dtype.h"

namespace mtf::nn {

struct ModelPreset {
  std::string name;    // "mtf_transformer_paper_lm_5"
  std::string type;    // of BuildModel()
  std::string config;  // JSON, for BuildModel()
  int64_t batch = 1;
  int64_t length = 256;
  DType activations = kFloat32;
  // As published: the mesh "batch:16,model:32", which is empty for one device,
  // and the layout "batch:batch, vocab:model, d_ff:model, heads:model".
  std::string mesh, layout;
};

// The names of all presets, those of the reference.
std::vector<std::string> ModelPresetNames();

// The preset `name`, whose model a graph gets by BuildModel:
//
//   MTF_ASSIGN_OR_RETURN(const nn::ModelPreset preset,
//                        nn::FindModelPreset("mtf_transformer_paper_lm_5"));
//   MTF_ASSIGN_OR_RETURN(
//       const nn::PublishedModel model,
//       nn::BuildModel(graph, preset.type, preset.config,
//                      {.batch = preset.batch, .length = preset.length}));
//
// The vocabulary of transformers is that of the paper, 32768. Rules for axes
// that the mesh of a preset does not have are left out. Names of dimensions
// that the reference misspells in layouts, so that they shard nothing there,
// are those that were meant; rules for numbers of blocks are rules for rows,
// columns or the length, and where d_ff has a rule for the axis of the length,
// it is left out. kNotFound, with the nearest name, for an unknown one.
absl::StatusOr<ModelPreset> FindModelPreset(absl::string_view name);

}  // namespace mtf::nn

#endif  // NN_MODELS_MODEL_PRESETS_H_
