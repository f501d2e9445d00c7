// SPDX-License-Identifier: Apache-2.0
#include "train/loop/search_progress.h"

#include <unistd.h>

#include <cmath>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "planning/machine/units.h"

namespace mtf::train {

void SearchProgress::Watch(SearchOptions& options) {
  if (isatty(STDERR_FILENO) == 0) return;
  options.progress = [this](int64_t lowered, double seconds) {
    Report(lowered, seconds);
  };
}

SearchProgress::~SearchProgress() {
  if (shown_) std::cerr << "\r\033[K" << std::flush;
}

void SearchProgress::Report(int64_t lowered, double seconds) {
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(200);
  shown_ = true;
  std::cerr << "\r\033[K" << lowered << " layouts were lowered, "
            << (std::isinf(seconds)
                    ? "none fits yet"
                    : absl::StrCat("the fastest takes ",
                                   internal::SecondsText(seconds)))
            << std::flush;
}

}  // namespace mtf::train
