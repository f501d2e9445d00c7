// SPDX-License-Identifier: Apache-2.0
#include "train/loop/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace mtf::train {
namespace {

constexpr int kWidestBar = 24;
constexpr int kNarrowestBar = 8;
constexpr double kSecondsBetweenBars = 0.1;

std::string Bar(int64_t done, int64_t total, int width) {
  const int filled = static_cast<int>(width * done / total);
  std::string bar(filled, '=');
  if (filled < width) bar += '>';
  bar.resize(width, ' ');
  return absl::StrCat("[", bar, "] ");
}

// The figures of a line, joined. The second is the first to be left out.
struct Figures {
  std::string state, speed, left;

  std::string Text() const { return absl::StrCat(state, speed, left); }
};

// The line of the bar, at most `most` characters long.
std::string LineWithBar(int64_t done, int64_t total, Figures figures,
                        int most) {
  constexpr int kBrackets = 3;  // "[", "] "
  const int room = most - static_cast<int>(figures.Text().size()) - kBrackets;
  if (room >= kNarrowestBar) {
    return absl::StrCat(Bar(done, total, std::min(room, kWidestBar)),
                        figures.Text());
  }
  if (room < -kBrackets) figures.speed.clear();
  return figures.Text().substr(0, most);
}

}  // namespace

void Progress::Show(int64_t step, double loss, double tokens_per_s,
                    double seconds, double share_of_peak) {
  if (silent_) return;
  const int64_t done = step + 1;
  const bool last = done == num_steps_;
  const double left = seconds / (done - first_step_) * (num_steps_ - done);
  const Figures figures = {
      absl::StrFormat("step %d/%d  loss %.4f", done, num_steps_, loss),
      absl::StrCat("  ", FormatQuantity(tokens_per_s), " tokens/s",
                   share_of_peak > 0 ? absl::StrFormat("  %.1f %% of peak",
                                                       100 * share_of_peak)
                                     : ""),
      absl::StrCat("  ", FormatDuration(left), " left")};
  if (columns_) {
    if (!last && shown_at_ >= 0 && seconds < shown_at_ + kSecondsBetweenBars) {
      return;
    }
    // Some terminals wrap as soon as the last column is written.
    const size_t most = std::max(columns_() - 1, 1);
    std::string line =
        LineWithBar(done, num_steps_, figures, static_cast<int>(most));
    const size_t width = line.size();
    // Blanks overwrite the rest of a longer previous line.
    line.resize(std::max(width, std::min(width_, most)), ' ');
    out_ << '\r' << line << std::flush;
    width_ = width;
    shown_at_ = seconds;
  } else if (step == first_step_ || last ||
             done * 10 / num_steps_ != step * 10 / num_steps_) {
    out_ << figures.Text() << std::endl;
  }
}

void Progress::Finish() {
  if (width_ > 0) out_ << std::endl;
  width_ = 0;
}

bool OutputIsTerminal(bool launched) {
  const char* variable = std::getenv("MTF_TERMINAL");
  if (variable != nullptr) return absl::string_view(variable) == "1";
  return !launched && isatty(STDOUT_FILENO) == 1;
}

int OutputColumns(int otherwise) {
  winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  const char* variable = std::getenv("COLUMNS");
  int columns = 0;
  return variable != nullptr && absl::SimpleAtoi(variable, &columns) &&
                 columns > 0
             ? columns
             : otherwise;
}

std::string FormatDuration(double seconds) {
  const int64_t total = std::llround(std::max(0.0, seconds));
  if (total < 3600) return absl::StrFormat("%d:%02d", total / 60, total % 60);
  return absl::StrFormat("%d:%02d:%02d", total / 3600, total / 60 % 60,
                         total % 60);
}

std::string FormatQuantity(double value) {
  if (value < 1e3) return absl::StrFormat("%.0f", value);
  if (value < 1e6) return absl::StrFormat("%.1fk", value / 1e3);
  if (value < 1e9) return absl::StrFormat("%.2fM", value / 1e6);
  return absl::StrFormat("%.2fG", value / 1e9);
}

}  // namespace mtf::train
