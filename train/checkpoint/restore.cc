// SPDX-License-Identifier: Apache-2.0
//
// RestoreCheckpoint and VerifyCheckpoint.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "layouts/text_items.h"
#include "mtf/exceptions.h"
#include "mtf/status.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checkpoint_reader.h"
#include "train/checkpoint/file_system.h"
#include "train/checkpoint/host_memory.h"
#include "train/checkpoint/saved_variables.h"

namespace mtf::train {
namespace {

// The new values of the shards of the ranks of this process, by rank and index
// in RankVariables::shards. Those of variables that keep their values are
// absent.
using StagedShards = std::map<int64_t, std::map<size_t, HostMemory>>;

// The steps to try, the best first.
absl::StatusOr<std::vector<int64_t>> StepsToTry(FileSystem& files,
                                                const std::string& folder,
                                                const RestoreOptions& options) {
  MTF_ASSIGN_OR_RETURN(std::vector<int64_t> steps, ListSteps(files, folder));
  const std::string listed = absl::StrJoin(steps, ", ");
  std::reverse(steps.begin(), steps.end());
  if (steps.empty()) {
    return absl::NotFoundError(
        absl::StrCat("folder ", Quoted(folder), " has no checkpoint"));
  }
  if (options.step.has_value()) {
    const auto found = std::find(steps.begin(), steps.end(), *options.step);
    if (found == steps.end()) {
      return absl::NotFoundError(
          absl::StrCat("folder ", Quoted(folder), " has no checkpoint of step ",
                       *options.step, DetailLine("steps", listed)));
    }
    steps.erase(steps.begin(), found);
  }
  if (!options.fall_back) steps.resize(1);
  return steps;
}

// As StepsToTry in the process of rank 0, for all processes: others may not see
// a new checkpoint yet.
absl::StatusOr<std::vector<int64_t>> AgreeOnSteps(
    Session& session, FileSystem& files, const std::string& folder,
    const RestoreOptions& options) {
  absl::StatusOr<std::vector<int64_t>> mine = std::vector<int64_t>();
  if (session.is_primary()) mine = StepsToTry(files, folder, options);
  MTF_RETURN_IF_ERROR(session.Agree(mine.status()));
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                       session.GatherText(absl::StrJoin(*mine, ",")));
  std::vector<int64_t> steps;
  for (absl::string_view text : absl::StrSplit(texts[0], ',')) {
    if (!absl::SimpleAtoi(text, &steps.emplace_back())) steps.pop_back();
  }
  return steps;
}

// Variables that a checkpoint lacks keep their values, so those of a damaged
// one before it must not be in them.
bool ReadsInPlace(const RestoreOptions& options) {
  return options.in_place && !options.partial;
}

// Reads the shards of one rank.
class RankRestorer {
 public:
  // `in_place`: sets the variables at once. Otherwise the new values are staged
  // in `values`.
  RankRestorer(RankVariables& rank, CheckpointReader& reader,
               int64_t block_bytes, bool in_place)
      : rank_(rank),
        reader_(reader),
        block_bytes_(block_bytes),
        in_place_(in_place) {}

  // `saved` maps ids of variables to what is restored into them.
  absl::Status Read(const std::map<int, const ManifestVariable*>& saved) {
    const std::vector<VariableShard>& shards = rank_.shards();
    int64_t bytes_copied = 0;
    for (size_t i = 0; i < shards.size(); ++i) {
      const auto found = saved.find(shards[i].variable);
      if (found == saved.end()) continue;
      const VariableShard& shard = shards[i];
      const int64_t bytes =
          shard.ValidShape().num_elements() * DTypeSize(shard.dtype);
      bytes_held += bytes;
      void* place = nullptr;
      if (in_place_) {
        MTF_ASSIGN_OR_RETURN(place, rank_.MutableElements(shard));
      }
      if (place != nullptr) {
        MTF_RETURN_IF_ERROR(ReadShard(shard, *found->second, place));
        continue;
      }
      HostMemory value = AllocateHostMemory(bytes);
      if (value == nullptr) {
        return absl::ResourceExhaustedError(
            absl::StrCat("no memory for the ", bytes, " bytes of variable ",
                         Quoted(shard.name), " on rank ", rank_.rank()));
      }
      MTF_RETURN_IF_ERROR(ReadShard(shard, *found->second, value.get()));
      if (in_place_) {
        MTF_RETURN_IF_ERROR(rank_.WriteElements(shard, value.get()));
        bytes_copied = std::max(bytes_copied, bytes);
      } else {
        values[i] = std::move(value);
      }
    }
    bytes_held += bytes_copied + std::min(block_bytes_, bytes_read);
    return absl::OkStatus();
  }

  std::map<size_t, HostMemory> values;
  int64_t bytes_read = 0, bytes_held = 0;

 private:
  absl::Status ReadShard(const VariableShard& shard,
                         const ManifestVariable& saved, void* to) {
    ElementRanges wanted;
    for (const ShardedDimension& dim : shard.dims) {
      wanted.push_back({dim.offset, dim.valid});
    }
    return reader_.Read(saved, wanted, shard.dtype, to, &bytes_read);
  }

  RankVariables& rank_;
  CheckpointReader& reader_;
  int64_t block_bytes_;
  bool in_place_;
};

// Reads what the ranks of this process need of one checkpoint.
absl::Status Stage(Session& session, FileSystem& files, const std::string& path,
                   int64_t step, const RestoreOptions& options,
                   RestoredCheckpoint& result, StagedShards& staged) {
  MTF_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(files, path, step));
  result.info = InfoOf(manifest, path);
  if (!options.state) {
    std::erase_if(manifest.variables, [](const ManifestVariable& variable) {
      return variable.kind == VariableKind::kState;
    });
  }
  const std::vector<SavedVariable> model =
      SavedVariablesOf(session.graph(), options.state);
  MTF_RETURN_IF_ERROR(
      CompareWithModel(manifest, model, options.partial, &result.notices,
                       options.help_of_other_model == nullptr
                           ? ""
                           : options.help_of_other_model(result.info.extra)));
  std::map<std::string, const ManifestVariable*> by_name;
  for (const ManifestVariable& variable : manifest.variables) {
    by_name[variable.name] = &variable;
  }
  std::map<int, const ManifestVariable*> saved;
  for (const SavedVariable& variable : model) {
    const auto found = by_name.find(variable.name);
    if (found == by_name.end()) continue;
    saved[variable.variable] = found->second;
    if (variable.master >= 0) saved[variable.master] = found->second;
  }
  CheckpointReader reader(files, path, manifest);
  std::mutex mutex;
  return session.OnEachRank([&](RankVariables& rank) -> absl::Status {
    RankRestorer restorer(rank, reader, manifest.block_bytes,
                          ReadsInPlace(options));
    MTF_RETURN_IF_ERROR(restorer.Read(saved));
    const std::lock_guard<std::mutex> lock(mutex);
    result.bytes_read = std::max(result.bytes_read, restorer.bytes_read);
    result.bytes_held = std::max(result.bytes_held, restorer.bytes_held);
    staged[rank.rank()] = std::move(restorer.values);
    return absl::OkStatus();
  });
}

absl::Status WriteStaged(Session& session, StagedShards& staged) {
  return session.OnEachRank([&](RankVariables& rank) -> absl::Status {
    // at() of different keys by different threads.
    for (auto& [index, value] : staged.at(rank.rank())) {
      MTF_RETURN_IF_ERROR(
          rank.WriteElements(rank.shards()[index], value.get()));
      value = nullptr;
    }
    return absl::OkStatus();
  });
}

// Stage of one checkpoint in all processes. kAborted, in all of them, if it was
// removed or replaced while it was read. Collective.
absl::Status StageTogether(Session& session, FileSystem& files,
                           const std::string& path, int64_t step,
                           const RestoreOptions& options,
                           RestoredCheckpoint& result, StagedShards& staged) {
  const absl::Status staged_here = CatchExceptions([&] {
    return Stage(session, files, path, step, options, result, staged);
  });
  MTF_RETURN_IF_ERROR(session.Agree(
      AbortedIfReplaced(files, path, result.info.save_id, staged_here)));
  // Processes that have read before and after it was replaced.
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                       session.GatherText(result.info.save_id));
  if (std::count(ids.begin(), ids.end(), ids[0]) ==
      static_cast<int64_t>(ids.size())) {
    return absl::OkStatus();
  }
  return absl::AbortedError(absl::StrCat("checkpoint ", Quoted(path),
                                         " was replaced while it was read"));
}

// Stages the first of the steps to try that is undamaged. Sets `tried` if there
// is one to try.
absl::StatusOr<RestoredCheckpoint> StageFirst(
    Session& session, FileSystem& files, const std::string& folder,
    const RestoreOptions& options, StagedShards& staged, bool& tried) {
  MTF_ASSIGN_OR_RETURN(const std::vector<int64_t> steps,
                       AgreeOnSteps(session, files, folder, options));
  tried = true;
  std::vector<std::string> skipped;
  for (int64_t step : steps) {
    const std::string path = PathIn(folder, StepFolderName(step));
    RestoredCheckpoint result;
    staged.clear();
    const absl::Status status =
        StageTogether(session, files, path, step, options, result, staged);
    if (absl::IsDataLoss(status) && step != steps.back()) {
      skipped.push_back(absl::StrCat("skipped: ", status.message()));
      continue;
    }
    MTF_RETURN_IF_ERROR(status);
    result.notices.insert(result.notices.begin(), skipped.begin(),
                          skipped.end());
    return result;
  }
  return absl::InternalError("no step of a checkpoint was tried");
}

}  // namespace

absl::StatusOr<RestoredCheckpoint> RestoreCheckpoint(
    Session& session, const std::string& folder,
    const RestoreOptions& options) {
  FileSystem& files =
      options.files == nullptr ? FileSystem::Real() : *options.files;
  StagedShards staged;
  bool tried = false;
  absl::StatusOr<RestoredCheckpoint> result = absl::AbortedError("");
  for (int attempt = 0;
       attempt < kMostReadAttempts && absl::IsAborted(result.status());
       ++attempt) {
    result = StageFirst(session, files, folder, options, staged, tried);
  }
  // Some variables may have been read. All processes get the error.
  if (!result.ok() && tried && ReadsInPlace(options)) session.Uninitialize();
  MTF_RETURN_IF_ERROR(result.status());
  if (result->info.seed != session.seed()) {
    result->notices.push_back(
        absl::StrCat("the checkpoint was saved with seed ", result->info.seed,
                     ", and this run has seed ", session.seed(),
                     ", so its random numbers differ"));
  }
  MTF_RETURN_IF_ERROR(session.Agree(
      CatchExceptions([&] { return WriteStaged(session, staged); })));
  MTF_RETURN_IF_ERROR(session.SetStep(result->info.step));
  return result;
}

absl::Status VerifyCheckpoint(const std::string& path, FileSystem* files) {
  FileSystem& system = files == nullptr ? FileSystem::Real() : *files;
  absl::Status status = absl::AbortedError("");
  for (int attempt = 0; attempt < kMostReadAttempts && absl::IsAborted(status);
       ++attempt) {
    MTF_ASSIGN_OR_RETURN(const Manifest manifest,
                         ReadManifest(system, path, std::nullopt));
    CheckpointReader reader(system, path, manifest);
    status = absl::OkStatus();
    for (const ManifestVariable& variable : manifest.variables) {
      status.Update(reader.Verify(variable));
    }
    status = AbortedIfReplaced(system, path, manifest.save_id, status);
  }
  return status;
}

}  // namespace mtf::train
