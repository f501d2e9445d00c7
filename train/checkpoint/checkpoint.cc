// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/checkpoint.h"

#include <cerrno>  // program_invocation_short_name
#include <cmath>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/exceptions.h"
#include "mtf/status.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checkpoint_writer.h"
#include "train/checkpoint/file_system.h"
#include "train/checkpoint/retention.h"
#include "train/checkpoint/saved_variables.h"

namespace mtf::train {

struct Checkpointer::State {
  Session* session = nullptr;
  CheckpointOptions options;
  FileSystem* files = nullptr;
  std::vector<SavedVariable> variables;
  // Only in the process of rank 0. The writer uses `retention` while it runs.
  std::unique_ptr<FileLock> lock;
  std::unique_ptr<Retention> retention;
  int64_t saving_step = -1;
  std::unique_ptr<CheckpointWriter> writer;  // of the last Save; uses the above

  absl::Status TakeFolder();
  absl::Status BeginFolder(int64_t step);
  absl::Status CheckMetric(const std::optional<double>& metric) const;
  absl::StatusOr<std::string> ShareSaveId() const;
  Manifest Describe(const CheckpointMetadata& metadata) const;
  absl::StatusOr<std::vector<RankPart>> CopyParts() const;
};

namespace {

absl::Status CheckCheckpointOptions(const CheckpointOptions& options) {
  if (options.folder.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no folder for checkpoints is named",
                     DetailLine("help", "set CheckpointOptions::folder")));
  }
  if (options.keep < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "keep is ", options.keep, "; it is the number of checkpoints to keep",
        DetailLine("help", "0 keeps all")));
  }
  if (!(options.commit_timeout > 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "commit_timeout is ", options.commit_timeout, ", not above 0"));
  }
  if (options.block_bytes < 8 || options.block_bytes > 1 << 30 ||
      options.block_bytes % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("block_bytes is ", options.block_bytes,
                     ", not a multiple of 8 up to 2^30"));
  }
  return absl::OkStatus();
}

ElementRanges RangesOf(const VariableShard& shard) {
  ElementRanges ranges;
  for (const ShardedDimension& dim : shard.dims) {
    ranges.push_back({dim.offset, dim.valid});
  }
  return ranges;
}

absl::Status NoMemoryToCopy(const std::string& variable, int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for a copy of the ", bytes, " bytes of variable ",
                   Quoted(variable)));
}

absl::Status NotSaved(int64_t step, const absl::Status& why) {
  return absl::Status(why.code(),
                      absl::StrCat("the checkpoint of step ", step,
                                   " was not saved: ", why.message()));
}

}  // namespace

// Locks the folder for this job and cleans it.
absl::Status Checkpointer::State::TakeFolder() {
  MTF_RETURN_IF_ERROR(MakeFolders(*files, options.folder));
  absl::StatusOr<std::unique_ptr<FileLock>> locked =
      files->Lock(PathIn(options.folder, kLockName));
  if (absl::IsAlreadyExists(locked.status())) {
    return absl::AlreadyExistsError(absl::StrCat(
        "another job saves its checkpoints in folder ", Quoted(options.folder),
        DetailLine("help",
                   "name another folder, or wait until that job has "
                   "ended")));
  }
  MTF_RETURN_IF_ERROR(locked.status());
  lock = *std::move(locked);
  MTF_RETURN_IF_ERROR(RemoveLeftovers(*files, options.folder));
  retention = std::make_unique<Retention>(*files, options.folder, options.keep,
                                          options.best);
  return retention->Load();
}

// Creates the folder in which all processes write.
absl::Status Checkpointer::State::BeginFolder(int64_t step) {
  MTF_ASSIGN_OR_RETURN(const std::vector<int64_t> steps,
                       ListSteps(*files, options.folder));
  for (int64_t other : steps) {
    if (other != step) continue;
    return absl::AlreadyExistsError(absl::StrCat(
        "folder ", Quoted(options.folder), " already has a checkpoint of step ",
        step,
        DetailLine("help",
                   "name another folder, or remove the later "
                   "checkpoints of the earlier run from this one")));
  }
  const std::string saving = PathIn(options.folder, SavingFolderName(step));
  absl::Status made = files->MakeFolder(saving);
  if (absl::IsAlreadyExists(made)) {
    // Of an earlier Save of this job that failed.
    MTF_RETURN_IF_ERROR(RemoveFolder(*files, saving));
    made = files->MakeFolder(saving);
  }
  return made;
}

absl::Status Checkpointer::State::CheckMetric(
    const std::optional<double>& metric) const {
  if (metric.has_value() && !std::isfinite(*metric)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the metric of step ", session->step(), " is ", *metric));
  }
  if (options.best == BestMetric::kNone || metric.has_value()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "step ", session->step(), " has no metric, but the best is to be kept",
      DetailLine("help", "set CheckpointMetadata::metric")));
}

// A number that no other save has, the same in all processes.
absl::StatusOr<std::string> Checkpointer::State::ShareSaveId() const {
  std::random_device random;
  const uint64_t id = static_cast<uint64_t>(random()) << 32 | random();
  MTF_ASSIGN_OR_RETURN(
      const std::vector<std::string> ids,
      session->GatherText(absl::StrCat(absl::Hex(id, absl::kZeroPad16))));
  return ids[0];
}

Manifest Checkpointer::State::Describe(
    const CheckpointMetadata& metadata) const {
  Manifest manifest;
  manifest.step = session->step();
  manifest.seed = session->seed();
  manifest.mesh = session->mesh().ToString();
  manifest.program = program_invocation_short_name;
  manifest.library_version = MTF_VERSION;
  manifest.metric = metadata.metric;
  manifest.extra = metadata.extra;
  manifest.block_bytes = options.block_bytes;
  for (const SavedVariable& variable : variables) {
    manifest.variables.push_back(
        {variable.name, variable.kind, variable.dtype, variable.shape, {}});
  }
  return manifest;
}

// Copies the shards that the ranks of this process write to host memory.
absl::StatusOr<std::vector<RankPart>> Checkpointer::State::CopyParts() const {
  std::map<int, int> saved;  // by id of the variable that is the source
  for (size_t i = 0; i < variables.size(); ++i) {
    saved[variables[i].source()] = static_cast<int>(i);
  }
  std::mutex mutex;
  std::map<int64_t, RankPart> parts;
  MTF_RETURN_IF_ERROR(
      session->OnEachRank([&](RankVariables& rank) -> absl::Status {
        RankPart part;
        part.rank = rank.rank();
        for (const VariableShard& shard : rank.shards()) {
          const auto found = saved.find(shard.variable);
          if (found == saved.end() || !shard.first_replica ||
              shard.ValidShape().num_elements() == 0) {
            continue;
          }
          const int64_t bytes =
              shard.ValidShape().num_elements() * DTypeSize(shard.dtype);
          HostMemory values = AllocateHostMemory(bytes);
          if (values == nullptr) return NoMemoryToCopy(shard.name, bytes);
          MTF_RETURN_IF_ERROR(rank.ReadElements(shard, values.get()));
          part.shards.push_back({found->second, RangesOf(shard), shard.dtype,
                                 bytes, std::move(values)});
        }
        const std::lock_guard<std::mutex> lock(mutex);
        parts[part.rank] = std::move(part);
        return absl::OkStatus();
      }));
  std::vector<RankPart> in_order;
  for (auto& [rank, part] : parts) in_order.push_back(std::move(part));
  return in_order;
}

Checkpointer::Checkpointer(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
Checkpointer::~Checkpointer() = default;

absl::StatusOr<std::unique_ptr<Checkpointer>> Checkpointer::Open(
    Session& session, const CheckpointOptions& options) {
  auto state = std::make_unique<State>();
  state->session = &session;
  state->options = options;
  state->files = options.files == nullptr ? &FileSystem::Real() : options.files;
  state->variables = SavedVariablesOf(session.graph(), options.state);
  absl::Status taken = CheckCheckpointOptions(options);
  if (taken.ok() && session.is_primary()) taken = state->TakeFolder();
  MTF_RETURN_IF_ERROR(session.Agree(taken));
  return std::unique_ptr<Checkpointer>(new Checkpointer(std::move(state)));
}

absl::Status Checkpointer::Save(const CheckpointMetadata& metadata) {
  MTF_RETURN_IF_ERROR(Wait());
  State& state = *state_;
  Session& session = *state.session;
  absl::Status begun = state.CheckMetric(metadata.metric);
  if (begun.ok() && session.is_primary()) {
    begun = state.BeginFolder(session.step());
  }
  begun = session.Agree(begun);
  if (!begun.ok()) return NotSaved(session.step(), begun);
  CheckpointJob job;
  job.files = state.files;
  job.folder = state.options.folder;
  job.manifest = state.Describe(metadata);
  MTF_ASSIGN_OR_RETURN(job.manifest.save_id, state.ShareSaveId());
  const absl::Status copied = CatchExceptions([&]() -> absl::Status {
    MTF_ASSIGN_OR_RETURN(job.parts, state.CopyParts());
    return absl::OkStatus();
  });
  MTF_RETURN_IF_ERROR(session.Agree(copied));
  job.commits = session.is_primary();
  job.commit_timeout = state.options.commit_timeout;
  const auto local_ranks = static_cast<int64_t>(job.parts.size());
  for (int64_t rank = local_ranks; rank < session.mesh().num_devices();
       ++rank) {
    job.other_ranks.push_back(rank);
  }
  if (job.commits) {
    job.on_commit = [&state](const Manifest& manifest) {
      state.retention->Add(manifest);
    };
  }
  state.saving_step = session.step();
  const absl::Status started = CatchExceptions([&] {
    state.writer = std::make_unique<CheckpointWriter>(std::move(job));
    return absl::OkStatus();
  });
  if (!started.ok()) state.writer = nullptr;
  const absl::Status all_started = session.Agree(started);
  if (!all_started.ok()) {
    if (state.writer != nullptr) (void)state.writer->Wait(/*cancel=*/true);
    state.writer = nullptr;
    return NotSaved(state.saving_step, all_started);
  }
  return state.options.asynchronous ? absl::OkStatus() : Wait();
}

absl::Status Checkpointer::Wait() {
  State& state = *state_;
  if (state.writer == nullptr) return absl::OkStatus();
  // The process of rank 0 waits for the others only if none has failed.
  absl::Status status = state.session->Agree(state.writer->WaitForParts());
  const absl::Status committed = state.writer->Wait(/*cancel=*/!status.ok());
  if (status.ok()) status = state.session->Agree(committed);
  state.writer = nullptr;
  if (status.ok()) return status;
  if (state.session->is_primary()) {
    // What is left does no harm, and the next Open removes it.
    (void)RemoveFolder(
        *state.files,
        PathIn(state.options.folder, SavingFolderName(state.saving_step)));
  }
  return NotSaved(state.saving_step, status);
}

absl::StatusOr<RestoredCheckpoint> Checkpointer::Restore(
    const RestoreOptions& options) {
  MTF_RETURN_IF_ERROR(Wait());
  RestoreOptions same_files = options;
  same_files.files = state_->files;
  return RestoreCheckpoint(*state_->session, state_->options.folder,
                           same_files);
}

absl::StatusOr<std::vector<CheckpointInfo>> Checkpointer::List(
    const std::string& folder, FileSystem* files) {
  FileSystem& system = files == nullptr ? FileSystem::Real() : *files;
  MTF_ASSIGN_OR_RETURN(const std::vector<int64_t> steps,
                       ListSteps(system, folder));
  std::vector<CheckpointInfo> infos;
  for (int64_t step : steps) {
    const std::string path = PathIn(folder, StepFolderName(step));
    const absl::StatusOr<Manifest> manifest = ReadManifest(system, path, step);
    if (manifest.ok()) {
      infos.push_back(InfoOf(*manifest, path));
      continue;
    }
    // Removed since the folder was listed, as by a job that saves to it.
    if (absl::IsNotFound(manifest.status())) continue;
    CheckpointInfo& damaged = infos.emplace_back();
    damaged.step = step;
    damaged.path = path;
    damaged.status = manifest.status();
  }
  return infos;
}

std::vector<std::string> Checkpointer::TakeNotices() {
  if (state_->retention == nullptr || state_->writer != nullptr) return {};
  return state_->retention->TakeNotices();
}

}  // namespace mtf::train
