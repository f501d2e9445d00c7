// SPDX-License-Identifier: Apache-2.0
//
// What a training loop has to know to go on, beside the state of its session.
// For the loop; not for users.
#ifndef TRAIN_LOOP_LOOP_STATE_H_
#define TRAIN_LOOP_LOOP_STATE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "train/loop/loss_watch.h"
#include "train/loop/training_store.h"

namespace mtf::train {

struct LoopState {
  explicit LoopState(LossWatch::Options options) : watch(options) {}

  int64_t batch = 0;           // the number of the next batch
  std::set<int64_t> left_out;  // batches that are not trained on
  double loss = 0;             // of the last step
  // The losses of the last tenth of the steps of a run of `steps` steps so far:
  // their sum and number.
  int64_t steps = 0;
  double late_losses = 0;
  int64_t late_steps = 0;
  double best_value = 0;
  int64_t best_step = -1;  // -1: no evaluation yet
  int64_t not_better = 0;  // evaluations in a row
  LossWatch watch;

  // The first step of the last tenth of the run, rounded up.
  int64_t FirstLateStep() const { return steps - (steps + 9) / 10; }

  // The mean loss of the last tenth of the `done` steps so far. For a run that
  // ended before its last step, of those of them that `watch` has.
  double SmoothLoss(int64_t done) const;

  // Moves `batch` to the next one that is not left out.
  void NextBatch() {
    ++batch;
    while (left_out.contains(batch)) ++batch;
  }

  // Adds batches to those that are left out.
  void LeaveOut(const std::set<int64_t>& batches) {
    left_out.insert(batches.begin(), batches.end());
    while (left_out.contains(batch)) ++batch;
  }

  // The losses of a run of another number of `steps` have another last tenth.
  // Those of the `done` steps so far are taken from `watch`.
  void SetSteps(int64_t of_run, int64_t done);

  // The state as texts called "loop/...", which are added to `extra`, and back.
  // A text that is missing, as from another program, leaves its default: the
  // batch is that of `step`. kDataLoss for a text that is not a number.
  void AddTo(TrainingStore::Extra& extra) const;
  absl::Status SetFrom(const TrainingStore::Extra& extra, int64_t step);
};

}  // namespace mtf::train

#endif  // TRAIN_LOOP_LOOP_STATE_H_
