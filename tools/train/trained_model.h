// SPDX-License-Identifier: Apache-2.0
//
// The models that the commands mtf train, eval and convert know by name.
#ifndef TOOLS_TRAIN_TRAINED_MODEL_H_
#define TOOLS_TRAIN_TRAINED_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mtf/graph.h"
#include "mtf/tensor.h"
#include "nn/layers/adapter.h"
#include "nn/models/weight_map.h"
#include "train/loop/evaluation.h"

namespace mtf::tools {

// What to build.
struct ModelRequest {
  // One of TrainedModelNames(); empty: the field "model_type" of the config. A
  // preset of nn/models/model_presets.h takes no config.
  std::string name;
  std::string config;  // the text of a config.json; "": its defaults
  int64_t batch = 16;  // sequences
  int64_t length = 64;
  // The tokens of the tokenizer: of the model at least as many. 0: any.
  int64_t vocabulary = 0;
  // Adapters of its Dense layers (nn/layers/adapter.h); none if the pattern is
  // empty.
  nn::AdapterOptions adapters = {};
  // Trainable vectors before the tokens (nn/layers/prompt.h).
  int64_t prompt_length = 0;
};

// What a model predicts of a row of tokens.
enum class Prediction : uint8_t {
  kNextTokens,  // of each token, with those before it
  // Of an encoder-decoder: the tokens after each in the second half of a row,
  // where the encoder reads the first half.
  kSecondHalf,
  kPixels,  // of an image transformer: each token from those before it
};

// A model of tokens in a graph. Its parameters are in kModelScope.
inline constexpr char kModelScope[] = "model";
struct TrainedModel {
  Tensor tokens, targets;  // Inputs i32[batch, length]
  Tensor weights;    // Input f32[batch, length] of evaluations: 0 for padding
  Tensor objective;  // what training minimizes
  Tensor loss;       // the mean over all positions
  // Of the model in evaluation, without dropout: [batch, length, vocab], where
  // the length is that of the predictions.
  Tensor logits;
  Prediction predicts = Prediction::kNextTokens;
  std::vector<train::Metric> metrics;  // loss, perplexity, accuracy
  // The names of published weights; empty if there are none.
  nn::WeightMap published;
  bool has_published = false;
};

std::vector<std::string> TrainedModelNames();

// Builds a model, for training and for evaluation. kNotFound, with the nearest
// name, for an unknown one; kInvalidArgument for a config that is not a
// JSON object or has a wrong field, a config besides a preset, a model that does
// not predict tokens, or a prompt for one that takes none; and the errors of
// the graph.
absl::StatusOr<TrainedModel> BuildTrainedModel(Graph& graph,
                                               const ModelRequest& request);

}  // namespace mtf::tools

#endif  // TOOLS_TRAIN_TRAINED_MODEL_H_
