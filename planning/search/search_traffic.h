// SPDX-License-Identifier: Apache-2.0
//
// The bytes that collectives over one mesh axis transfer whatever the other
// axes do: input of SearchBounds.
#ifndef PLANNING_SEARCH_SEARCH_TRAFFIC_H_
#define PLANNING_SEARCH_SEARCH_TRAFFIC_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "planning/search/search_layouts.h"
#include "planning/search/search_space.h"
#include "planning/search/search_step.h"

namespace mtf::internal {

// Values with the same dimensions that one kind of collective transfers in a
// step.
struct LayoutTraffic {
  DimSet dims;
  CollectiveKind kind;
  bool optimizer;  // the operation belongs to the optimizer
  bool waits;      // compute waits for the collective
  int64_t value;   // bytes of one value
  uint64_t name;   // NameKey of the operation
  double bytes;    // bytes of all values
};

// Whether several collectives may be bucketed into one call
// (bucket_all_reduces.h).
bool IsReduction(CollectiveKind kind);

struct RoleTraffic {
  std::vector<LayoutTraffic> transfers;  // in order of dimensions
  double stops = 0;                      // number of times that compute waits
};

// The traffic of each role of one axis: with parameters gathered for each use
// (`repeated`), and gathered once.
struct AxisTraffic {
  std::vector<RoleTraffic> repeated, once;
};

// The transfers of each role of an axis with `size` devices that is the only
// axis. A pure function of its arguments. A role that does not lower has no
// transfers.
AxisTraffic AxisTrafficOf(const SearchStep& step, const SearchSpace& space,
                          int64_t size);

// Caches AxisTrafficOf for the meshes of one search.
class TrafficTable {
 public:
  const AxisTraffic& Get(const SearchStep& step, const SearchSpace& space,
                         int64_t size);

 private:
  // By size of the axis and whether the space is restricted.
  std::map<std::pair<int64_t, bool>, AxisTraffic> known_;
};

// Lower bounds on the seconds of collectives on a mesh, by kind, by axis (index
// in space.axes) and by a set of axes: the minimum over all subsets that
// contain the axis.
class CollectiveTimes {
 public:
  // The arguments must outlive the object.
  CollectiveTimes(const SearchSpace& space, const SearchPrices& prices);

  // Seconds per byte, the least of all message sizes.
  double Rate(CollectiveKind kind, size_t axis, size_t set) const {
    return rates_[static_cast<size_t>(kind)][axis][set];
  }
  // Seconds of a collective of `bytes` bytes. It may be bucketed with others,
  // which count by their rate.
  double Seconds(CollectiveKind kind, size_t axis, size_t set,
                 double bytes) const;
  // The least seconds of any collective over the axis.
  double Latency(size_t axis) const { return latencies_[axis]; }

 private:
  AxisList AxesOf(size_t group) const;

  const SearchSpace& space_;
  const SearchPrices& prices_;
  std::vector<std::vector<std::vector<double>>> rates_;
  std::vector<double> latencies_;
  // Cached results of Seconds, by kind, axes and bytes.
  mutable absl::flat_hash_map<std::tuple<int, size_t, int64_t>, double> known_;
};

// The least seconds per byte of a kernel that copies.
double CopyRate(const SearchPrices& prices);

// Whether two axes of space.axes have the same size and speed, alone and in
// every group, so that swapping them does not change the cost of a layout.
bool AreAlike(const SearchSpace& space, const SearchPrices& prices, int a,
              int b);

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_TRAFFIC_H_
