// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_TRAINING_STORE_H_
#define TRAIN_LOOP_TRAINING_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mtf::train {

// Where a training loop keeps the state of its session: the variables, the
// step, and what the loop itself has to know to go on, as texts by name. All
// calls are collective. CheckpointStore (checkpoint_store.h) keeps them in the
// files of a folder.
class TrainingStore {
 public:
  using Extra = std::map<std::string, std::string>;

  virtual ~TrainingStore() = default;

  // Saves the session at its present step. `best` is the value of an evaluation
  // that is better than all before, so that this state is kept until there is a
  // better one; empty for other states.
  virtual absl::Status Save(const Extra& extra, std::optional<double> best) = 0;

  // Returns after what was saved is durable, with the first error of it.
  virtual absl::Status Wait() = 0;

  // The steps of the states, in rising order.
  virtual absl::StatusOr<std::vector<int64_t>> Steps() = 0;

  // Sets variables and step to those of `step`, one of Steps(). A store may
  // take an earlier one in place of a damaged one, if its user said so.
  virtual absl::StatusOr<Extra> Restore(int64_t step) = 0;

  // Where the states are, for messages: the folder.
  virtual std::string Place() const = 0;
};

}  // namespace mtf::train

#endif  // TRAIN_LOOP_TRAINING_STORE_H_
