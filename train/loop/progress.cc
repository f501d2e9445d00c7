// SPDX-License-Identifier: Apache-2.0
#include "train/loop/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace mtf::train {
namespace {

constexpr int kBarWidth = 24;
constexpr double kSecondsBetweenBars = 0.1;

std::string Bar(int64_t done, int64_t total) {
  const int filled = static_cast<int>(kBarWidth * done / total);
  std::string bar(filled, '=');
  if (filled < kBarWidth) bar += '>';
  bar.resize(kBarWidth, ' ');
  return absl::StrCat("[", bar, "] ");
}

}  // namespace

void Progress::Show(int64_t step, double loss, double tokens_per_s,
                    double seconds) {
  if (silent_) return;
  const int64_t done = step + 1;
  const bool last = done == num_steps_;
  const double left = seconds / done * (num_steps_ - done);
  const std::string figures = absl::StrFormat(
      "step %d/%d  loss %.4f  %s tokens/s  %s left", done, num_steps_, loss,
      FormatQuantity(tokens_per_s), FormatDuration(left));
  if (terminal_) {
    if (!last && shown_at_ >= 0 && seconds < shown_at_ + kSecondsBetweenBars) {
      return;
    }
    std::string line = Bar(done, num_steps_) + figures;
    const size_t width = line.size();
    // Blanks overwrite the rest of a longer previous line.
    if (width < width_) line.append(width_ - width, ' ');
    out_ << '\r' << line << std::flush;
    width_ = width;
    shown_at_ = seconds;
  } else if (step == 0 || last ||
             done * 10 / num_steps_ != step * 10 / num_steps_) {
    out_ << figures << std::endl;
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
