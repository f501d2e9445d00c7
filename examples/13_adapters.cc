// SPDX-License-Identifier: Apache-2.0
//
// Lesson 13: fine-tune a model by adapters. A small model learns to count by
// one; its weights are saved. Adapters of low rank then teach it to count by
// two, on other devices, while its own weights stay as they are.
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"

namespace mtf {
namespace {

// A GPT-2 of the size of a lesson.
constexpr char kConfig[] = R"({
  "model_type": "gpt2", "vocab_size": 32, "n_positions": 8, "n_embd": 32,
  "n_layer": 2, "n_head": 4, "embd_pdrop": 0, "attn_pdrop": 0,
  "resid_pdrop": 0})";

// Sequences that count by `stride`, as the inputs of a step.
std::map<std::string, HostTensor> Counting(const nn::PublishedModel& model,
                                           int stride, int step) {
  const Shape& shape = model.inputs[0].shape();
  std::vector<int32_t> tokens, targets;
  for (int row = 0; row < shape[0].size; ++row) {
    for (int i = 0; i < shape[1].size; ++i) {
      const int start = 7 * row + 3 * step;
      tokens.push_back((start + stride * i) % 32);
      targets.push_back((start + stride * (i + 1)) % 32);
    }
  }
  return {{"tokens", HostTensor::Of<int32_t>(shape, tokens)},
          {"targets", HostTensor::Of<int32_t>(shape, targets)}};
}

// The elements of the variables of a kind.
int64_t CountElements(const Graph& graph, VariableKind kind) {
  int64_t count = 0;
  for (const VariableInfo& info : graph.variables()) {
    if (info.kind == kind) count += info.shape.num_elements();
  }
  return count;
}

// One job: the model with the weights in the folder `from`, and with adapters
// if `adapters` is not empty, trained for `steps` steps and exported to `to`.
// Returns its loss for counting by two.
absl::StatusOr<double> RunJob(const std::string& mesh,
                              const std::string& layout,
                              const std::string& from,
                              const std::string& adapters, int stride,
                              int steps, const std::string& to) {
  Graph graph;
  nn::PublishedModel model;
  {
    // Each Dense layer that is built in this scope and matches has an adapter.
    std::optional<nn::AdapterScope> scope;
    if (!adapters.empty()) {
      scope.emplace(graph, nn::AdapterOptions{.pattern = adapters, .rank = 4},
                    std::source_location::current());
    }
    MTF_ASSIGN_OR_RETURN(
        model, nn::BuildModel(graph, "", kConfig, {.batch = 8, .length = 7}));
  }
  // What is not trained has no gradient, no state and no communication.
  const Tensor step =
      nn::AdamW({.learning_rate = 0.01})
          .Minimize(model.loss, {.only = adapters.empty() ? "" : "**/adapter"});
  if (steps > 0) {
    train::Say(
        absl::StrFormat("%d parameters, %d numbers of optimizer state",
                        CountElements(graph, VariableKind::kParameter),
                        CountElements(graph, VariableKind::kOptimizerState)));
  }
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Session> session,
                       train::Session::Create(graph, mesh, layout));
  MTF_RETURN_IF_ERROR(session->Initialize());
  if (!from.empty()) {
    MTF_RETURN_IF_ERROR(
        train::LoadWeights(*session, model.weights, from).status());
  }
  for (int i = 0; i < steps; ++i) {
    MTF_RETURN_IF_ERROR(
        session->Run({.feeds = Counting(model, stride, i), .updates = {step}})
            .status());
  }
  // Kernels are written as W + scale * A * B.
  if (!to.empty()) {
    MTF_RETURN_IF_ERROR(
        train::ExportWeights(*session, model.weights, to, {.config = kConfig}));
  }
  MTF_ASSIGN_OR_RETURN(
      const auto values,
      session->Run({.feeds = Counting(model, 2, 1), .fetches = {model.loss}}));
  return values[0].At(0);
}

absl::Status Main() {
  const std::string folder = (std::filesystem::temp_directory_path() /
                              absl::StrCat("mtf_lesson_13_", getpid()))
                                 .string();
  const std::string base = folder + "/base", merged = folder + "/merged";
  MTF_ASSIGN_OR_RETURN(const double before,
                       RunJob("data:2", "data", "", "", 1, 100, base));
  train::Say(
      absl::StrFormat("the base model counts by one: loss %.1f", before));
  MTF_ASSIGN_OR_RETURN(
      const double adapted,
      RunJob("data:2,model:2", "data_model", base, "layer_*", 2, 100, merged));
  train::Say(absl::StrFormat("with adapters: loss %.3f", adapted));
  // Anybody can load the result: it has no adapters any more.
  MTF_ASSIGN_OR_RETURN(const double after,
                       RunJob("model:3", "megatron", merged, "", 2, 0, ""));
  train::Say(absl::StrFormat("merged:        loss %.3f", after));
  std::filesystem::remove_all(folder);
  train::Say(absl::StrFormat("%.3f", adapted) == absl::StrFormat("%.3f", after)
                 ? "The merged model is the adapted one."
                 : "The models differ.");
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Lesson 13: adapters.", &mtf::Main);
}
