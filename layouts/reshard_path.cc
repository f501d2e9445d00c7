// SPDX-License-Identifier: Apache-2.0
#include "layouts/reshard_path.h"

#include <algorithm>
#include <limits>

#include "absl/numeric/int128.h"
#include "layouts/shard.h"
#include "mtf/check.h"

namespace mtf {
namespace {

int CommonPrefix(const AxisList& a, const AxisList& b) {
  int length = 0;
  while (length < std::min(a.size(), b.size()) && a[length] == b[length]) {
    ++length;
  }
  return length;
}

}  // namespace

absl::string_view CollectiveName(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kAllSlice:
      return "all_slice";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
    case CollectiveKind::kCollectivePermute:
      return "collective_permute";
  }
  return "?";
}

std::vector<ReshardStep> PlanNaiveReshard(const Grains&, const Shape& shape,
                                          const TensorLayout& source,
                                          const TensorLayout& target) {
  std::vector<ReshardStep> path;
  TensorLayout layout = source;
  if (const AxisSet reduced = source.unreduced & ~target.unreduced) {
    layout.unreduced = target.unreduced;
    layout.reduction = target.reduction;
    path.push_back(
        {CollectiveKind::kAllReduce, -1, -1, ListOf(reduced), layout});
  }
  for (int i = 0; i < shape.rank(); ++i) {
    const int kept = CommonPrefix(source.dims[i], target.dims[i]);
    if (kept == source.dims[i].size()) continue;
    layout.dims[i] = source.dims[i].Prefix(kept);
    path.push_back({CollectiveKind::kAllGather, i, -1,
                    source.dims[i].Suffix(kept), layout});
  }
  for (int i = 0; i < shape.rank(); ++i) {
    const int kept = layout.dims[i].size();
    if (kept == target.dims[i].size()) continue;
    layout.dims[i] = target.dims[i];
    path.push_back({CollectiveKind::kAllSlice, i, -1,
                    target.dims[i].Suffix(kept), layout});
  }
  return path;
}

int64_t WireBytes(CollectiveKind kind, int64_t group_size,
                  int64_t operand_bytes) {
  const absl::int128 n = group_size;
  const absl::int128 bytes = operand_bytes;
  absl::int128 sent = 0;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      // Rounded up: with uneven chunks a ring sends the larger ones.
      sent = (2 * (n - 1) * bytes + n - 1) / n;
      break;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      sent = ((n - 1) * bytes + n - 1) / n;
      break;
    case CollectiveKind::kAllGather:
      sent = (n - 1) * bytes;
      break;
    case CollectiveKind::kCollectivePermute:
      sent = bytes;
      break;
    case CollectiveKind::kAllSlice:
      break;
  }
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return sent > kMost ? kMost : static_cast<int64_t>(sent);
}

int64_t PathBytes(const Grains& grains, const Shape& shape,
                  const TensorLayout& source,
                  const std::vector<ReshardStep>& path, int element_size) {
  int64_t bytes = 0;
  const TensorLayout* before = &source;
  for (const ReshardStep& step : path) {
    bytes += WireBytes(step.kind, grains.mesh().SizeOf(step.axes),
                       LocalElements(grains, shape, *before) * element_size);
    before = &step.layout;
  }
  return bytes;
}

int64_t PermuteSource(const Mesh& mesh, const TensorLayout& source,
                      const TensorLayout& target, int64_t rank) {
  MTF_CHECK_EQ(source.dims.size(), target.dims.size());
  const AxisSet in_source = source.Sharded();
  const AxisSet in_target = target.Sharded();
  // Let `left` be the axes that only the source uses and `entered` those that
  // only the target uses; the products of their sizes are equal. The replicas
  // of a shard differ along `entered` under the source and along `left` under
  // the target. They are paired by their coordinate along these axes.
  const AxisList left = ListOf(in_source & ~in_target);
  const AxisList entered = ListOf(in_target & ~in_source);
  MTF_CHECK_EQ(mesh.SizeOf(left), mesh.SizeOf(entered));

  // A rank that holds the shard under both layouts...
  int64_t holder = rank;
  for (size_t i = 0; i < target.dims.size(); ++i) {
    holder = mesh.WithCoordinate(holder, source.dims[i],
                                 mesh.Coordinate(rank, target.dims[i]));
  }
  // ...is paired with itself if the coordinates are shifted by the difference
  // along `left`.
  const int64_t count = mesh.SizeOf(left);
  const int64_t coordinate =
      (mesh.Coordinate(rank, left) - mesh.Coordinate(holder, left) +
       mesh.Coordinate(rank, entered) + count) %
      count;
  return mesh.WithCoordinate(holder, entered, coordinate);
}

}  // namespace mtf
