// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_PROGRESS_H_
#define TRAIN_LOOP_PROGRESS_H_

#include <cstdint>
#include <ostream>
#include <string>

namespace mtf::train {

// Shows how far a run is. On a terminal, a bar that redraws itself:
//
//   [=========>          ] step 240/500  loss 2.1034  18.2k tokens/s  0:14 left
//
// elsewhere the same figures as a plain line at every tenth of the run.
class Progress {
 public:
  // With `silent`, the case of every rank but one, it shows nothing.
  Progress(std::ostream& out, bool terminal, bool silent, int64_t num_steps)
      : out_(out),
        terminal_(terminal),
        silent_(silent),
        num_steps_(num_steps) {}

  // After step number `step`, counted from 0. `seconds` is the time since the
  // first step began.
  void Show(int64_t step, double loss, double tokens_per_s, double seconds);

  // Ends the bar's line, if it stands on one: call before other output.
  void Finish();

 private:
  std::ostream& out_;
  bool terminal_;
  bool silent_;
  int64_t num_steps_;
  double shown_at_ = -1;  // seconds
  size_t width_ = 0;      // of the bar's line as it stands
};

// True when standard output is a terminal of the user. Open MPI gives every
// rank a pseudo terminal, so under a launcher the environment variable
// MTF_TERMINAL, set to 1 by who started the launcher from a terminal, decides.
bool OutputIsTerminal(bool launched);

// "0:07", "12:40", "3:02:01".
std::string FormatDuration(double seconds);
// "950", "18.2k", "1.25M".
std::string FormatQuantity(double value);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_PROGRESS_H_
