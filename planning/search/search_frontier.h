// SPDX-License-Identifier: Apache-2.0
//
// What a search has found so far (planning/search/search_layouts.h).
#ifndef PLANNING_SEARCH_SEARCH_FRONTIER_H_
#define PLANNING_SEARCH_SEARCH_FRONTIER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "planning/search/search_layouts.h"
#include "planning/search/search_space.h"

namespace mtf::internal {

// A layout that was priced, and where it comes from.
struct Finding {
  FoundLayout layout;
  const SearchSpace* space = nullptr;  // outlives the findings
  AxisRoles roles;
  // Slower than what it differs from in one rule, as far as is known: of
  // interest where it turns out to be the best, or nothing else is left.
  bool slower_neighbour = false;
};

// Whether a person would not choose between the two by what they cost: time to
// a hundredth and memory to three are the same.
bool CostTheSame(const FoundLayout& a, const FoundLayout& b);

// The least of the limits on memory, and the line of the budget it is from.
struct MemoryLimit {
  int64_t bytes = 0;  // 0: none
  int line = -1;      // -1: SearchOptions::memory_limit
};
MemoryLimit MemoryLimitOf(const SearchOptions& options);

// The best layouts so far, and the nearest of those that are none.
class SearchFrontier {
 public:
  // The options are to outlive it.
  explicit SearchFrontier(const SearchOptions& options);

  // Counts a priced layout, and keeps it if it is among the best. One that
  // costs what a known one of the mesh does, to the last digit, takes its place
  // if it has fewer rules.
  void Add(Finding finding);
  // The same for one that was counted before.
  void Keep(Finding finding);

  bool Fits(const FoundLayout& layout) const;
  // Whether a layout of at least this memory may.
  bool MayFit(double memory) const;
  int64_t memory_limit() const { return memory_.bytes; }

  // Up to `count` layouts, the best first, no two of which cost the same.
  std::vector<Finding> Best(size_t count) const;
  // Seconds of the last of them, or infinity where there are fewer: what is no
  // faster is of no interest.
  double Worst(size_t count) const;
  // Forgets them, to be priced again.
  std::vector<Finding> Take();
  // Up to `count` that do not fit by an estimate, but may as a whole: the
  // fastest that are faster than what fits, or the smallest where nothing does.
  std::vector<Finding> Doubtful(size_t count) const;

  // Of those that do not fit: a few that break fewest lines of the budget, and
  // among these the smallest, first.
  const std::vector<Finding>& nearest() const { return nearest_; }
  // The first of those priced as a whole alone: what is told.
  const std::optional<Finding>& nearest_whole() const { return nearest_whole_; }
  // kResourceExhausted: by how much, or which line of the budget rejects most.
  absl::Status NothingFits() const;

  // Counts of what was lowered.
  SearchResult result;

 private:
  const SearchOptions& options_;
  MemoryLimit memory_;
  std::vector<Finding> best_;  // that fit, fastest first
  std::vector<Finding> nearest_;
  std::vector<Finding> doubtful_;
  std::optional<Finding> nearest_whole_;
  std::vector<int64_t> broken_;  // by line of the budget: who breaks it
  mutable double worst_ = 0;     // of Worst, unless best_ has changed
  mutable size_t worst_count_ = 0;
};

// Whether `a` is to stand before `b`; both fit, or both do not.
bool IsBetter(const FoundLayout& a, const FoundLayout& b, bool fit = true);

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_FRONTIER_H_
