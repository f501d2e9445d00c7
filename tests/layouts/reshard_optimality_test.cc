// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (a large search)
// Build: -O1 (most of the time is spent in its own loops)
//
// PlanReshard returns a path with the fewest bytes and then the fewest steps.
// Compares it with all shortest paths of a small graph, whose edges are found
// by comparing pairs of layouts instead of generating moves.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "layouts/all_layouts.h"
#include "layouts/reshard_path.h"
#include "layouts/shard.h"

namespace mtf {
namespace {

using ::mtf::internal::AllLayouts;
using Cost = std::pair<int64_t, int>;  // bytes, calls

constexpr Cost kNoPath = {std::numeric_limits<int64_t>::max(), 0};
constexpr int kElementSize = 4;

// The axes of `longer` after its prefix `shorter`; empty if it has no such
// prefix.
AxisList Extension(const AxisList& shorter, const AxisList& longer) {
  if (shorter.size() >= longer.size()) return {};
  if (longer.Prefix(shorter.size()) != shorter) return {};
  return longer.Suffix(shorter.size());
}

class ReshardGraph {
 public:
  ReshardGraph(const Grains& grains, const Shape& shape)
      : grains_(grains), shape_(shape) {
    for (const TensorLayout& layout :
         AllLayouts(grains.mesh(), shape.rank(), /*unreduced=*/true)) {
      bool allowed = true;
      for (int i = 0; i < shape.rank(); ++i) {
        allowed &= (SetOf(layout.dims[i]) & ~grains.AxesOf(shape[i].name)) == 0;
      }
      if (allowed) layouts_.push_back(layout);
    }
    for (const TensorLayout& layout : layouts_) {
      elements_.push_back(LocalElements(grains, shape, layout));
    }
    edges_.resize(layouts_.size());
    for (size_t a = 0; a < layouts_.size(); ++a) {
      for (size_t b = 0; b < layouts_.size(); ++b) {
        const int64_t bytes = EdgeBytes(a, b);
        if (a != b && bytes >= 0) {
          edges_[a].emplace_back(static_cast<int>(b), bytes);
        }
      }
    }
  }

  const std::vector<TensorLayout>& layouts() const { return layouts_; }

  // The least cost from `source` to all layouts, over layouts of at most
  // `limit` elements per rank.
  std::vector<Cost> CostsFrom(int source, int64_t limit) const {
    std::vector<Cost> costs(layouts_.size(), kNoPath);
    std::vector<bool> done(layouts_.size(), false);
    costs[source] = {0, 0};
    while (true) {
      int nearest = -1;
      for (size_t i = 0; i < layouts_.size(); ++i) {
        if (!done[i] && costs[i] != kNoPath &&
            (nearest < 0 || costs[i] < costs[nearest])) {
          nearest = static_cast<int>(i);
        }
      }
      if (nearest < 0) return costs;
      done[nearest] = true;
      for (const auto& [next, bytes] : edges_[nearest]) {
        if (elements_[next] > limit) continue;
        costs[next] = std::min(costs[next], {costs[nearest].first + bytes,
                                             costs[nearest].second + 1});
      }
    }
  }

  // PlanReshard against the graph, for every pair with every source.
  void CheckAllPairs() const {
    for (size_t s = 0; s < layouts_.size(); ++s) {
      // One run per bound on memory serves all targets with that bound.
      std::vector<std::pair<int64_t, std::vector<Cost>>> by_limit;
      for (size_t t = 0; t < layouts_.size(); ++t) {
        if (layouts_[t].unreduced != 0) continue;
        const int64_t limit = std::max(elements_[s], elements_[t]);
        auto found = std::find_if(
            by_limit.begin(), by_limit.end(),
            [&](const auto& entry) { return entry.first == limit; });
        if (found == by_limit.end()) {
          by_limit.emplace_back(limit, CostsFrom(static_cast<int>(s), limit));
          found = by_limit.end() - 1;
        }
        const std::vector<ReshardStep> path =
            PlanReshard(grains_, shape_, layouts_[s], layouts_[t]);
        const Cost cost = {
            PathBytes(grains_, shape_, layouts_[s], path, kElementSize),
            static_cast<int>(path.size())};
        ASSERT_EQ(cost, found->second[t])
            << LayoutText(grains_.mesh(), shape_, layouts_[s]) << " to "
            << LayoutText(grains_.mesh(), shape_, layouts_[t]);
      }
    }
  }

 private:
  // The bytes of the one collective from layout `a` to `b`; -1 for none.
  int64_t EdgeBytes(int a, int b) const {
    const TensorLayout& from = layouts_[a];
    const TensorLayout& to = layouts_[b];
    std::vector<int> longer, shorter;
    AxisList added, removed;
    bool equal_counts = true;
    int changed = 0;
    for (int i = 0; i < shape_.rank(); ++i) {
      const Mesh& mesh = grains_.mesh();
      equal_counts &= mesh.SizeOf(from.dims[i]) == mesh.SizeOf(to.dims[i]);
      if (from.dims[i] == to.dims[i]) continue;
      ++changed;
      if (!Extension(from.dims[i], to.dims[i]).empty()) {
        longer.push_back(i);
        added = Extension(from.dims[i], to.dims[i]);
      }
      if (!Extension(to.dims[i], from.dims[i]).empty()) {
        shorter.push_back(i);
        removed = Extension(to.dims[i], from.dims[i]);
      }
    }
    if ((to.unreduced & ~from.unreduced) != 0) return -1;
    const AxisSet reduced = from.unreduced & ~to.unreduced;
    const bool one_longer = changed == 1 && longer.size() == 1;
    const bool one_shorter = changed == 1 && shorter.size() == 1;
    if (reduced != 0) {
      if (changed == 0) {
        return Bytes(CollectiveKind::kAllReduce, ListOf(reduced), a);
      }
      if (one_longer && SetOf(added) == reduced) {
        return Bytes(CollectiveKind::kReduceScatter, added, a);
      }
      return -1;
    }
    if (one_longer) return 0;
    if (one_shorter) return Bytes(CollectiveKind::kAllGather, removed, a);
    if (changed == 2 && longer.size() == 1 && shorter.size() == 1 &&
        added == removed) {
      return Bytes(CollectiveKind::kAllToAll, added, a);
    }
    if (equal_counts) {
      return Bytes(CollectiveKind::kCollectivePermute, {}, a);
    }
    return -1;
  }

  int64_t Bytes(CollectiveKind kind, const AxisList& axes, int a) const {
    return WireBytes(kind, grains_.mesh().SizeOf(axes),
                     elements_[a] * kElementSize);
  }

  const Grains& grains_;
  const Shape& shape_;
  std::vector<TensorLayout> layouts_;
  std::vector<int64_t> elements_;
  std::vector<std::vector<std::pair<int, int64_t>>> edges_;
};

// Sizes that every group divides, so that no cost is rounded.
Shape EvenShape(int rank) {
  const std::vector<Dimension> dims = {{"a", 48}, {"b", 48}, {"c", 48}};
  return Shape(std::vector<Dimension>(dims.begin(), dims.begin() + rank));
}

TEST(ReshardOptimality, NoPathIsCheaperWhereEveryAxisIsAllowed) {
  for (const char* text : {"x:4", "x:2,y:2", "x:2,y:3", "x:2,y:4", "x:4,y:3",
                           "x:2,y:2,z:2", "x:2,y:3,z:2", "x:2,y:2,z:4"}) {
    const Mesh mesh = *Mesh::Parse(text);
    for (int rank : {1, 2, 3}) {
      if (rank == 3 && mesh.num_axes() == 3 && mesh.num_devices() > 8) continue;
      SCOPED_TRACE(absl::StrCat(text, ", ", rank, " dimensions"));
      const Shape shape = EvenShape(rank);
      Grains grains(mesh);
      for (const Dimension& dim : shape) {
        grains.Allow(dim.name, (AxisSet{1} << mesh.num_axes()) - 1);
      }
      ReshardGraph(grains, shape).CheckAllPairs();
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ReshardOptimality, NoPathIsCheaperWhereRulesAllowSomeAxes) {
  std::mt19937 random(1);
  for (int round = 0; round < 40; ++round) {
    const Mesh mesh = *Mesh::Parse(round % 2 ? "x:2,y:4,z:3" : "x:2,y:2,z:2");
    const Shape shape = EvenShape(3);
    Grains grains(mesh);
    for (const Dimension& dim : shape) grains.Allow(dim.name, random() % 8);
    SCOPED_TRACE(absl::StrCat("round ", round));
    ReshardGraph(grains, shape).CheckAllPairs();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace mtf
