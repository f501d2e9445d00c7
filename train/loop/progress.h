// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_PROGRESS_H_
#define TRAIN_LOOP_PROGRESS_H_

#include <cstdint>
#include <ostream>
#include <string>

namespace mtf::train {

// Shows the progress of a run. On a terminal as a bar that is redrawn:
//
//   [=========>          ] step 240/500  loss 2.1034  18.2k tokens/s  0:14 left
//
// elsewhere as a plain line after every tenth of the run.
class Progress {
 public:
  // With `silent`, as for all ranks but one, shows nothing.
  Progress(std::ostream& out, bool terminal, bool silent, int64_t num_steps)
      : out_(out),
        terminal_(terminal),
        silent_(silent),
        num_steps_(num_steps) {}

  // Shows the state after step number `step`, counted from 0. `seconds` is the
  // time since the first step began.
  void Show(int64_t step, double loss, double tokens_per_s, double seconds);

  // Ends the line of the bar, if any. Called before other output.
  void Finish();

 private:
  std::ostream& out_;
  bool terminal_;
  bool silent_;
  int64_t num_steps_;
  double shown_at_ = -1;  // seconds
  size_t width_ = 0;      // of the current line of the bar
};

// True if standard output is the user's terminal. Open MPI gives every rank a
// pseudo-terminal, so under a launcher the environment variable MTF_TERMINAL
// decides; mtfrun sets it to 1 if it runs in a terminal.
bool OutputIsTerminal(bool launched);

// "0:07", "12:40", "3:02:01".
std::string FormatDuration(double seconds);
// "950", "18.2k", "1.25M".
std::string FormatQuantity(double value);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_PROGRESS_H_
