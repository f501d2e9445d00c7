// SPDX-License-Identifier: Apache-2.0
#include "tools/train/model_flags.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "backends/communicators/launcher.h"
#include "layouts/mesh.h"
#include "layouts/text_items.h"
#include "mtf/read_file.h"
#include "mtf/status.h"
#include "nlohmann/json.hpp"
#include "nn/models/config_fields.h"
#include "nn/models/model_presets.h"
#include "tools/train/picture_data.h"
#include "tools/train/token_data.h"
#include "train/checkpoint/checkpoint.h"
#include "train/data/random_windows.h"
#include "train/loop/flag_types.h"
#include "train/loop/flags.h"
#include "train/loop/parse_flags.h"
#include "train/loop/run_main.h"
#include "train/tokenizers/open_tokenizer.h"

using mtf::train::Count;
using mtf::train::Fraction;
using mtf::train::Size;

// Of train/loop/flags.cc.
ABSL_DECLARE_FLAG(std::string, mesh_shape);
ABSL_DECLARE_FLAG(std::string, layout);

ABSL_FLAG(
    std::string, model, "",
    "the model by name: transformer, gpt2, llama, mistral, mixtral, t5, bert, "
    "vit, resnet, mtf_transformer or mtf_image_transformer, with --config; or "
    "with the sizes of a publication, such as gpt2_medium or "
    "mtf_transformer_paper_lm_0; empty: that of the config, or transformer");
ABSL_FLAG(
    std::string, config, "",
    "the config.json of the model, or JSON that begins with {; empty: its "
    "defaults");
ABSL_FLAG(std::string, tokenizer, "bytes",
          "how text becomes tokens: bytes, the folder or file of a tokenizer, "
          "or none for files of tokens");
ABSL_FLAG(Size, batch, 16,
          "sequences or pictures in a step; of a model mtf_* that is not "
          "given: its own");
ABSL_FLAG(Size, length, 64,
          "tokens in a sequence; of a model mtf_* that is not given: its own");
ABSL_FLAG(bool, next_sentence, false,
          "BERT also learns whether the second half of a row follows the "
          "first; in half of the rows it does not");
ABSL_FLAG(Count, image_size, 0,
          "height and width of the pictures of a classifier; 0: those of its "
          "config, and 224 of a ResNet");
ABSL_FLAG(std::string, adapters, "",
          "adapters of low rank (LoRA) for the Dense layers that match this "
          "pattern, such as '**/attention'; empty: none");
ABSL_FLAG(Size, adapter_rank, 8, "the rank of --adapters");
ABSL_FLAG(double, adapter_alpha, 16,
          "the scale of --adapters is this number divided by their rank");
ABSL_FLAG(Fraction, adapter_dropout, 0,
          "the rate at which inputs of --adapters are dropped in training");
ABSL_FLAG(Count, prompt_length, 0,
          "trainable vectors before the tokens of each sequence");
ABSL_FLAG(std::string, eval_data, "",
          "held-out data: texts, .bin files of tokens, or pictures");
ABSL_FLAG(std::string, text_field, "text",
          "the field of the lines of .jsonl files that has the text");
ABSL_FLAG(bool, skip_bad_records, false,
          "leaves out lines of .jsonl files without a text, and says which; "
          "otherwise the first is an error");
ABSL_FLAG(Count, eval_batches, 0,
          "batches of the held-out data to evaluate on; 0: all of it");

namespace mtf::tools {
namespace {

// The flags that TakeSavedFlags set.
std::set<std::string>& SavedFlags() {
  static std::set<std::string>& names = *new std::set<std::string>();
  return names;
}

// --batch, --length and --precision are those of a preset unless they are given
// or saved. Sets the flags, so that a checkpoint has what it was trained with.
void TakeStepOf(const nn::ModelPreset& preset) {
  const auto is_chosen = [](const char* flag) {
    return train::FlagIsGiven(flag) || SavedFlags().contains(flag);
  };
  if (!is_chosen("batch")) absl::SetFlag(&FLAGS_batch, Size{preset.batch});
  if (!is_chosen("length")) absl::SetFlag(&FLAGS_length, Size{preset.length});
  if (is_chosen("precision") || preset.activations == kFloat32) return;
  absl::SetFlag(&FLAGS_precision, Precision{.activations = preset.activations});
}

// The text of --config.
absl::StatusOr<std::string> ConfigFromFlags() {
  const std::string config = absl::GetFlag(FLAGS_config);
  if (config.empty() || absl::StartsWith(config, "{")) return config;
  constexpr int64_t kMostBytes = 1 << 20;
  return ReadTextFile(config, "configuration", kMostBytes);
}

// Makes --config the text of the config, so that a checkpoint has the config
// that it was trained with, whatever becomes of the file.
void KeepConfig(const std::string& text) {
  const auto config =
      nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return;  // BuildTrainedModel says what is wrong
  absl::SetFlag(&FLAGS_config, config.dump());
}

absl::Status CheckAdapterFlags() {
  if (!absl::GetFlag(FLAGS_adapters).empty()) return absl::OkStatus();
  for (const char* flag :
       {"adapter_rank", "adapter_alpha", "adapter_dropout"}) {
    if (!train::FlagIsGiven(flag)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--", flag, " is given, but not --adapters",
        DetailLine("help", "give --adapters='**/attention', or '**'")));
  }
  return absl::OkStatus();
}

// Sets the mesh and the layout to those of a preset, if there are as many ranks
// and no flag says otherwise.
void TakeLayoutOf(const nn::ModelPreset& preset) {
  for (const char* flag : {"mesh_shape", "layout", "layout_file", "search"}) {
    if (train::FlagIsGiven(flag)) return;
  }
  const int ranks = DetectLauncher().size;
  if (ranks == 1) return;  // then the mesh says how many there are
  const absl::StatusOr<Mesh> mesh = Mesh::Parse(preset.mesh);
  if (!mesh.ok() || mesh->num_devices() != ranks) return;
  absl::SetFlag(&FLAGS_mesh_shape, preset.mesh);
  absl::SetFlag(&FLAGS_layout, preset.layout);
  train::Say(absl::StrCat("note: mesh ", preset.mesh, " and layout ",
                          preset.layout, " are those of ", preset.name));
}

// Flags of other models.
absl::Status CheckModelFlags(const TrainedModel& model) {
  if (absl::GetFlag(FLAGS_next_sentence) && !model.pairs) {
    return absl::InvalidArgumentError(
        absl::StrCat("--next_sentence is given, but only BERT predicts it",
                     DetailLine("help", "leave it out, or give --model=bert")));
  }
  const bool pictures = model.predicts == Prediction::kClasses;
  const char* const flag = pictures ? "length" : "image_size";
  if (!train::FlagIsGiven(flag)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, " is given, but the model reads ",
      pictures ? "pictures" : "tokens", DetailLine("help", "leave it out")));
}

// The tokens of `names`, as OpenTokenData (token_data.h) with --text_field and
// --skip_bad_records, for `model`.
absl::StatusOr<std::shared_ptr<const train::TokenStream>> TokensFromFlags(
    const std::string& names, const TrainedModel& model,
    const train::Tokenizer* tokenizer) {
  return OpenTokenData(
      names, model.logits.shape().dims().back().size,
      {.tokenizer = tokenizer,
       .text_field = absl::GetFlag(FLAGS_text_field),
       .skip_bad_records = absl::GetFlag(FLAGS_skip_bad_records),
       .on_notice =
           [](const std::string& notice) {
             train::Say(absl::StrCat("note: ", notice));
           },
       .separates = model.predicts != Prediction::kPixels});
}

// The batches of an evaluation.
absl::StatusOr<std::shared_ptr<const train::BatchSource>> HeldOutBatches(
    const std::string& names, const TrainedModel& model,
    const train::Tokenizer* tokenizer) {
  if (model.predicts == Prediction::kClasses) {
    return HeldOutPictures(names, model);
  }
  MTF_ASSIGN_OR_RETURN(auto stream, TokensFromFlags(names, model, tokenizer));
  const Dimension &batch = model.inputs.shape()[0],
                  &length = model.inputs.shape()[1];
  if (model.predicts == Prediction::kPixels) {
    return HeldOutPicturesOfTokens(std::move(stream), batch, length);
  }
  if (model.predicts == Prediction::kMaskedTokens) {
    return MaskedWindows(
        std::move(stream), batch, length,
        {.tokenizer = tokenizer, .pairs = model.pairs, .once = true});
  }
  return HeldOutWindows(std::move(stream), batch, length);
}

// The newest undamaged checkpoint, or null.
const train::CheckpointInfo* Newest(
    const std::vector<train::CheckpointInfo>& all) {
  const auto newest =
      std::find_if(all.rbegin(), all.rend(),
                   [](const auto& info) { return info.status.ok(); });
  return newest == all.rend() ? nullptr : &*newest;
}

// The scales of adapters are restored, so that another alpha has no effect.
absl::Status CheckAlpha(const train::CheckpointInfo& saved) {
  if (!saved.extra.contains("flags/adapters")) return absl::OkStatus();
  const absl::CommandLineFlag& flag =
      *absl::FindCommandLineFlag("adapter_alpha");
  const auto found = saved.extra.find("flags/adapter_alpha");
  const std::string before =
      found == saved.extra.end() ? flag.DefaultValue() : found->second;
  if (before == flag.CurrentValue()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--adapter_alpha is ", flag.CurrentValue(), ", but the adapters of ",
      Quoted(saved.path), " were trained with ", before,
      DetailLine("help", absl::StrCat("give --adapter_alpha=", before,
                                      ", or another --checkpoint_dir"))));
}

}  // namespace

absl::StatusOr<std::string> PublishedConfigFromFlags() {
  MTF_ASSIGN_OR_RETURN(const std::string config, ConfigFromFlags());
  const std::string name = absl::GetFlag(FLAGS_model);
  if (name.empty()) return config;
  return nn::ConfigWithType(config, name);
}

absl::StatusOr<std::unique_ptr<train::Tokenizer>> TokenizerFromFlags() {
  const std::string tokenizer = absl::GetFlag(FLAGS_tokenizer);
  if (tokenizer == "none") return nullptr;
  return train::OpenTokenizer(tokenizer);
}

absl::StatusOr<TrainedModel> ModelFromFlags(Graph& graph,
                                            const train::Tokenizer* tokenizer) {
  MTF_RETURN_IF_ERROR(CheckAdapterFlags());
  MTF_ASSIGN_OR_RETURN(const std::string config, ConfigFromFlags());
  KeepConfig(config);
  const std::string name = absl::GetFlag(FLAGS_model);
  if (const auto preset = nn::FindModelPreset(name); preset.ok()) {
    TakeStepOf(*preset);
    TakeLayoutOf(*preset);
  }
  const PrecisionScope precision(graph, absl::GetFlag(FLAGS_precision));
  MTF_ASSIGN_OR_RETURN(
      TrainedModel model,
      BuildTrainedModel(
          graph, {.name = name,
                  .config = config,
                  .batch = absl::GetFlag(FLAGS_batch),
                  .length = absl::GetFlag(FLAGS_length),
                  .vocabulary =
                      tokenizer == nullptr ? 0 : tokenizer->vocabulary_size(),
                  .next_sentence = absl::GetFlag(FLAGS_next_sentence),
                  .image_size = absl::GetFlag(FLAGS_image_size),
                  .adapters = {.pattern = absl::GetFlag(FLAGS_adapters),
                               .rank = absl::GetFlag(FLAGS_adapter_rank),
                               .alpha = absl::GetFlag(FLAGS_adapter_alpha),
                               .dropout = absl::GetFlag(FLAGS_adapter_dropout)},
                  .prompt_length = absl::GetFlag(FLAGS_prompt_length)}));
  MTF_RETURN_IF_ERROR(CheckModelFlags(model));
  return model;
}

absl::StatusOr<std::shared_ptr<const train::BatchSource>>
TrainingBatchesFromFlags(const std::string& names, const TrainedModel& model,
                         const train::Tokenizer* tokenizer) {
  const uint32_t seed = absl::GetFlag(FLAGS_seed);
  if (model.predicts == Prediction::kClasses) {
    MTF_RETURN_IF_ERROR(
        CheckSameClasses(names, absl::GetFlag(FLAGS_eval_data)));
    return TrainingPictures(names, model, seed);
  }
  MTF_ASSIGN_OR_RETURN(auto stream, TokensFromFlags(names, model, tokenizer));
  const Dimension &batch = model.inputs.shape()[0],
                  &length = model.inputs.shape()[1];
  if (model.predicts == Prediction::kPixels) {
    return PicturesOfTokens(std::move(stream), batch, length, seed);
  }
  if (model.predicts == Prediction::kMaskedTokens) {
    return MaskedWindows(
        std::move(stream), batch, length,
        {.tokenizer = tokenizer, .pairs = model.pairs, .seed = seed});
  }
  return train::RandomWindows::Create(std::move(stream), batch, length, seed);
}

absl::StatusOr<train::Evaluation> EvaluationFromFlags(
    const TrainedModel& model, const train::Tokenizer* tokenizer) {
  const std::string names = absl::GetFlag(FLAGS_eval_data);
  if (names.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no held-out data to evaluate on",
        DetailLine("help",
                   "give a text, .bin files or pictures as --eval_data")));
  }
  MTF_ASSIGN_OR_RETURN(const auto batches,
                       HeldOutBatches(names, model, tokenizer));
  int64_t number = batches->batches_per_epoch();
  const int64_t most = absl::GetFlag(FLAGS_eval_batches);
  if (most > 0) number = std::min(number, most);
  return train::Evaluation{
      .metrics = model.metrics,
      .batches = number,
      .feeds = [batches](int64_t i) { return batches->Batch(i); }};
}

absl::Status TakeSavedFlags(const std::string& folder) {
  MTF_ASSIGN_OR_RETURN(const std::vector<train::CheckpointInfo> all,
                       train::Checkpointer::List(folder));
  const train::CheckpointInfo* const newest = Newest(all);
  if (newest == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("there is no checkpoint in ", Quoted(folder)));
  }
  if (train::FlagIsGiven("adapter_alpha")) {
    MTF_RETURN_IF_ERROR(CheckAlpha(*newest));
  }
  for (const auto& [key, value] : newest->extra) {
    absl::string_view name = key;
    if (!absl::ConsumePrefix(&name, "flags/") || train::FlagIsGiven(name)) {
      continue;
    }
    absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
    std::string error;
    // Flags of training alone, such as the learning rate, are not needed here.
    if (flag == nullptr) continue;
    if (flag->ParseFrom(value, &error)) {
      SavedFlags().emplace(name);
      continue;
    }
    return absl::DataLossError(absl::StrCat(
        "the checkpoint ", Quoted(newest->path), " was saved with --", name,
        "=", Quoted(value), ", which is not valid: ", error,
        DetailLine("help",
                   absl::StrCat("give --", name, " on the command line"))));
  }
  return absl::OkStatus();
}

absl::Status CheckAlphaToResume(const std::string& folder) {
  if (folder.empty() || absl::GetFlag(FLAGS_adapters).empty()) {
    return absl::OkStatus();
  }
  const auto all = train::Checkpointer::List(folder);
  if (absl::IsNotFound(all.status())) return absl::OkStatus();
  MTF_RETURN_IF_ERROR(all.status());
  const train::CheckpointInfo* const newest = Newest(*all);
  return newest == nullptr ? absl::OkStatus() : CheckAlpha(*newest);
}

absl::Status CheckRestored(const Graph& graph,
                           const train::CheckpointInfo& saved) {
  std::set<std::string> names;
  for (const auto& variable : saved.variables) names.insert(variable.name);
  for (const VariableInfo& variable : graph.variables()) {
    if (names.contains(variable.name) || variable.master_of >= 0) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the checkpoint ", Quoted(saved.path), " lacks the parameter ",
        Quoted(variable.name),
        DetailLine("help", "give the --model and --config that were trained")));
  }
  return absl::OkStatus();
}

}  // namespace mtf::tools
