// SPDX-License-Identifier: Apache-2.0
//
// Published decoder-only transformers by their sizes, for commands that
// estimate the cost of a layout without a program.
#ifndef TOOLS_MODELS_H_
#define TOOLS_MODELS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/host_tensor.h"
#include "planning/search/search_layouts.h"

namespace mtf {

// Sizes of a GPT. Parameters and AdamW's state are f32, activations `dtype`.
struct GptSizes {
  int64_t layers = 2;
  int64_t batch = 16;  // sequences in a step, on all devices together
  int64_t length = 64;
  int64_t d_model = 128;
  int64_t heads = 4;
  int64_t d_kv = 32;
  int64_t d_ff = 512;
  int64_t vocab = 256;
  DType dtype = kFloat32;
};

// The sizes of the model `name`, or kNotFound with the nearest name.
absl::StatusOr<GptSizes> FindModel(absl::string_view name);
std::vector<std::string> ModelNames();

// kNotFound for a model that is none of `names` and no preset
// (nn/models/model_presets.h), with the nearest of them. Presets are too many
// to list.
absl::Status UnknownModel(absl::string_view name,
                          const std::vector<std::string>& names);

// A training step of a GPT: its graph and the targets in it.
struct GptStep {
  std::unique_ptr<Graph> graph;
  Targets targets;
  std::string text;  // "2 layers, a batch of 16 sequences of 64 tokens"

  SearchInput Input() const { return {graph.get(), targets, {}}; }
};

// Builds the step: pre-norm blocks, learned positions, an output layer that
// does not share the embedding, AdamW. Dimensions are named as in
// examples/transformer_lm.cc, so one layout serves both. Returns the graph's
// first error if the sizes are invalid.
absl::StatusOr<GptStep> BuildGpt(const GptSizes& sizes);

// The feeds "tokens" and "targets" of the step, i32[batch, length]: numbers
// spread over the whole vocabulary, so over all of its shards.
std::map<std::string, HostTensor> FeedsOf(const GptSizes& sizes);

}  // namespace mtf

#endif  // TOOLS_MODELS_H_
