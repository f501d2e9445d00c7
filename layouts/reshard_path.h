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

// One collective of a reshard. `axes` spans the groups in which it runs, major
// to minor. By its effect on the layout:
//
//   all_reduce           `axes` are no longer unreduced
//   all_gather           removes `axes` from the end of the list of `dim`
//   all_slice            appends `axes` to the list of `dim`; sends nothing
//   reduce_scatter       `axes` are no longer unreduced, and are appended to
//   the
//                        list of `dim`
//   all_to_all           moves `axes` from the end of `from_dim` to the end of
//                        `dim`
//   collective_permute   every rank receives the shard it holds in `layout`
//   from
//                        a rank that has it; the number of shards of each
//                        dimension does not change. `axes` are the axes whose
//                        dimension or stride changes.
struct ReshardStep {
  CollectiveKind kind;
  int dim = -1;
  int from_dim = -1;
  AxisList axes;
  TensorLayout layout;  // after the step

  friend bool operator==(const ReshardStep&, const ReshardStep&) = default;
};

// The cheapest path from `source` to `target`: of all sequences of these
// collectives in which no intermediate value takes more memory than the larger
// end, one that sends the fewest bytes and, among those, has the fewest steps.
// The unreduced axes of `target` are unreduced in `source`.
//
// Deterministic; the time does not depend on the number of ranks. On meshes of
// up to four axes the path is optimal. On larger ones, if dimensions may use
// most of the axes, the search can stop at its limit (SearchReshard). Common
// reshards take a microsecond to plan; searches in which each dimension has one
// or two axes take tens of microseconds.
std::vector<ReshardStep> PlanReshard(const Grains& grains, const Shape& shape,
                                     const TensorLayout& source,
                                     const TensorLayout& target);

// The limit of PlanReshard: about 20 ms. Searches on meshes of four axes stay
// far below it.
inline constexpr int64_t kMostReshardMoves = 100000;

// The result of SearchReshard.
struct ReshardPlan {
  std::vector<ReshardStep> steps;
  bool cheapest = true;  // false if the search stopped at its limit
  int64_t moves = 0;     // collectives that the search tried
};

// PlanReshard with another limit on the collectives that the search tries. A
// search that reaches the limit returns the cheapest path that it knows: never
// one that sends more bytes than PlanNaiveReshard's.
ReshardPlan SearchReshard(const Grains& grains, const Shape& shape,
                          const TensorLayout& source,
                          const TensorLayout& target, int64_t most_moves);

// The obvious path: reduce, gather every dimension that changes, then slice.
// PlanReshard never sends more bytes.
std::vector<ReshardStep> PlanNaiveReshard(const Grains& grains,
                                          const Shape& shape,
                                          const TensorLayout& source,
                                          const TensorLayout& target);

// The bytes that each rank sends in a collective over `group_size` = n ranks
// whose operand takes `operand_bytes` = S per rank, by ring algorithms (Thakur,
// Rabenseifner and Gropp, 2005):
//
//   all_reduce                   2 (n-1)/n S
//   reduce_scatter, all_to_all   (n-1)/n S
//   all_gather                   (n-1) S
//   collective_permute           S
//   all_slice                    0
int64_t WireBytes(CollectiveKind kind, int64_t group_size,
                  int64_t operand_bytes);

// The bytes that each rank sends in all steps of `path`, for a value whose
// elements take `element_size` bytes.
int64_t PathBytes(const Grains& grains, const Shape& shape,
                  const TensorLayout& source,
                  const std::vector<ReshardStep>& path, int element_size);

// The rank from which `rank` receives its shard in a collective_permute from
// `source` to `target`, which shard each dimension into equally many shards.
// This is a permutation: each rank sends to exactly one rank.
int64_t PermuteSource(const Mesh& mesh, const TensorLayout& source,
                      const TensorLayout& target, int64_t rank);

}  // namespace mtf

#endif  // LAYOUTS_RESHARD_PATH_H_
