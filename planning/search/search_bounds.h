// SPDX-License-Identifier: Apache-2.0
//
// Lower bounds on the cost of layouts, without lowering them.
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

// Lower bounds on time and memory of every layout of a space. Why they hold, as
// long as passes do what they do today:
//
//   compute      The kernels of the step on one device run on many too:
//   sharding
//                adds masks and copies and prevents fusion, but removes no
//                kernel. Each works on its iteration space, divided by the axes
//                that shard one of its dimensions; some device has the largest
//                share, rounded up.
//   collectives  The transfers that an axis causes by itself are read from the
//                program lowered on that axis alone. Other axes divide the
//                values that are transferred, each at most once; a sum may also
//                be over the shards that another section wants, or be shared by
//                ranks that would all compute it, and gathered. One collective
//                over several axes may serve all of them, so only the most
//                expensive axis counts, in any group that it may belong to; a
//                gather is not merged with a reduce_scatter. Each collective is
//                a call of its own, except that sums which are read late may be
//                bucketed and count by the best rate of any size.
//   step         At least the time of all collectives; and at least that of
//                compute and the collectives that cannot overlap: a kernel
//                computes their operand and the next kernel reads their result,
//                which takes at least the latency of a message. Gathers of
//                parameters can start ahead. Without overlap, at least the sum.
//   memory       Variables; gathered parameters that are kept; and the values
//                that are live at the peak of the step on one device. The peak
//                is between forward and backward, and no pass moves anything
//                across it: a value of the forward pass that the backward pass
//                reads has two readers, so it is not inside a fused map but in
//                memory, or its operand is if it is rematerialized, which may
//                shift a tensor or two.
class SearchBounds {
 public:
  // `workload` is SummarizeStep of `step`. Lowers the step on each axis alone
  // under each role, unless `table` has the result. The last four arguments
  // must outlive the object.
  SearchBounds(const SearchStep& step, const WorkloadSummary& workload,
               const SearchSpace& space, const SearchPrices& prices,
               TrafficTable& table);

  // Of the default section alone; `sharded` by index in space.axes.
  double ComputeSeconds(absl::Span<const DimSet> sharded) const;

  struct Bound {
    double seconds = 0;   // no layout is faster
    double estimate = 0;  // without overlap: a good order to try
    double memory = 0;    // no layout takes less, in bytes
  };
  // `compute` is ComputeSeconds of the same layout; `once` as
  // AxisRoles::keep_gathered.
  Bound Of(const Roles& roles, double compute, bool once = false) const;
  // Lower bound on the memory of any layout, in the space or not.
  double MemoryOf(const AxisRoles& roles) const;

 private:
  // An entry of an Amount. Some device has its share of it: each dimension
  // divided by its axes, rounded up.
  struct AmountEntry {
    DimSet dims;
    Sizes sizes;
    double bytes;
  };
  using AmountEntries = std::vector<AmountEntry>;

  // Sharded dimensions by axis, of each section.
  using AxisDims = absl::InlinedVector<DimSet, kMaxMeshAxes + 1>;
  struct ShardedDims {
    explicit ShardedDims(const AxisRoles& roles);
    AxisDims defaults, parameters, optimizer, all;
  };

  static AmountEntries EntriesOf(const Amount& amount);
  // Bytes per device; cached, since many layouts agree on some sections.
  double Share(const AmountEntries& entries,
               absl::Span<const DimSet> sharded) const;
  double ShareOf(const AmountEntries& entries,
                 absl::Span<const DimSet> sharded) const;
  double MemoryOf(const ShardedDims& sharded) const;
  // Seconds of all collectives, and of those that compute waits for.
  std::pair<double, double> Collectives(const Roles& roles,
                                        const ShardedDims& sharded,
                                        bool once) const;
  // Bytes of gathered parameters that are kept.
  double KeptBytes(const AxisRoles& roles, const ShardedDims& sharded) const;
  // The axes that transfer values of the same dimensions, as bits by index in
  // space.axes.
  struct TransferAxes {
    size_t all = 0;
    // In a way that may go with a gather for use, and for the update.
    std::array<size_t, 2> gather = {0, 0};
    size_t reduce = 0;   // reduce the same values
    bool mixed = false;  // any section's shards may count
  };
  // Of what one axis moves.
  double SecondsOf(const LayoutTraffic& move, size_t axis,
                   const TransferAxes& transfer_axes,
                   const ShardedDims& sharded) const;

  const WorkloadSummary& workload_;
  const SearchSpace& space_;
  const SearchPrices& prices_;
  std::vector<double> sizes_;  // by index in space.axes
  AmountEntries maps_, update_maps_, parameter_maps_, parameters_, states_,
      saved_, kept_;
  std::vector<const AxisTraffic*> traffic_;  // by index in space.axes
  CollectiveTimes times_;
  double launch_ = 0, copy_rate_ = 0;  // of a copy: seconds, and of a byte
  mutable absl::flat_hash_map<std::pair<const AmountEntries*, AxisDims>, double>
      shares_;
};

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_BOUNDS_H_
