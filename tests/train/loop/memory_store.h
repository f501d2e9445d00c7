// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_TRAIN_LOOP_MEMORY_STORE_H_
#define TESTS_TRAIN_LOOP_MEMORY_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mtf/status.h"
#include "train/loop/training_store.h"
#include "train/session/saved_state.h"
#include "train/session/session.h"

namespace mtf::train {

// The saved states of runs, in memory, so that tests need no files. A run in
// another session goes on from them.
struct MemoryStates {
  struct Saved {
    SavedState::Values values;
    TrainingStore::Extra extra;
  };
  std::map<int64_t, Saved> by_step;
  int64_t best_step = -1;
  std::vector<int64_t> saves;  // the steps of all of them
};

class MemoryStore final : public TrainingStore {
 public:
  // `state` has been made of the graph of `session`.
  MemoryStore(MemoryStates& states, const SavedState& state, Session& session)
      : states_(states), state_(state), session_(session) {}

  absl::Status Save(const Extra& extra, std::optional<double> best) override {
    MTF_ASSIGN_OR_RETURN(SavedState::Values values, state_.Save(session_));
    states_.by_step[session_.step()] = {std::move(values), extra};
    states_.saves.push_back(session_.step());
    if (best.has_value()) states_.best_step = session_.step();
    return absl::OkStatus();
  }
  absl::Status Wait() override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<int64_t>> Steps() override {
    std::vector<int64_t> steps;
    for (const auto& [step, saved] : states_.by_step) steps.push_back(step);
    return steps;
  }
  absl::StatusOr<Extra> Restore(int64_t step) override {
    const MemoryStates::Saved& saved = states_.by_step.at(step);
    MTF_RETURN_IF_ERROR(state_.Load(session_, saved.values));
    MTF_RETURN_IF_ERROR(session_.SetStep(step));
    return saved.extra;
  }
  std::string Place() const override { return "memory"; }

 private:
  MemoryStates& states_;
  const SavedState& state_;
  Session& session_;
};

}  // namespace mtf::train

#endif  // TESTS_TRAIN_LOOP_MEMORY_STORE_H_
