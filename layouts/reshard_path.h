// SPDX-License-Identifier: Apache-2.0
#ifndef LAYOUTS_RESHARD_PATH_H_
#define LAYOUTS_RESHARD_PATH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layouts/mesh.h"
#include "layouts/tensor_layout.h"
#include "mtf/shape.h"

namespace mtf {

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kAllGather,
  kAllSlice,
  kReduceScatter,
  kAllToAll,
  kCollectivePermute,
};
inline constexpr int kNumCollectiveKinds = 6;
absl::string_view CollectiveName(CollectiveKind kind);  // "all_reduce"

// One collective of a reshard. `axes` is the group it runs in, major to minor.
//
//   all_reduce           sums over axes
//   all_gather           removes axes, the last of `dim`, from its list
//   all_slice            appends axes to the list of `dim`; no traffic
//   reduce_scatter       sums over axes and appends them to the list of `dim`
//   all_to_all           moves axes from the end of `from_dim` to the end of
//                        `dim`
//   collective_permute   every rank takes the shard that `layout` gives it from
//                        a rank that has it; the number of shards of each
//                        dimension stays. `axes` are the axes whose role
//                        changes.
struct ReshardStep {
  CollectiveKind kind;
  int dim = -1;
  int from_dim = -1;
  AxisList axes;
  TensorLayout layout;  // after the step

  friend bool operator==(const ReshardStep&, const ReshardStep&) = default;
};

// The steps from `source` to `target`: among all sequences of these
// collectives whose every intermediate is no larger in memory than the larger
// of the two ends, one with the fewest bytes on the wire, and among those the
// fewest calls. `target` has nothing unreduced that `source` has not.
//
// Deterministic; the time to plan does not depend on the number of ranks. A
// search that grows out of hand, which takes a mesh of more than four axes and
// dimensions that may use most of them, ends with a good path instead of the
// best. Common reshards take a microsecond, searches where each dimension has
// an axis or two some tens.
std::vector<ReshardStep> PlanReshard(const Grains& grains, const Shape& shape,
                                     const TensorLayout& source,
                                     const TensorLayout& target);

// Gather everything that changes (reduce everything unreduced), then slice:
// the yardstick that PlanReshard never exceeds.
std::vector<ReshardStep> PlanNaiveReshard(const Grains& grains,
                                          const Shape& shape,
                                          const TensorLayout& source,
                                          const TensorLayout& target);

// Bytes that each rank sends in one collective over `group_size` ranks whose
// operand takes `operand_bytes` per rank (ring algorithms; the formulas of
// Thakur, Rabenseifner and Gropp 2005): all_reduce 2(n-1)/n S, reduce_scatter
// and all_to_all (n-1)/n S, all_gather (n-1) S, collective_permute S,
// all_slice 0.
int64_t WireBytes(CollectiveKind kind, int64_t group_size,
                  int64_t operand_bytes);

// The bytes of a whole path for a value of `element_size`-byte elements.
int64_t PathBytes(const Grains& grains, const Shape& shape,
                  const TensorLayout& source,
                  const std::vector<ReshardStep>& path, int element_size);

// The rank whose shard under `source` is the one that `rank` needs under
// `target`, where both cut each dimension into equally many shards. For every
// pair of layouts this is a permutation of the ranks: each rank also serves
// exactly one.
int64_t PermuteSource(const Mesh& mesh, const TensorLayout& source,
                      const TensorLayout& target, int64_t rank);

}  // namespace mtf

#endif  // LAYOUTS_RESHARD_PATH_H_
