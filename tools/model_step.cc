// SPDX-License-Identifier: Apache-2.0
#include "tools/model_step.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/read_file.h"
#include "mtf/status.h"
#include "nn/models/build_model.h"
#include "nn/optimizers/adam.h"
#include "tools/mtf_flags.h"

namespace mtf::tools {
namespace {

bool IsGiven(const std::string& flag) {
  const absl::CommandLineFlag* found = absl::FindCommandLineFlag(flag);
  return found->CurrentValue() != found->DefaultValue();
}

// The flags that a config or a preset replaces.
absl::Status CheckSizeFlags() {
  const bool has_config = !absl::GetFlag(FLAGS_config).empty();
  for (const std::string& flag : ModelFlags()) {
    if (flag == "model" || flag == "config" || flag == "dtype" ||
        flag == "batch" || flag == "length" || !IsGiven(flag)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "--", flag, " is given, and ",
        has_config ? "--config" : "--model=" + absl::GetFlag(FLAGS_model),
        ", which has the sizes of the model",
        DetailLine("help", absl::StrCat(has_config ? "change the config"
                                                   : "leave it out",
                                        "; --batch and --length are those of "
                                        "a step"))));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ConfigText() {
  const std::string config = absl::GetFlag(FLAGS_config);
  if (absl::StartsWith(config, "{")) return config;
  constexpr int64_t kMostBytes = 1 << 20;
  return ReadTextFile(config, "configuration", kMostBytes);
}

// "a batch of 16 images of 224 x 224".
std::string BatchText(const nn::PublishedModel& model, const GptSizes& sizes) {
  const Tensor input = model.inputs[0];
  const bool reads_text = model.vocab > 0;
  return absl::StrCat("a batch of ",
                      Plural(sizes.batch, reads_text ? "sequence" : "image"),
                      " of ",
                      reads_text ? Plural(sizes.length, "token")
                                 : absl::StrCat(input.dim("height").size, " x ",
                                                input.dim("width").size));
}

// The batch, length and dtype of the flags, or else of the preset, if any.
absl::StatusOr<GptSizes> StepSizes(
    const std::optional<nn::ModelPreset>& preset) {
  GptSizes sizes;
  if (preset) {
    sizes.batch = preset->batch;
    sizes.length = preset->length;
    sizes.dtype = preset->activations;
  }
  return SizesFromFlags(sizes);
}

// --length is for tokens; that of pictures follows from their sizes.
absl::Status CheckLength(const nn::PublishedModel& model,
                         const GptSizes& sizes) {
  if (!IsGiven("length")) return absl::OkStatus();
  const Tensor input = model.inputs[0];
  if (model.vocab > 0 && input.dim("length").size == sizes.length) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--length is ", sizes.length, ", but the model",
      model.vocab > 0
          ? absl::StrCat(" reads pictures of ", input.dim("length").size,
                         " values")
          : absl::StrCat(" reads pictures of ", input.dim("height").size, " x ",
                         input.dim("width").size),
      DetailLine("help", "leave --length out; it is for models of tokens")));
}

absl::StatusOr<GptStep> BuildOfConfig(const std::string& type,
                                      const std::string& config,
                                      const GptSizes& sizes) {
  MTF_RETURN_IF_ERROR(CheckSizeFlags());
  GptStep step;
  step.graph = std::make_unique<Graph>();
  const PrecisionScope precision(*step.graph, {.activations = sizes.dtype});
  MTF_ASSIGN_OR_RETURN(
      const nn::PublishedModel model,
      nn::BuildModel(*step.graph, type, config,
                     {.batch = sizes.batch, .length = sizes.length}));
  MTF_RETURN_IF_ERROR(CheckLength(model, sizes));
  step.targets.fetches = {model.loss};
  step.targets.updates = {nn::AdamW().Minimize(model.objective)};
  step.text = BatchText(model, sizes);
  MTF_RETURN_IF_ERROR(step.graph->status());
  return step;
}

}  // namespace

absl::StatusOr<GptStep> StepFromFlags() {
  const std::optional<nn::ModelPreset> preset = PresetFromFlags();
  if (preset || !absl::GetFlag(FLAGS_config).empty()) {
    MTF_ASSIGN_OR_RETURN(const GptSizes sizes, StepSizes(preset));
    if (preset) return BuildOfConfig(preset->type, preset->config, sizes);
    MTF_ASSIGN_OR_RETURN(const std::string config, ConfigText());
    return BuildOfConfig(IsGiven("model") ? absl::GetFlag(FLAGS_model) : "",
                         config, sizes);
  }
  const std::string name = absl::GetFlag(FLAGS_model);
  const std::vector<std::string> types = nn::PublishedModelTypes();
  if (!FindModel(name).ok() &&
      std::find(types.begin(), types.end(), name) != types.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--model=", name, " needs the sizes of the model",
                     DetailLine("help", "give its config.json as --config")));
  }
  MTF_ASSIGN_OR_RETURN(const GptSizes sizes, ModelFromFlags());
  return BuildGpt(sizes);
}

}  // namespace mtf::tools
