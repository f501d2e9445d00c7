// SPDX-License-Identifier: Apache-2.0
#ifndef NN_MODELS_BUILD_MODEL_H_
#define NN_MODELS_BUILD_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/tensor.h"
#include "nn/models/weight_map.h"

namespace mtf::nn {

// The sizes of a step that a config does not have.
struct ModelSizes {
  int64_t batch = 8;
  int64_t length = 128;       // of tokens; without effect for images
  int64_t target_length = 0;  // of an encoder-decoder's targets; 0: length
  int64_t image_size = 0;     // of a ResNet; 0: 224
  // Trainable vectors before the tokens (nn/layers/prompt.h) of a language
  // model, or of the encoder of T5.
  int64_t prompt_length = 0;
};

// A model in a graph, with its inputs and its loss.
struct PublishedModel {
  std::string type;  // "gpt2"
  // By kind of model:
  //   language model   tokens, targets: i32 [batch, length]
  //   t5               tokens [batch, length], targets [batch, length] of
  //                    target_length; the decoder reads targets shifted
  //   bert             tokens, token_types, targets: i32 [batch, length], where
  //                    targets below 0 have no loss; mask: bool [batch,
  //                    length]; next_sentences: i32 [batch]
  //   mtf_transformer  tokens, targets, as a language model or t5 by its
  //                    "transformer_type"; targets of 0 have no loss
  //   mtf_image_transformer  pixels: i32 [batch, length] of the config
  //   vit, resnet      images: f32 [batch, height, width, channels]; labels:
  //                    i32 [batch]
  std::vector<Tensor> inputs;
  Tensor loss;  // the mean cross-entropy
  // What training minimizes: the loss plus, with experts, the losses that
  // balance their load.
  Tensor objective;
  Tensor logits;
  int64_t classes = 0;  // of targets or labels
  int64_t vocab = 0;    // of tokens; 0 for images
  WeightMap weights;    // empty if none are published
};

// The types of models: "gpt2", "llama", ...
std::vector<std::string> PublishedModelTypes();

// Builds the model that `config`, the text of a config.json, describes. `type`
// is one of PublishedModelTypes(); empty, it is the field "model_type". The
// graph may have other parts; the PrecisionScope and ModeScope of the caller
// apply.
//
//   Graph graph;
//   MTF_ASSIGN_OR_RETURN(const nn::PublishedModel model,
//                        nn::BuildModel(graph, "", config, {.batch = 4}));
//   Tensor step = nn::AdamW().Minimize(model.objective);
//
// kNotFound, with the nearest name, for an unknown type; kInvalidArgument for a
// config that cannot be read; otherwise the graph's first error.
absl::StatusOr<PublishedModel> BuildModel(Graph& graph, absl::string_view type,
                                          absl::string_view config,
                                          const ModelSizes& sizes = {});

}  // namespace mtf::nn

#endif  // NN_MODELS_BUILD_MODEL_H_
