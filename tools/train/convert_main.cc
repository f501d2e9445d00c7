// SPDX-License-Identifier: Apache-2.0
//
// mtf convert: writes the parameters of a checkpoint to one safetensors file,
// or makes a checkpoint of such a file, from which a run begins.
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "tools/train/model_flags.h"
#include "tools/train/trained_model.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/safetensors_set.h"
#include "train/loop/flags.h"
#include "train/loop/flags_of_results.h"
#include "train/loop/parse_flags.h"
#include "train/loop/run_main.h"
#include "train/session/saved_state.h"
#include "train/tokenizers/tokenizer.h"
#include "train/weights/adapters.h"
#include "train/weights/load_weights.h"

ABSL_FLAG(std::string, checkpoint_dir, "",
          "the folder of checkpoints to read, or to write");
ABSL_FLAG(std::string, output, "",
          "writes the parameters of the newest checkpoint to this file");
ABSL_FLAG(
    std::string, published, "",
    "writes the parameters with the names of the published model, and its "
    "config.json, to this new folder");
ABSL_FLAG(bool, merge_adapters, true,
          "whether --published adds adapters to the kernels; "
          "--merge_adapters=false leaves out adapters and prompt");
ABSL_FLAG(std::string, peft, "",
          "writes the adapters alone, in the files of the package PEFT, to "
          "this new folder");
ABSL_FLAG(std::string, input, "",
          "makes a checkpoint of step 0 of this file of safetensors");

namespace mtf::tools {
namespace {

absl::Status WriteSafetensors(const std::string& path,
                              const train::SavedState::Values& values,
                              int64_t step) {
  std::vector<train::SafetensorsSpec> specs;
  std::map<std::string, std::string> metadata = {{"format", "mtf"},
                                                 {"step", absl::StrCat(step)}};
  for (const auto& [name, value] : values) {
    std::vector<int64_t> sizes;
    std::string dims;
    for (const Dimension& dim : value.shape().dims()) {
      sizes.push_back(dim.size);
      absl::StrAppend(&dims, dims.empty() ? "" : " ", dim.name);
    }
    specs.push_back({name, value.dtype(), sizes});
    metadata[absl::StrCat("dimensions/", name)] = dims;
  }
  MTF_ASSIGN_OR_RETURN(const auto writer,
                       train::SafetensorsWriter::Create(path, specs, metadata));
  for (const auto& [name, value] : values) {
    MTF_RETURN_IF_ERROR(writer->Write(name, value));
  }
  return writer->Finish();
}

// What WriteParameters writes: for --output, --published and --peft.
enum class Written { kVariables, kPublished, kAdapters };

// Writes the folder of --published or --peft.
absl::Status WritePublished(train::Session& session, const TrainedModel& model,
                            const std::string& path, Written written,
                            int64_t step) {
  if (!model.has_published) {
    return absl::InvalidArgumentError(
        "--published or --peft is given, but this model has no published "
        "names");
  }
  if (written == Written::kAdapters) {
    MTF_RETURN_IF_ERROR(train::ExportAdapters(session, model.published, path,
                                              {.scope = kModelScope}));
  } else {
    MTF_ASSIGN_OR_RETURN(const std::string config, PublishedConfigFromFlags());
    MTF_RETURN_IF_ERROR(train::ExportWeights(
        session, model.published, path,
        {.scope = kModelScope,
         .config = config,
         .merge_adapters = absl::GetFlag(FLAGS_merge_adapters)}));
  }
  train::Say(absl::StrCat("wrote the ",
                          written == Written::kAdapters ? "adapters" : "model",
                          " of step ", step, " to ", path));
  return absl::OkStatus();
}

absl::Status WriteParameters(const std::string& folder, const std::string& path,
                             Written written) {
  MTF_RETURN_IF_ERROR(TakeSavedFlags(folder));
  Graph graph;
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Tokenizer> tokenizer,
                       TokenizerFromFlags());
  MTF_ASSIGN_OR_RETURN(const TrainedModel model,
                       ModelFromFlags(graph, tokenizer.get()));
  const train::SavedState state(graph);
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Session> session,
                       train::StartSession(graph, {.fetches = {model.loss}}));
  MTF_ASSIGN_OR_RETURN(
      const train::RestoredCheckpoint restored,
      train::RestoreCheckpoint(*session, folder, {.partial = true}));
  MTF_RETURN_IF_ERROR(CheckRestored(graph, restored.info));
  if (written != Written::kVariables) {
    return WritePublished(*session, model, path, written, restored.info.step);
  }
  MTF_ASSIGN_OR_RETURN(const train::SavedState::Values values,
                       state.Save(*session));
  absl::Status status;
  if (session->is_primary()) {
    status = WriteSafetensors(path, values, restored.info.step);
  }
  MTF_RETURN_IF_ERROR(session->Agree(status));
  train::Say(absl::StrCat("wrote ",
                          Plural(static_cast<int64_t>(values.size()), "tensor"),
                          " of step ", restored.info.step, " to ", path));
  return absl::OkStatus();
}

// The tensor `from` of a file with the dimensions of a variable.
absl::StatusOr<HostTensor> WithShape(const HostTensor& from,
                                     const VariableInfo& variable) {
  bool same = from.shape().rank() == variable.shape.rank();
  for (int i = 0; same && i < from.shape().rank(); ++i) {
    same = from.shape()[i].size == variable.shape[i].size;
  }
  if (!same) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the tensor ", Quoted(variable.name), " is ", from.shape().ToString(),
        " in the file, but ", variable.shape.ToString(), " in the model",
        DetailLine("help", "give the --model and --config of the file")));
  }
  HostTensor to(variable.shape, from.dtype());
  std::memcpy(to.data(), from.data(), from.num_bytes());
  return to;
}

absl::Status ReadFile(const std::string& path, const std::string& folder) {
  Graph graph;
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Tokenizer> tokenizer,
                       TokenizerFromFlags());
  MTF_ASSIGN_OR_RETURN(const TrainedModel model,
                       ModelFromFlags(graph, tokenizer.get()));
  const train::SavedState state(graph);
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Session> session,
                       train::StartSession(graph, {.fetches = {model.loss}}));
  MTF_ASSIGN_OR_RETURN(const auto file, train::SafetensorsSet::Open(path));
  train::SavedState::Values values;
  for (const VariableInfo& variable : graph.variables()) {
    if (variable.master_of >= 0) continue;
    MTF_ASSIGN_OR_RETURN(const HostTensor value, file->Read(variable.name));
    MTF_ASSIGN_OR_RETURN(values[variable.name], WithShape(value, variable));
  }
  MTF_RETURN_IF_ERROR(state.Load(*session, values));
  MTF_ASSIGN_OR_RETURN(const auto checkpointer,
                       train::Checkpointer::Open(*session, {.folder = folder}));
  train::CheckpointMetadata metadata;
  for (const auto& [name, value] : train::FlagsOfResults()) {
    metadata.extra[absl::StrCat("flags/", name)] = value;
  }
  MTF_RETURN_IF_ERROR(checkpointer->Save(metadata));
  MTF_RETURN_IF_ERROR(checkpointer->Wait());
  train::Say(absl::StrCat("made a checkpoint of step 0 in ", folder));
  return absl::OkStatus();
}

absl::Status Convert() {
  const std::string folder = absl::GetFlag(FLAGS_checkpoint_dir),
                    output = absl::GetFlag(FLAGS_output),
                    published = absl::GetFlag(FLAGS_published),
                    peft = absl::GetFlag(FLAGS_peft),
                    input = absl::GetFlag(FLAGS_input);
  const int given =
      static_cast<int>(!output.empty()) + static_cast<int>(!published.empty()) +
      static_cast<int>(!peft.empty()) + static_cast<int>(!input.empty());
  if (folder.empty() || given != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mtf convert needs --checkpoint_dir, and one of --output, --published, "
        "--peft and --input",
        DetailLine("help",
                   "mtf convert --checkpoint_dir=run --output=a.safetensors")));
  }
  if (train::FlagIsGiven("merge_adapters") && published.empty()) {
    return absl::InvalidArgumentError(
        "--merge_adapters is given, but not --published");
  }
  if (!input.empty()) return ReadFile(input, folder);
  if (!output.empty()) {
    return WriteParameters(folder, output, Written::kVariables);
  }
  return published.empty()
             ? WriteParameters(folder, peft, Written::kAdapters)
             : WriteParameters(folder, published, Written::kPublished);
}

}  // namespace
}  // namespace mtf::tools

int main(int argc, char** argv) {
  return mtf::train::RunMain(
      argc, argv,
      "mtf convert: a checkpoint to one file of safetensors, and back.",
      &mtf::tools::Convert);
}
