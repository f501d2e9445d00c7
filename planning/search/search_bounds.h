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

// Lower bounds on the time and memory of every layout of a space. They hold for
// the present passes, for these reasons:
//
//   compute      Every kernel of the step on one device also runs on many:
//                sharding adds masks and copies and prevents fusion, but
//                removes no kernel. The iteration space of a kernel is divided
//                by the axes that shard one of its dimensions. The device with
//                the largest share has the quotient rounded up.
//   collectives  The transfers that one axis causes are read from the program
//                lowered on that axis alone. Each other axis divides the
//                transferred values at most once. A sum may cover only the
//                shards that another section needs; ranks that would all
//                compute the same sum may each compute a share and gather it.
//                One collective over several axes may replace those of the
//                single axes, so only the most expensive axis counts, in the
//                fastest group that contains it. An all_gather is not merged
//                with a reduce_scatter. Every collective is a separate call,
//                except sums that may be bucketed: they count by the best rate
//                of any size.
//   step         At least the time of all collectives. Also at least the time
//                of compute plus the collectives that cannot overlap: those
//                whose operand the previous kernel computes and whose result
//                the next kernel reads, each at least the latency of a message.
//                Gathers of parameters can start earlier. Without overlap, the
//                sum of compute and collectives.
//   memory       Variables, gathered parameters that are kept, and the values
//                that are live at the peak of the step on one device. The peak
//                is between the forward and the backward pass, and no pass
//                moves a value across it: a forward value that the backward
//                pass reads has two readers, so it is not inside a fused map.
//                It is in memory, or its operand is if it is rematerialized,
//                which may change the sum by a tensor or two.
class SearchBounds {
 public:
  // `workload` is the result of SummarizeStep for `step`. Lowers the step on
  // each axis alone under each role, unless `table` has the result. The last
  // four arguments must outlive the object.
  SearchBounds(const SearchStep& step, const WorkloadSummary& workload,
               const SearchSpace& space, const SearchPrices& prices,
               TrafficTable& table);

  // The time of compute that the default section determines. `sharded`: the
  // dimensions that each axis shards, by index in space.axes.
  double ComputeSeconds(absl::Span<const DimSet> sharded) const;

  struct Bound {
    double seconds = 0;   // no layout is faster
    double estimate = 0;  // without overlap; candidates are tried in this order
    double memory = 0;    // bytes; no layout takes less
  };
  // `compute` is ComputeSeconds of the same layout; `keep_gathered` is that of
  // AxisRoles.
  Bound Of(const Roles& roles, double compute,
           bool keep_gathered = false) const;
  // Lower bound on the memory of any layout, in the space or not.
  double MemoryOf(const AxisRoles& roles) const;

 private:
  // One entry of BytesByDims. The device with the largest share has each
  // dimension divided by its axes, rounded up.
  struct Term {
    DimSet dims;
    Sizes sizes;
    double bytes;
  };
  using Terms = std::vector<Term>;

  // The sharded dimensions of each section, by axis.
  using AxisDims = absl::InlinedVector<DimSet, kMaxMeshAxes + 1>;
  struct ShardedDims {
    explicit ShardedDims(const AxisRoles& roles);
    AxisDims defaults, parameters, optimizer, all;
  };

  static Terms TermsOf(const BytesByDims& bytes);
  // Bytes per device. Cached, since many layouts agree in some sections.
  double CachedShareOf(const Terms& terms,
                       absl::Span<const DimSet> sharded) const;
  double ShareOf(const Terms& terms, absl::Span<const DimSet> sharded) const;
  double MemoryOf(const ShardedDims& sharded) const;
  // Seconds of all collectives, and seconds of those that compute waits for.
  std::pair<double, double> Collectives(const Roles& roles,
                                        const ShardedDims& sharded,
                                        bool keep_gathered) const;
  // Bytes of gathered parameters that are kept.
  double KeptBytes(const AxisRoles& roles, const ShardedDims& sharded) const;
  // The axes that transfer values of the same dimensions, as bits by index in
  // space.axes.
  struct TransferAxes {
    size_t all = 0;
    // Those whose transfer may be merged with a gather: [0] for use, [1] for
    // the update.
    std::array<size_t, 2> gather = {0, 0};
    size_t reduce = 0;   // reduce the same values
    bool mixed = false;  // the shards of any section may divide the values
  };
  // A lower bound on the time of one transfer of one axis.
  double SecondsOf(const LayoutTraffic& transfer, size_t axis,
                   const TransferAxes& transfer_axes,
                   const ShardedDims& sharded) const;

  const WorkloadSummary& workload_;
  const SearchSpace& space_;
  const SearchPrices& prices_;
  std::vector<double> sizes_;  // by index in space.axes
  Terms maps_, update_maps_, parameter_maps_, parameters_, states_, saved_,
      kept_;
  std::vector<const AxisTraffic*> traffic_;  // by index in space.axes
  CollectiveTimes times_;
  double launch_ = 0;     // seconds of an empty copy
  double copy_rate_ = 0;  // seconds per copied byte
  mutable absl::flat_hash_map<std::pair<const Terms*, AxisDims>, double>
      shares_;
};

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_BOUNDS_H_
