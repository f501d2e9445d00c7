// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_SEARCH_PROGRESS_H_
#define TRAIN_LOOP_SEARCH_PROGRESS_H_

#include <chrono>
#include <cstdint>

#include "planning/search/search_layouts.h"

namespace mtf::train {

// Shows the progress of a search that takes longer than two seconds on one line
// of standard error, if that is a terminal, and erases it at the end.
//
//   SearchProgress progress;
//   progress.Watch(options);
//   ... SearchRules(input, mesh, prices, options);
class SearchProgress {
 public:
  // Sets options.progress. The object must outlive the search.
  void Watch(SearchOptions& options);
  ~SearchProgress();

 private:
  using Clock = std::chrono::steady_clock;
  void Report(int64_t lowered, double seconds);

  Clock::time_point next_ = Clock::now() + std::chrono::seconds(2);
  bool shown_ = false;
};

}  // namespace mtf::train

#endif  // TRAIN_LOOP_SEARCH_PROGRESS_H_
