// SPDX-License-Identifier: Apache-2.0
#include "tools/mtf_flags.h"

#include <iostream>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/read_file.h"
#include "mtf/status.h"
#include "mtf/write_file.h"
#include "planning/machine/units.h"
#include "train/loop/flag_types.h"

namespace mtf::tools {

// A size that may be left out: 0 means the size of the model.
struct SizeOrModel {
  int64_t value = 0;
};
bool AbslParseFlag(absl::string_view text, SizeOrModel* flag,
                   std::string* error) {
  train::Size size;
  if (!AbslParseFlag(text, &size, error)) return false;
  flag->value = size.value;
  return true;
}
std::string AbslUnparseFlag(SizeOrModel flag) {
  return flag.value == 0 ? "" : absl::StrCat(flag.value);
}

}  // namespace mtf::tools

using mtf::tools::SizeOrModel;

ABSL_FLAG(std::string, mesh, "", "the devices as named axes, data:8,model:8");
ABSL_FLAG(std::string, machine, "h100_nvlink_ib",
          "the devices: a built-in machine or a machine file");
ABSL_FLAG(std::string, output, "",
          "writes to this file; empty: to standard output, or for calibrate "
          "to the file of --machine=this_host");
ABSL_FLAG(
    std::string, model, "small",
    "a GPT by name: small, gpt2, gpt2_medium, gpt2_large, gpt2_xl, "
    "gpt3_7b, gpt3_13b, gpt3_175b, megatron_22b, megatron_530b, "
    "megatron_1t; the flags below change its sizes. Or a preset of "
    "Mesh-TensorFlow, with its mesh and layout: mtf_transformer_* such as "
    "mtf_transformer_paper_lm_5, mtf_image_transformer_*. With --config, "
    "the type of the model");
ABSL_FLAG(std::string, config, "",
          "the config.json of a published model, or JSON that begins with {, "
          "in place of the sizes below");
ABSL_FLAG(SizeOrModel, layers, {}, "transformer blocks");
ABSL_FLAG(SizeOrModel, batch, {}, "sequences in a step, on all devices");
ABSL_FLAG(SizeOrModel, length, {}, "tokens in a sequence");
ABSL_FLAG(SizeOrModel, d_model, {}, "width of the residual stream");
ABSL_FLAG(SizeOrModel, heads, {}, "attention heads in a block");
ABSL_FLAG(SizeOrModel, d_kv, {}, "width of a head");
ABSL_FLAG(SizeOrModel, d_ff, {}, "hidden units of a feed-forward layer");
ABSL_FLAG(SizeOrModel, vocab, {}, "size of the vocabulary");
ABSL_FLAG(std::string, dtype, "",
          "dtype of activations: f32, bf16 or f16; empty: the model's");

namespace mtf::tools {
namespace {

struct SizeFlag {
  const char* name;
  absl::Flag<SizeOrModel>* flag;
  int64_t GptSizes::*size;
};
std::vector<SizeFlag> SizeFlags() {
  return {{"layers", &FLAGS_layers, &GptSizes::layers},
          {"batch", &FLAGS_batch, &GptSizes::batch},
          {"length", &FLAGS_length, &GptSizes::length},
          {"d_model", &FLAGS_d_model, &GptSizes::d_model},
          {"heads", &FLAGS_heads, &GptSizes::heads},
          {"d_kv", &FLAGS_d_kv, &GptSizes::d_kv},
          {"d_ff", &FLAGS_d_ff, &GptSizes::d_ff},
          {"vocab", &FLAGS_vocab, &GptSizes::vocab}};
}

}  // namespace

bool AbslParseFlag(absl::string_view text, Bytes* flag, std::string* error) {
  if (text.empty()) {
    flag->value = 0;
    return true;
  }
  const auto bytes = ParseQuantity(text, Quantity::kBytes);
  if (bytes.ok() && *bytes >= 1 && *bytes <= 0x1p60) {
    flag->value = static_cast<int64_t>(*bytes);
    return true;
  }
  *error = "a number of bytes such as 80GiB, 512MiB or 80GB";
  return false;
}

std::string AbslUnparseFlag(Bytes flag) {
  return flag.value == 0 ? "" : absl::StrCat(flag.value);
}

// The comparisons are false for NaN, so NaN is an error.
bool AbslParseFlag(absl::string_view text, Allowance* flag,
                   std::string* error) {
  if (absl::SimpleAtod(text, &flag->seconds) && flag->seconds >= 0 &&
      flag->seconds <= 1e6) {
    return true;
  }
  *error = "a number of seconds from 0, the usual time, to 1e6";
  return false;
}

std::string AbslUnparseFlag(Allowance flag) {
  return absl::StrCat(flag.seconds);
}

std::vector<std::string> ModelFlags() {
  std::vector<std::string> names = {"model", "config", "dtype"};
  for (const SizeFlag& size : SizeFlags()) names.emplace_back(size.name);
  return names;
}

absl::StatusOr<GptSizes> ModelFromFlags() {
  MTF_ASSIGN_OR_RETURN(const GptSizes sizes,
                       FindModel(absl::GetFlag(FLAGS_model)));
  return SizesFromFlags(sizes);
}

absl::StatusOr<GptSizes> SizesFromFlags(GptSizes sizes) {
  for (const SizeFlag& size : SizeFlags()) {
    const int64_t value = absl::GetFlag(*size.flag).value;
    if (value != 0) sizes.*size.size = value;
  }
  const std::string dtype = absl::GetFlag(FLAGS_dtype);
  if (!dtype.empty()) {
    const absl::StatusOr<DType> parsed = ParseDType(dtype);
    if (!parsed.ok() || !IsFloat(*parsed)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--dtype is ", Quoted(dtype), ", not a dtype of activations",
          DetailLine("help", "give f32, bf16 or f16")));
    }
    sizes.dtype = *parsed;
  }
  // Lowering a block takes a millisecond, so this is not a realistic model.
  constexpr int64_t kMostLayers = 10000;
  if (sizes.layers > kMostLayers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--layers is ", sizes.layers, ", more than ", kMostLayers));
  }
  return sizes;
}

std::string ModelText() {
  const std::string config = absl::GetFlag(FLAGS_config);
  std::string text = config.empty() ? absl::GetFlag(FLAGS_model)
                     : absl::StartsWith(config, "{")
                         ? "the model of --config"
                         : absl::StrCat("the model of ", config);
  const char* separator = " with ";
  for (const SizeFlag& size : SizeFlags()) {
    const int64_t value = absl::GetFlag(*size.flag).value;
    if (value == 0) continue;
    absl::StrAppend(&text, separator, size.name, " ", value);
    separator = ", ";
  }
  const std::string dtype = absl::GetFlag(FLAGS_dtype);
  if (!dtype.empty()) absl::StrAppend(&text, separator, "dtype ", dtype);
  return text;
}

std::string FirstModelFlag() {
  for (const std::string& name : ModelFlags()) {
    const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
    if (flag->CurrentValue() != flag->DefaultValue()) return name;
  }
  return "";
}

std::optional<nn::ModelPreset> PresetFromFlags() {
  if (!absl::GetFlag(FLAGS_config).empty()) return std::nullopt;
  auto preset = nn::FindModelPreset(absl::GetFlag(FLAGS_model));
  if (!preset.ok()) return std::nullopt;
  return *std::move(preset);
}

absl::StatusOr<Mesh> MeshFromFlags() {
  std::string mesh = absl::GetFlag(FLAGS_mesh);
  if (mesh.empty()) {
    if (const auto preset = PresetFromFlags()) mesh = preset->mesh;
  }
  if (mesh.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no mesh is given",
                     DetailLine("help", "write --mesh=data:8,model:8, say")));
  }
  return Mesh::Parse(mesh);
}

absl::StatusOr<Machine> MachineFromFlags() {
  return Machine::Load(absl::GetFlag(FLAGS_machine));
}

absl::Status Write(absl::string_view text) {
  const std::string path = absl::GetFlag(FLAGS_output);
  if (path.empty()) {
    std::cout << text << std::flush;
    return absl::OkStatus();
  }
  return WritePlainFile(path, text, "the output",
                        "name a file in a folder that exists with --output");
}

absl::StatusOr<std::string> ReadText(const std::string& path,
                                     absl::string_view what) {
  // A dump of a hundred layers after every pass takes some tens of MiB.
  constexpr int64_t kMostBytes = int64_t{1} << 31;
  return ReadTextFile(path, what, kMostBytes);
}

}  // namespace mtf::tools
