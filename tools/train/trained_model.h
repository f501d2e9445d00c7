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
#include "nn/models/weight_map.h"
#include "tools/train/model_request.h"
#include "train/loop/evaluation.h"

namespace mtf::tools {

// What a model predicts of a row of tokens, or of a picture.
enum class Prediction : uint8_t {
  kNextTokens,  // of each token, with those before it
  // Of an encoder-decoder: the tokens after each in the second half of a row,
  // where the encoder reads the first half.
  kSecondHalf,
  kPixels,        // of an image transformer: each token from those before it
  kMaskedTokens,  // tokens that are hidden, from all others
  kClasses,       // of a picture: its class
};

// A model in a graph. Its parameters are in kModelScope.
inline constexpr char kModelScope[] = "model";
struct TrainedModel {
  // Inputs "tokens" and "targets", i32[batch, length]; of a classifier
  // "pictures" f32[batch, height, width, channels] and "labels" i32[batch].
  Tensor inputs, targets;
  // Input "weights", f32 with the shape of the targets: 0 for padding in
  // evaluations, and for tokens that are not masked.
  Tensor weights;
  Tensor objective;  // what training minimizes
  Tensor loss;       // the mean over all positions
  // Of the model in evaluation, without dropout: [batch, length, vocab], where
  // the length is that of the predictions, or [batch, classes].
  Tensor logits;
  Prediction predicts = Prediction::kNextTokens;
  // Of kMaskedTokens: rows are pairs of sentences, the Inputs "token_types" and
  // "next_sentences" of MaskedRows.
  bool pairs = false;
  std::vector<train::Metric> metrics;  // loss, perplexity, accuracy
  // Of the pixels of a classifier, from 0 to 1: one for each channel, or one
  // for all (PictureOptions).
  std::vector<float> mean, stddev;
  // The names of published weights; empty if there are none.
  nn::WeightMap published;
  bool has_published = false;
};

// Without presets.
std::vector<std::string> TrainedModelNames();

// Builds a model, for training and for evaluation. kNotFound, with the nearest
// name, for an unknown one; kInvalidArgument for a config that is not a
// JSON object or has a wrong field, a config besides a preset, a model that
// does not predict tokens, or a prompt for one that takes none; and the errors
// of the graph.
absl::StatusOr<TrainedModel> BuildTrainedModel(Graph& graph,
                                               const ModelRequest& request);

}  // namespace mtf::tools

#endif  // TOOLS_TRAIN_TRAINED_MODEL_H_
