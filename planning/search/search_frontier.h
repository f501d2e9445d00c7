// SPDX-License-Identifier: Apache-2.0
//
// The best layouts a search has found so far
// (planning/search/search_layouts.h).
#ifndef PLANNING_SEARCH_SEARCH_FRONTIER_H_
#define PLANNING_SEARCH_SEARCH_FRONTIER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "planning/search/search_layouts.h"
#include "planning/search/search_space.h"

namespace mtf::internal {

// A priced layout, and the space it belongs to.
struct PricedLayout {
  FoundLayout layout;
  const SearchSpace* space = nullptr;  // outlives the frontier
  AxisRoles roles;
  // Slower than a known layout that differs in one rule. Reported only if it
  // turns out to be the best, or if there are too few others.
  bool slower_neighbour = false;
};

// Whether the costs differ by less than 1 % in time and 3 % in memory, which is
// too little to prefer one.
bool CostsAreEqual(const FoundLayout& a, const FoundLayout& b);

// The lowest memory limit, and the budget line that sets it.
struct MemoryLimit {
  int64_t bytes = 0;  // 0: none
  int line = -1;      // -1: set by SearchOptions::memory_limit
};
MemoryLimit MemoryLimitOf(const SearchOptions& options);

// The best feasible layouts seen by a search, plus the infeasible ones that
// miss the memory limit or the budget by least (reported if nothing fits).
// Layouts that cost the same (CostsAreEqual) count as one when the best are
// reported.
class SearchFrontier {
 public:
  // `options` must outlive this object.
  explicit SearchFrontier(const SearchOptions& options);

  // Counts a priced layout and keeps it if it is among the best. Of two layouts
  // of one mesh with exactly the same cost, the one with fewer rules is kept.
  void Add(PricedLayout candidate);
  // Add() for a layout that was counted before.
  void Keep(PricedLayout candidate);

  bool Fits(const FoundLayout& layout) const;
  // Whether a layout that needs at least this much memory can fit.
  bool MayFit(double memory) const;
  int64_t memory_limit() const { return memory_.bytes; }

  // Up to `count` layouts, best first, no two of which cost the same.
  std::vector<PricedLayout> Best(size_t count) const;
  // Seconds of the last of Best(count), or infinity if there are fewer. Layouts
  // that are not faster need not be priced.
  double Worst(size_t count) const;
  // Removes and returns the best layouts, so that they can be priced again.
  std::vector<PricedLayout> Take();
  // Up to `count` layouts that do not fit by an estimate but may fit when
  // priced with all layers: the fastest ones that beat what fits, or the
  // smallest ones if nothing fits.
  std::vector<PricedLayout> Doubtful(size_t count) const;

  // A few of the layouts that do not fit, sorted by the number of budget lines
  // they exceed, then by memory.
  const std::vector<PricedLayout>& nearest() const { return nearest_; }
  // The first of those priced with all layers: the one that is reported.
  const std::optional<PricedLayout>& nearest_with_all_layers() const {
    return nearest_with_all_layers_;
  }
  // kResourceExhausted with the missing bytes, or with the budget line that
  // rejects most layouts.
  absl::Status NothingFits() const;

  // Counts of the layouts that were lowered.
  SearchResult result;

 private:
  const SearchOptions& options_;
  MemoryLimit memory_;
  std::vector<PricedLayout> best_;  // that fit, fastest first
  std::vector<PricedLayout> nearest_;
  std::vector<PricedLayout> doubtful_;
  std::optional<PricedLayout> nearest_with_all_layers_;
  std::vector<int64_t> broken_;  // by budget line: layouts that exceed it
  mutable double worst_ = 0;     // cached Worst(worst_count_)
  mutable size_t worst_count_ = 0;
};

// Whether `a` is better than `b`. Both fit, or neither does.
bool IsBetter(const FoundLayout& a, const FoundLayout& b, bool fit = true);

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_FRONTIER_H_
