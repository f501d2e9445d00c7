// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_STOP_SIGNALS_H_
#define TRAIN_LOOP_STOP_SIGNALS_H_

#include <array>
#include <csignal>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train/session/session.h"

namespace mtf::train {

// While alive, SIGTERM and SIGUSR1 ask the training loop to save and end, in
// place of ending the process. Schedulers send them before they take a machine
// away. A second SIGTERM ends the process at once. One object may be alive at a
// time; at its end the former handlers apply again.
//
//   StopSignals signals;
//   for (...) {
//     ...
//     MTF_ASSIGN_OR_RETURN(const int signal, signals.Agree(session));
//     if (signal != 0) return StoppedBySignal(signal, session.step());
//   }
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The first signal that this process got, or 0.
  int Received() const;

  // The signal that some process of the job got, the same in all of them, or 0.
  // Every process calls it after the same step: one exchange of a short text,
  // and nothing if the ranks are threads.
  absl::StatusOr<int> Agree(Session& session) const;

 private:
  std::array<struct sigaction, 2> previous_;
};

// The error with which a training loop ends that a signal has stopped after
// `steps` steps: kUnavailable, whose exit code, 75, tells a scheduler to start
// the program again. `saved` says where it will go on, or is empty if nothing
// was saved.
absl::Status StoppedBySignal(int signal, int64_t steps,
                             const std::string& saved);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_STOP_SIGNALS_H_
