// SPDX-License-Identifier: Apache-2.0
//
// The bytes that collectives over one mesh axis transfer in any case, whatever
// the other axes do: input of SearchBounds.
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

// Values of equal dimensions that one kind of collective moves in a step.
struct LayoutTraffic {
  DimSet dims;
  CollectiveKind kind;
  bool optimizer;  // by operations of the optimizer
  bool waits;      // compute waits for it
  int64_t value;   // bytes of one value
  uint64_t name;   // NameKey of the operation
  double bytes;    // of all
};

// Whether several may be joined into one call (bucket_all_reduces.h).
bool IsReduction(CollectiveKind kind);

struct RoleTraffic {
  std::vector<LayoutTraffic> moves;  // in order of dimensions
  double stops = 0;                  // how often compute waits
};

// By role of one axis: with parameters gathered for each use, and gathered
// once.
struct AxisTraffic {
  std::vector<RoleTraffic> repeated, once;
};

// The transfers of each role of an axis of `size` devices that is the only
// axis. A pure function of its arguments; a role that does not lower has none.
AxisTraffic AxisTrafficOf(const SearchStep& step, const SearchSpace& space,
                          int64_t size);

// AxisTrafficOf for the meshes of one search, each computed once.
class TrafficTable {
 public:
  const AxisTraffic& Get(const SearchStep& step, const SearchSpace& space,
                         int64_t size);

 private:
  // By size of the axis and whether the space is restricted.
  std::map<std::pair<int64_t, bool>, AxisTraffic> known_;
};

// Lower bounds on the seconds of collectives on a mesh, by kind, index of an
// axis in space.axes and set of axes: the minimum over all groups within the
// set that contain the axis.
class CollectiveTimes {
 public:
  // Both must outlive the object.
  CollectiveTimes(const SearchSpace& space, const SearchPrices& prices);

  // Seconds of a byte, over all sizes of messages.
  double Rate(CollectiveKind kind, size_t axis, size_t set) const {
    return rates_[static_cast<size_t>(kind)][axis][set];
  }
  // Seconds of a collective of so many bytes, to which others may be joined
  // that count by their rate.
  double Seconds(CollectiveKind kind, size_t axis, size_t set,
                 double bytes) const;
  // The least seconds of any collective that the axis takes part in.
  double Latency(size_t axis) const { return latencies_[axis]; }

 private:
  AxisList AxesOf(size_t group) const;

  const SearchSpace& space_;
  const SearchPrices& prices_;
  std::vector<std::vector<std::vector<double>>> rates_;
  std::vector<double> latencies_;
  // Results of Seconds, by kind, group and bytes.
  mutable absl::flat_hash_map<std::tuple<int, size_t, int64_t>, double> known_;
};

// The least seconds of a byte that a kernel copies.
double CopyRate(const SearchPrices& prices);

// Whether two axes of space.axes have the same size and speed, alone and in
// every group, so that swapping them does not change the cost of a layout.
bool AreAlike(const SearchSpace& space, const SearchPrices& prices, int a,
              int b);

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_TRAFFIC_H_
