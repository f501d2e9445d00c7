// SPDX-License-Identifier: Apache-2.0
#include "train/loop/stop_signals.h"

#include <atomic>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"

namespace mtf::train {
namespace {

constexpr std::array<int, 2> kStopSignals = {SIGTERM, SIGUSR1};

// The first signal. Lock-free, so a handler may write it.
std::atomic<int> received_signal = 0;
std::atomic<int> received_sigterms = 0;
static_assert(std::atomic<int>::is_always_lock_free);

// A handler may do little more than to set a flag.
void NoteSignal(int signal) {
  int none = 0;
  received_signal.compare_exchange_strong(none, signal);
  if (signal != SIGTERM || ++received_sigterms < 2) return;
  // The second one ends the process as if it had no handler.
  std::signal(SIGTERM, SIG_DFL);
  std::raise(SIGTERM);
}

// What a rank tells the others. Session::Agree compares Statuses.
constexpr absl::string_view kSignalText = "mtf/stop_signal ";

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  received_sigterms = 0;
  struct sigaction action = {};
  action.sa_handler = &NoteSignal;
  action.sa_flags = SA_RESTART;  // reads and writes go on
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    sigaction(kStopSignals[i], &action, &previous_[i]);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    sigaction(kStopSignals[i], &previous_[i], nullptr);
  }
}

int StopSignals::Received() const { return received_signal; }

absl::StatusOr<int> StopSignals::Agree(Session& session) const {
  const int mine = Received();
  const absl::Status agreed = session.Agree(
      mine == 0 ? absl::OkStatus()
                : absl::CancelledError(absl::StrCat(kSignalText, mine)));
  if (agreed.ok()) return 0;
  absl::string_view text = agreed.message();
  int signal = 0;
  if (absl::IsCancelled(agreed) && absl::ConsumePrefix(&text, kSignalText) &&
      absl::SimpleAtoi(text, &signal)) {
    return signal;
  }
  return agreed;
}

absl::Status StoppedBySignal(int signal, int64_t steps,
                             const std::string& saved) {
  return absl::UnavailableError(absl::StrCat(
      "training was stopped by ", signal == SIGTERM ? "SIGTERM" : "SIGUSR1",
      " after step ", steps, saved.empty() ? "" : DetailLine("saved", saved),
      DetailLine("help",
                 saved.empty()
                     ? "nothing was saved; give --checkpoint_dir to resume"
                     : "start the same command again: it resumes there")));
}

}  // namespace mtf::train
