// SPDX-License-Identifier: Apache-2.0
//
// Lesson 14: load published weights, and go on under another layout. A model is
// described by a config.json, and its weights are in files of safetensors with
// the names of their publisher. This program has no network, so it publishes a
// small GPT-2 itself: it trains one on one device, exports it, and loads it on
// four.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"

namespace mtf {
namespace {

constexpr char kConfig[] = R"({"model_type": "gpt2", "vocab_size": 30,
  "n_positions": 16, "n_embd": 24, "n_head": 4, "n_layer": 2,
  "embd_pdrop": 0, "attn_pdrop": 0, "resid_pdrop": 0})";

// The tokens of a sequence that repeats itself, and those that follow.
HostTensor Tokens(const Shape& shape, int64_t offset) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    const int64_t at = i % shape[1].size + offset;
    tokens.push_back(static_cast<int32_t>(at * at % 30));
  }
  return HostTensor::Of<int32_t>(shape, tokens);
}

// The model in a graph of its own, as another program would build it.
struct Gpt2Program {
  Graph graph;
  nn::PublishedModel model;
  Tensor step;

  absl::Status Build() {
    MTF_ASSIGN_OR_RETURN(
        model, nn::BuildModel(graph, "", kConfig, {.batch = 4, .length = 16}));
    step = nn::Sgd({.learning_rate = 0.2}).Minimize(model.objective);
    return graph.status();
  }

  // The loss after so many steps.
  absl::StatusOr<double> Train(train::Session& session, int64_t steps) const {
    const Shape& shape = model.inputs[0].shape();
    double loss = 0;
    for (int64_t i = 0; i < steps; ++i) {
      MTF_ASSIGN_OR_RETURN(
          const std::vector<HostTensor> values,
          session.Run({.feeds = {{"tokens", Tokens(shape, 0)},
                                 {"targets", Tokens(shape, 1)}},
                       .fetches = {model.loss},
                       .updates = {step}}));
      MTF_ASSIGN_OR_RETURN(loss, values[0].At(0));
    }
    return loss;
  }
};

absl::Status Main() {
  const std::string folder = (std::filesystem::temp_directory_path() /
                              absl::StrCat("mtf_lesson_14_", getpid()))
                                 .string();
  // What a publisher does.
  Gpt2Program publisher;
  MTF_RETURN_IF_ERROR(publisher.Build());
  MTF_ASSIGN_OR_RETURN(const auto on_one,
                       train::Session::Create(publisher.graph, "", ""));
  MTF_RETURN_IF_ERROR(on_one->Initialize());
  MTF_ASSIGN_OR_RETURN(const double before, publisher.Train(*on_one, 20));
  MTF_RETURN_IF_ERROR(train::ExportWeights(*on_one, publisher.model.weights,
                                           folder, {.config = kConfig}));
  MTF_ASSIGN_OR_RETURN(const double expected, publisher.Train(*on_one, 20));
  train::Say(absl::StrFormat("published with the loss %.4f", before));

  // What a user does, under any layout.
  for (const char* layout : {"megatron", "zero3", "d_ff:model, vocab:data"}) {
    Gpt2Program user;
    MTF_RETURN_IF_ERROR(user.Build());
    MTF_ASSIGN_OR_RETURN(
        const auto session,
        train::Session::Create(user.graph, "data:2,model:2", layout));
    // All parameters are loaded, so none is initialized.
    MTF_ASSIGN_OR_RETURN(
        const std::vector<std::string> loaded,
        train::LoadedVariables(user.graph, user.model.weights, folder));
    MTF_RETURN_IF_ERROR(session->Initialize({.set_by_caller = loaded}));
    MTF_RETURN_IF_ERROR(
        train::LoadWeights(*session, user.model.weights, folder).status());
    MTF_ASSIGN_OR_RETURN(const double loss, user.Train(*session, 20));
    train::Say(absl::StrFormat(
        "20 more steps: loss %.4f, %s  %s", loss,
        std::abs(loss - expected) < 1e-4 ? "as on one" : "different", layout));
  }
  std::filesystem::remove_all(folder);
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(
      argc, argv, "Lesson 14: loads weights and goes on under other layouts.",
      &mtf::Main);
}
