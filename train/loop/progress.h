// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_PROGRESS_H_
#define TRAIN_LOOP_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <utility>

namespace mtf::train {

// Shows the progress of a run. On a terminal as a bar that is redrawn:
//
//   [=========>          ] step 240/500  loss 2.1034  18.2k tokens/s  0:14 left
//
// elsewhere as a plain line after every tenth of the run. The bar never wraps:
// in a narrow terminal it is shorter or left out, then the speed, then the end
// of the line.
class Progress {
 public:
  // `columns` returns the width of the terminal and is called for each redraw;
  // null: `out` is not a terminal. With `silent`, as for all ranks but one,
  // shows nothing.
  // A run that resumes begins at `first_step`.
  Progress(std::ostream& out, std::function<int()> columns, bool silent,
           int64_t num_steps, int64_t first_step = 0)
      : out_(out),
        columns_(std::move(columns)),
        silent_(silent),
        num_steps_(num_steps),
        first_step_(first_step) {}

  // Shows the state after step number `step`, counted from 0. `seconds` is the
  // time since the first step of this run began. `share_of_peak`, if it is not
  // 0, is shown in percent.
  void Show(int64_t step, double loss, double tokens_per_s, double seconds,
            double share_of_peak = 0);

  // Ends the line of the bar, if any. Called before other output.
  void Finish();

 private:
  std::ostream& out_;
  std::function<int()> columns_;  // null: not a terminal
  bool silent_;
  int64_t num_steps_;
  int64_t first_step_;
  double shown_at_ = -1;  // seconds
  size_t width_ = 0;      // of the current line of the bar
};

// True if standard output is the user's terminal. Open MPI gives every rank a
// pseudo-terminal, so under a launcher the environment variable MTF_TERMINAL
// decides; mtfrun sets it to 1 if it runs in a terminal.
bool OutputIsTerminal(bool launched);

// The width of the terminal at standard output: as the terminal reports it, or
// else the environment variable COLUMNS, which mtfrun sets because the
// pseudo-terminals of Open MPI do not know theirs, or else `otherwise`.
int OutputColumns(int otherwise);

// "0:07", "12:40", "3:02:01".
std::string FormatDuration(double seconds);
// "950", "18.2k", "1.25M".
std::string FormatQuantity(double value);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_PROGRESS_H_
