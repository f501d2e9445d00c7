// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_CHECKPOINT_STORE_H_
#define TRAIN_LOOP_CHECKPOINT_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train/checkpoint/checkpoint.h"
#include "train/loop/training_store.h"
#include "train/session/session.h"

namespace mtf::train {

// A TrainingStore in the checkpoints of a folder.
//
//   MTF_ASSIGN_OR_RETURN(const auto store,
//                        CheckpointStore::Open(*session, "runs/a", {}));
//   ... {.saving = {.store = store.get(), .every = 1000}}
class CheckpointStore final : public TrainingStore {
 public:
  struct Options {
    int64_t keep = 2;  // newest checkpoints to keep
    // Which of the values that Save is told is the best, so that its state is
    // kept, too.
    BestMetric best = BestMetric::kNone;
    // If the newest checkpoint is damaged, restores the newest undamaged one
    // before it, with a notice. Otherwise a damaged one is an error.
    bool fall_back = false;
    // Called with each notice for the user, and with what was saved beside the
    // variables after each Restore.
    std::function<void(const std::string& notice)> on_notice = nullptr;
    std::function<void(const Extra& extra)> on_restore = nullptr;
    // As RestoreOptions::help_of_other_model.
    std::function<std::string(const Extra& extra)> help_of_other_model =
        nullptr;
  };

  // The session must outlive the result. Errors are those of
  // Checkpointer::Open.
  static absl::StatusOr<std::unique_ptr<CheckpointStore>> Open(
      Session& session, const std::string& folder, Options options);

  // Replaces a checkpoint of the same step, which a run that was rolled back
  // has left.
  absl::Status Save(const Extra& extra, std::optional<double> best) override;
  absl::Status Wait() override;
  // Those of damaged checkpoints are among them.
  absl::StatusOr<std::vector<int64_t>> Steps() override;
  // On an error the session may be without values: RestoreOptions::in_place.
  absl::StatusOr<Extra> Restore(int64_t step) override;
  std::string Place() const override { return folder_; }

 private:
  CheckpointStore(Session& session, std::string folder, Options options)
      : session_(session),
        folder_(std::move(folder)),
        options_(std::move(options)) {}
  absl::Status RemoveCheckpointOf(int64_t step);

  Session& session_;
  std::string folder_;
  Options options_;
  std::unique_ptr<Checkpointer> checkpointer_;
};

}  // namespace mtf::train

#endif  // TRAIN_LOOP_CHECKPOINT_STORE_H_
