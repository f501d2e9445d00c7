// SPDX-License-Identifier: Apache-2.0
//
// What a model to train is built from, and checks that several kinds share.
#ifndef TOOLS_TRAIN_MODEL_REQUEST_H_
#define TOOLS_TRAIN_MODEL_REQUEST_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "nn/layers/adapter.h"

namespace mtf::tools {

// What to build.
struct ModelRequest {
  // One of TrainedModelNames(), or a preset of nn/models/model_presets.h, which
  // takes no config; empty: the field "model_type" of the config.
  std::string name;
  std::string config;  // the text of a config.json; "": its defaults
  int64_t batch = 16;  // sequences, or pictures
  int64_t length = 64;
  // The tokens of the tokenizer: of the model at least as many. 0: any.
  int64_t vocabulary = 0;
  // BERT learns to predict the next sentence, too.
  bool next_sentence = false;
  // Height and width of the pictures of a classifier. 0: those of its config,
  // or else 224.
  int64_t image_size = 0;
  // Adapters of its Dense layers (nn/layers/adapter.h); none if the pattern is
  // empty.
  nn::AdapterOptions adapters = {};
  // Trainable vectors before the tokens (nn/layers/prompt.h).
  int64_t prompt_length = 0;
};

// kInvalidArgument if the request has a prompt.
absl::Status CheckNoPrompt(const ModelRequest& request);

// kInvalidArgument if a model with `vocabulary` tokens, the field `field` of
// its config, has fewer than the tokenizer, of whose tokens the model need not
// know the last `unused`.
absl::Status CheckVocabulary(const ModelRequest& request, int64_t vocabulary,
                             int64_t unused = 0,
                             const char* field = "vocab_size");

}  // namespace mtf::tools

#endif  // TOOLS_TRAIN_MODEL_REQUEST_H_
