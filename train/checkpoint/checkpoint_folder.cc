// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

constexpr absl::string_view kSavingPrefix = ".saving_";
constexpr absl::string_view kRemovingPrefix = ".removing_";

// The step of a folder with the name of a checkpoint.
std::optional<int64_t> StepOfName(absl::string_view name) {
  absl::string_view digits = name;
  int64_t step = 0;
  if (!absl::ConsumePrefix(&digits, "step_") ||
      !absl::SimpleAtoi(digits, &step) || step < 0 ||
      StepFolderName(step) != name) {
    return std::nullopt;
  }
  return step;
}

std::string ParentOf(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == path.npos) return "/";
  const size_t slash = path.rfind('/', end);
  if (slash == path.npos) return ".";
  const size_t parent = path.find_last_not_of('/', slash);
  return parent == path.npos ? "/" : path.substr(0, parent + 1);
}

}  // namespace

std::string StepFolderName(int64_t step) {
  return absl::StrFormat("step_%08d", step);
}
std::string SavingFolderName(int64_t step) {
  return absl::StrCat(kSavingPrefix, StepFolderName(step));
}
std::string ShardFileName(int64_t rank) {
  return absl::StrFormat("shard_%05d.safetensors", rank);
}
std::string PartFileName(int64_t rank) {
  return absl::StrFormat("part_%05d.json", rank);
}

absl::StatusOr<std::vector<int64_t>> ListSteps(FileSystem& files,
                                               const std::string& folder) {
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                       files.List(folder));
  std::vector<int64_t> steps;
  for (const std::string& name : names) {
    if (const std::optional<int64_t> step = StepOfName(name)) {
      steps.push_back(*step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

absl::Status MakeFolders(FileSystem& files, const std::string& folder) {
  absl::Status made = files.MakeFolder(folder);
  if (absl::IsNotFound(made)) {
    MTF_RETURN_IF_ERROR(MakeFolders(files, ParentOf(folder)));
    made = files.MakeFolder(folder);
  }
  if (absl::IsAlreadyExists(made)) return files.List(folder).status();
  MTF_RETURN_IF_ERROR(made);
  return files.SyncFolder(ParentOf(folder));
}

absl::Status RemoveFolder(FileSystem& files, const std::string& folder) {
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                       files.List(folder));
  for (const std::string& name : names) {
    MTF_RETURN_IF_ERROR(files.Remove(PathIn(folder, name)));
  }
  return files.Remove(folder);
}

absl::Status RemoveCheckpoint(FileSystem& files, const std::string& folder,
                              int64_t step) {
  const std::string name = StepFolderName(step);
  const std::string removing =
      PathIn(folder, absl::StrCat(kRemovingPrefix, name));
  MTF_RETURN_IF_ERROR(files.Rename(PathIn(folder, name), removing));
  // Otherwise a crash could leave the name with some of the files.
  MTF_RETURN_IF_ERROR(files.SyncFolder(folder));
  return RemoveFolder(files, removing);
}

absl::Status RemoveLeftovers(FileSystem& files, const std::string& folder) {
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                       files.List(folder));
  for (const std::string& name : names) {
    absl::string_view rest = name;
    const bool ours = absl::ConsumePrefix(&rest, kSavingPrefix) ||
                      absl::ConsumePrefix(&rest, kRemovingPrefix);
    if (!ours || !StepOfName(rest).has_value()) continue;
    MTF_RETURN_IF_ERROR(RemoveFolder(files, PathIn(folder, name)));
  }
  return absl::OkStatus();
}

absl::Status DamagedCheckpoint(const std::string& path, const std::string& file,
                               absl::string_view detail,
                               absl::string_view why) {
  return absl::DataLossError(absl::StrCat(
      "checkpoint ", Quoted(path), " is damaged",
      DetailLine("file", absl::StrCat(Quoted(file), detail.empty() ? "" : ", ",
                                      detail)),
      DetailLine("why", why),
      DetailLine("help",
                 "restore an older checkpoint, by its step or with "
                 ".fall_back (--fall_back)")));
}

absl::StatusOr<Manifest> ReadManifest(FileSystem& files,
                                      const std::string& path,
                                      std::optional<int64_t> step) {
  const absl::StatusOr<std::string> text = ReadWhole(
      files, PathIn(path, kManifestName), Links::kReject, kMostManifestBytes);
  if (absl::IsNotFound(text.status())) {
    if (absl::IsNotFound(files.List(path).status())) {
      return absl::NotFoundError(
          absl::StrCat("there is no checkpoint ", Quoted(path),
                       DetailLine("why",
                                  "its folder does not exist, or was removed "
                                  "while it was opened")));
    }
    return DamagedCheckpoint(path, kManifestName, "", "the file is missing");
  }
  MTF_RETURN_IF_ERROR(text.status());
  absl::StatusOr<Manifest> manifest = ParseManifest(*text, Coverage::kAll);
  if (!manifest.ok()) {
    return DamagedCheckpoint(path, kManifestName, "",
                             manifest.status().message());
  }
  if (step.has_value() && manifest->step != *step) {
    return DamagedCheckpoint(
        path, kManifestName, "",
        absl::StrCat("it is that of step ", manifest->step));
  }
  return manifest;
}

absl::Status AbortedIfReplaced(FileSystem& files, const std::string& path,
                               absl::string_view save_id,
                               const absl::Status& read) {
  if (read.ok()) return read;
  const absl::StatusOr<Manifest> now = ReadManifest(files, path, std::nullopt);
  // A checkpoint is renamed before its files are removed, so that its folder
  // has either all files of one save or no name.
  const bool replaced = now.ok() ? !save_id.empty() && now->save_id != save_id
                                 : absl::IsNotFound(now.status());
  if (!replaced) return read;
  return absl::AbortedError(
      absl::StrCat("checkpoint ", Quoted(path), " was ",
                   now.ok() ? "replaced" : "removed", " while it was read",
                   DetailLine("help",
                              "keep more checkpoints (--keep), or read them "
                              "while no job saves to the folder")));
}

CheckpointInfo InfoOf(const Manifest& manifest, const std::string& path) {
  CheckpointInfo info;
  info.step = manifest.step;
  info.path = path;
  info.save_id = manifest.save_id;
  info.seed = manifest.seed;
  info.mesh = manifest.mesh;
  info.program = manifest.program;
  info.library_version = manifest.library_version;
  info.metric = manifest.metric;
  info.extra = manifest.extra;
  for (const ManifestVariable& variable : manifest.variables) {
    info.bytes += variable.bytes();
    info.variables.push_back(
        {variable.name, variable.kind, variable.dtype, variable.shape});
  }
  return info;
}

}  // namespace mtf::train
