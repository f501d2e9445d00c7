// SPDX-License-Identifier: Apache-2.0
//
// What a layout costs at least, without lowering it
// (planning/search/search_layouts.h).
#ifndef PLANNING_SEARCH_SEARCH_BOUNDS_H_
#define PLANNING_SEARCH_SEARCH_BOUNDS_H_

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "planning/search/search_layouts.h"
#include "planning/search/search_space.h"
#include "planning/search/search_step.h"
#include "planning/search/search_traffic.h"
#include "planning/search/workload_summary.h"

namespace mtf::internal {

// Bounds from below for every layout of a space. Why each holds:
//
//   compute      The einsums and kernels of the step on one device are those on
//                many, or fewer: cuts add masks and copies and keep maps from
//                being fused, and take none away. Each works on its iteration
//                space, cut by the axes that cut one of its dimensions, and by
//                no other; what a dimension leaves over goes to some device.
//   collectives  What an axis forces by itself is read from the program lowered
//                on that axis alone. Further axes cut the values that move,
//                each at most once; a sum may also be taken of the shards that
//                another section wants of it, or be shared by ranks that would
//                all do it, and gathered. Where several axes move one group of
//                values, one collective may serve all, so only the dearest of
//                them counts, in any group that it may be part of: a gather
//                goes with no reduce_scatter. Each is a call of its own, but
//                sums that are read late, which go together, count by the best
//                rate of any size.
//   step         No less than all collectives, one after the other; no less
//                than compute and those collectives that nothing can hide: a
//                kernel makes what they send and the next one reads what they
//                bring, for no less than a message of a byte takes. What is
//                gathered of parameters can go ahead. Without overlap, no less
//                than both.
//   memory       Variables; parameters that are gathered and kept; and, where
//   the step on one device holds most, every
//                value that was made before and is read behind. That place is
//                between forward and backward, where no pass moves anything
//                across: what the backward part reads of the forward one has
//                two readers, so it is no part of a fused map, but in memory,
//                or else what it is made of again is, whose share of a tensor
//                or two may differ with the layout.
class SearchBounds {
 public:
  // `amounts` are SummarizeStep of `step`. Lowers the step on each axis alone
  // under each role, unless `table` knows. The last four are to outlive the
  // bounds.
  SearchBounds(const SearchStep& step, const WorkloadSummary& workload,
               const SearchSpace& space, const SearchPrices& prices,
               TrafficTable& table);

  // Of the default section alone; `cuts` by place in space.axes.
  double ComputeSeconds(absl::Span<const DimSet> sharded) const;

  struct Bound {
    double seconds = 0;   // no layout is faster
    double estimate = 0;  // as if nothing overlapped: a good order to try
    double memory = 0;    // no layout takes less, in bytes
  };
  // `compute` is ComputeSeconds of the same layout; `once` as
  // AxisRoles::keep_gathered.
  Bound Of(const Roles& roles, double compute, bool once = false) const;
  // Of a layout that need not be of the space: only its memory.
  double MemoryOf(const AxisRoles& roles) const;

 private:
  // An entry of an Amount. A device has at least its share: of each dimension
  // the part that is left of it, rounded up.
  struct AmountEntry {
    DimSet dims;
    Sizes sizes;
    double bytes;
  };
  using AmountEntries = std::vector<AmountEntry>;

  // What the axes cut, by section.
  using AxisDims = absl::InlinedVector<DimSet, kMaxMeshAxes + 1>;
  struct ShardedDims {
    explicit ShardedDims(const AxisRoles& roles);
    AxisDims defaults, parameters, optimizer, all;
  };

  static AmountEntries EntriesOf(const Amount& amount);
  // The bytes of a device. Many layouts cut something alike, so what was said
  // once is remembered.
  double Share(const AmountEntries& entries,
               absl::Span<const DimSet> sharded) const;
  double ShareOf(const AmountEntries& entries,
                 absl::Span<const DimSet> sharded) const;
  double MemoryOf(const ShardedDims& sharded) const;
  // Seconds of all collectives, and of those that compute waits for.
  std::pair<double, double> Collectives(const Roles& roles,
                                        const ShardedDims& sharded,
                                        bool once) const;
  // Of parameters that are gathered and kept.
  double KeptBytes(const AxisRoles& roles, const ShardedDims& sharded) const;
  // Who moves values of the same dimensions, as bits by place in space.axes.
  struct TransferAxes {
    size_t all = 0;
    // In a way that may go with a gather for use, and for the update.
    std::array<size_t, 2> gather = {0, 0};
    size_t reduce = 0;   // reduce the same values
    bool mixed = false;  // any section's cuts may count
  };
  // Of what one axis moves.
  double SecondsOf(const LayoutTraffic& move, size_t axis,
                   const TransferAxes& transfer_axes,
                   const ShardedDims& sharded) const;

  const WorkloadSummary& workload_;
  const SearchSpace& space_;
  const SearchPrices& prices_;
  std::vector<double> sizes_;  // by place in space.axes
  AmountEntries maps_, update_maps_, parameter_maps_, parameters_, states_,
      saved_, kept_;
  std::vector<const AxisTraffic*> traffic_;  // by place in space.axes
  CollectiveTimes times_;
  double launch_ = 0, copy_rate_ = 0;  // of a copy: seconds, and of a byte
  mutable absl::flat_hash_map<std::pair<const AmountEntries*, AxisDims>, double>
      shares_;
};

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_BOUNDS_H_
