// SPDX-License-Identifier: Apache-2.0
#include "train/loop/checkpoint_store.h"

#include <limits>

#include "mtf/status.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/file_system.h"

namespace mtf::train {

absl::StatusOr<std::unique_ptr<CheckpointStore>> CheckpointStore::Open(
    Session& session, const std::string& folder, Options options) {
  std::unique_ptr<CheckpointStore> store(
      new CheckpointStore(session, folder, std::move(options)));
  MTF_ASSIGN_OR_RETURN(
      store->checkpointer_,
      Checkpointer::Open(session,
                         {.folder = folder,
                          .keep = static_cast<int>(store->options_.keep),
                          .best = store->options_.best}));
  return store;
}

absl::Status CheckpointStore::Save(const Extra& extra,
                                   std::optional<double> best) {
  MTF_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, Steps());
  for (const int64_t step : steps) {
    if (step == session_.step()) MTF_RETURN_IF_ERROR(RemoveCheckpointOf(step));
  }
  CheckpointMetadata metadata = {.extra = extra};
  if (options_.best != BestMetric::kNone) {
    // Every checkpoint has a metric; that of those without is the worst.
    const double worst = std::numeric_limits<double>::max();
    metadata.metric =
        best.value_or(options_.best == BestMetric::kLowest ? worst : -worst);
  }
  MTF_RETURN_IF_ERROR(checkpointer_->Save(metadata));
  for (const std::string& notice : checkpointer_->TakeNotices()) {
    if (options_.on_notice != nullptr) options_.on_notice(notice);
  }
  return absl::OkStatus();
}

absl::Status CheckpointStore::Wait() { return checkpointer_->Wait(); }

absl::StatusOr<std::vector<int64_t>> CheckpointStore::Steps() {
  MTF_RETURN_IF_ERROR(Wait());
  // No process removes or adds one while others list.
  const absl::StatusOr<std::vector<CheckpointInfo>> all =
      Checkpointer::List(folder_);
  MTF_RETURN_IF_ERROR(session_.Agree(all.status()));
  std::vector<int64_t> steps;
  for (const CheckpointInfo& info : *all) steps.push_back(info.step);
  return steps;
}

absl::Status CheckpointStore::RemoveCheckpointOf(int64_t step) {
  absl::Status removed;
  if (session_.is_primary()) {
    removed = RemoveCheckpoint(FileSystem::Real(), folder_, step);
  }
  return session_.Agree(removed);
}

absl::StatusOr<TrainingStore::Extra> CheckpointStore::Restore(int64_t step) {
  MTF_ASSIGN_OR_RETURN(
      const RestoredCheckpoint restored,
      checkpointer_->Restore(
          {.step = step,
           .fall_back = options_.fall_back,
           .in_place = true,
           .help_of_other_model = options_.help_of_other_model}));
  for (const std::string& notice : restored.notices) {
    if (options_.on_notice != nullptr) options_.on_notice(notice);
  }
  if (options_.on_restore != nullptr) options_.on_restore(restored.info.extra);
  return restored.info.extra;
}

}  // namespace mtf::train
