// SPDX-License-Identifier: Apache-2.0
//
// mtf train: trains a model without a program of one's own.
// docs/training.md describes it.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "layouts/text_items.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "tools/train/model_flags.h"
#include "tools/train/optimizer_flags.h"
#include "tools/train/trained_model.h"
#include "train/loop/flags.h"
#include "train/loop/flags_of_results.h"
#include "train/loop/parse_flags.h"
#include "train/loop/run_main.h"
#include "train/loop/text_sampler.h"
#include "train/loop/training_flags.h"
#include "train/tokenizers/tokenizer.h"
#include "train/weights/adapters.h"
#include "train/weights/load_weights.h"

using mtf::train::Rate;
using mtf::train::Size;

ABSL_FLAG(std::string, data, "",
          "what to train on: texts, .jsonl files or .bin files of tokens, by "
          "commas and patterns, or bible; for a classifier a folder of PNG "
          "files by class, files *.bin of CIFAR-10, or pictures and classes of "
          "MNIST");
ABSL_FLAG(
    std::string, init_from, "",
    "published weights to begin with: a file of safetensors, or a folder");
ABSL_FLAG(std::string, init_adapters, "",
          "a folder with adapters of the package PEFT to begin with");
ABSL_FLAG(std::string, prompt, "", "beginning of samples; empty: a line break");
ABSL_FLAG(Size, sample_tokens, 200, "tokens to sample after the prompt");
ABSL_FLAG(Rate, temperature, 0.7, "of samples; 1 is the model itself");

namespace mtf::tools {
namespace {

// The flags that say what is trained, one line.
void SayFlags() {
  std::string line = "flags:";
  for (const auto& [name, value] : train::FlagsOfResults()) {
    absl::StrAppend(&line, " --", name, "=", value);
  }
  train::Say(line);
}

std::vector<Tensor> FetchesOf(const TrainedModel& model) {
  std::vector<Tensor> fetches;
  for (const train::Metric& metric : model.metrics) {
    fetches.push_back(metric.sum);
    fetches.push_back(metric.count);
  }
  return fetches;
}

// An error if there are weights to begin with, but the model takes none, or a
// scale of adapters that has no effect.
absl::Status CheckInitialWeights(const TrainedModel& model) {
  const bool has_adapters = !absl::GetFlag(FLAGS_init_adapters).empty();
  if (has_adapters && train::FlagIsGiven("adapter_alpha")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "both --adapter_alpha and --init_adapters are given, but these "
        "adapters have scales of their own",
        DetailLine("help",
                   "leave --adapter_alpha out, or change \"lora_alpha\" in "
                   "adapter_config.json")));
  }
  if (model.has_published ||
      (absl::GetFlag(FLAGS_init_from).empty() && !has_adapters)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "--init_from or --init_adapters is given, but this model has no "
      "published weights");
}

// The variables that LoadInitialWeights sets.
absl::StatusOr<std::vector<std::string>> VariablesOfInitialWeights(
    const Graph& graph, const TrainedModel& model) {
  const std::string path = absl::GetFlag(FLAGS_init_from);
  if (path.empty()) return std::vector<std::string>();
  return train::LoadedVariables(graph, model.published, path,
                                {.scope = kModelScope});
}

// Loads the weights of --init_from and --init_adapters.
absl::Status LoadInitialWeights(train::Session& session,
                                const TrainedModel& model) {
  const std::string path = absl::GetFlag(FLAGS_init_from),
                    adapters = absl::GetFlag(FLAGS_init_adapters);
  if (!adapters.empty()) {
    MTF_ASSIGN_OR_RETURN(const int64_t loaded,
                         train::LoadAdapters(session, model.published, adapters,
                                             {.scope = kModelScope}));
    train::Say(absl::StrCat("loaded ", loaded, " adapters from ", adapters));
  }
  if (path.empty()) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(const train::LoadedWeights loaded,
                       train::LoadWeights(session, model.published, path,
                                          {.scope = kModelScope}));
  train::Say(
      absl::StrCat("loaded ", loaded.parameters, " parameters from ", path));
  return absl::OkStatus();
}

absl::StatusOr<std::string> Sample(train::Session& session,
                                   const TrainedModel& model,
                                   const train::Tokenizer& tokenizer) {
  const std::string prompt = absl::GetFlag(FLAGS_prompt);
  MTF_ASSIGN_OR_RETURN(
      std::vector<int32_t> ids,
      tokenizer.Encode(prompt.empty() ? absl::string_view("\n") : prompt));
  MTF_ASSIGN_OR_RETURN(
      const std::vector<int32_t> sampled,
      train::SampleTokens(session, model.inputs, model.logits, std::move(ids),
                          {.bytes = absl::GetFlag(FLAGS_sample_tokens),
                           .temperature = absl::GetFlag(FLAGS_temperature),
                           .seed = absl::GetFlag(FLAGS_seed)}));
  return tokenizer.Decode(sampled);
}

// What a step reads: tokens, or pictures.
int64_t ReadPerStep(const TrainedModel& model) {
  return model.predicts == Prediction::kClasses
             ? model.inputs.shape()[0].size
             : model.inputs.shape().num_elements();
}

void SayResult(const train::TrainingResult& result) {
  train::Say(
      absl::StrFormat("loss %.4f (mean of the last tenth of the steps: %.4f)",
                      result.loss, result.smooth_loss));
  if (result.best_step < 0) return;
  train::Say(absl::StrFormat("best evaluation: %.4f after step %d",
                             result.best_value, result.best_step));
}

absl::Status Train() {
  const std::string data = absl::GetFlag(FLAGS_data);
  if (data.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no data to train on",
        DetailLine("help", "give a text as --data=FILE, or --data=bible")));
  }
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Tokenizer> tokenizer,
                       TokenizerFromFlags());
  MTF_RETURN_IF_ERROR(CheckAlphaToResume(absl::GetFlag(FLAGS_checkpoint_dir)));
  Graph graph;
  MTF_ASSIGN_OR_RETURN(const TrainedModel model,
                       ModelFromFlags(graph, tokenizer.get()));
  MTF_RETURN_IF_ERROR(CheckInitialWeights(model));
  const int64_t steps = absl::GetFlag(FLAGS_steps);
  MTF_ASSIGN_OR_RETURN(
      const Tensor update,
      MinimizeFromFlags(model.objective, steps, train::SkipsNonFinite()));
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> loaded,
                       VariablesOfInitialWeights(graph, model));
  MTF_ASSIGN_OR_RETURN(
      const std::unique_ptr<train::Session> session,
      train::StartSession(
          graph,
          {{"train", {.fetches = {model.loss}, .updates = {update}}},
           {"evaluate", {.fetches = FetchesOf(model)}}},
          {.set_by_caller = loaded}));
  SayFlags();
  MTF_RETURN_IF_ERROR(LoadInitialWeights(*session, model));

  MTF_ASSIGN_OR_RETURN(const auto batches,
                       TrainingBatchesFromFlags(data, model, tokenizer.get()));
  train::Training training = {
      .loss = model.loss,
      .update = update,
      .steps = steps,
      .feeds = [&](int64_t step) { return batches->Batch(step); },
      .tokens_per_step = ReadPerStep(model),
      .log_json = absl::GetFlag(FLAGS_log_json)};
  if (!absl::GetFlag(FLAGS_eval_data).empty()) {
    MTF_ASSIGN_OR_RETURN(training.evaluate.evaluation,
                         EvaluationFromFlags(model, tokenizer.get()));
  }
  if (tokenizer != nullptr && model.predicts == Prediction::kNextTokens) {
    training.sample = [&] { return Sample(*session, model, *tokenizer); };
  }
  MTF_ASSIGN_OR_RETURN(const train::TrainingResult result,
                       train::TrainWithFlags(*session, training));
  SayResult(result);
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf::tools

int main(int argc, char** argv) {
  return mtf::train::RunMain(
      argc, argv, "mtf train: trains a model under any mesh and layout.",
      &mtf::tools::Train);
}
