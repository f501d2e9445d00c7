// SPDX-License-Identifier: Apache-2.0
#include "layouts/reshard_path.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layouts/all_layouts.h"
#include "layouts/shard.h"

namespace mtf {
namespace {

using ::mtf::internal::AllLayouts;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TensorLayout LayoutOf(std::vector<AxisList> dims, AxisSet unreduced = 0) {
  TensorLayout layout = TensorLayout::Replicated(static_cast<int>(dims.size()));
  std::copy(dims.begin(), dims.end(), layout.dims.begin());
  layout.unreduced = unreduced;
  return layout;
}

// A value of dimensions a, b, c... on a mesh, and the axes each may use.
class Reshards {
 public:
  Reshards(absl::string_view mesh, std::vector<AxisSet> allowed,
           int64_t size = 48)
      : grains_(*Mesh::Parse(mesh)) {
    std::vector<Dimension> dims;
    for (size_t i = 0; i < allowed.size(); ++i) {
      dims.push_back({std::string(1, static_cast<char>('a' + i)), size});
      grains_.Allow(dims.back().name, allowed[i]);
    }
    shape_ = Shape(dims);
  }

  const Grains& grains() const { return grains_; }
  const Shape& shape() const { return shape_; }

  std::vector<ReshardStep> Plan(const TensorLayout& source,
                                const TensorLayout& target) const {
    return PlanReshard(grains_, shape_, source, target);
  }

  // "all_to_all x a->b", a string for each step of the plan.
  std::vector<std::string> Steps(const TensorLayout& source,
                                 const TensorLayout& target) const {
    std::vector<std::string> steps;
    for (const ReshardStep& step : Plan(source, target)) {
      std::string text = absl::StrCat(CollectiveName(step.kind), " ",
                                      grains_.mesh().AxisNames(step.axes));
      if (step.from_dim >= 0) {
        absl::StrAppend(&text, " ", shape_[step.from_dim].name, "->",
                        shape_[step.dim].name);
      } else if (step.dim >= 0) {
        absl::StrAppend(&text, " ", shape_[step.dim].name);
      }
      steps.push_back(text);
    }
    return steps;
  }

 private:
  Grains grains_;
  Shape shape_;
};

TEST(PlanReshard, EqualLayoutsNeedNoStep) {
  const Reshards on("x:2,y:2", {3, 3});
  EXPECT_THAT(on.Steps(LayoutOf({{0}, {1}}), LayoutOf({{0}, {1}})), IsEmpty());
}

TEST(PlanReshard, CommonCasesAreOneCollective) {
  const Reshards on("x:2,y:4", {1, 3});
  EXPECT_THAT(on.Steps(LayoutOf({{0}, {}}), LayoutOf({{}, {}})),
              ElementsAre("all_gather x a"));
  EXPECT_THAT(on.Steps(LayoutOf({{}, {}}), LayoutOf({{0}, {}})),
              ElementsAre("all_slice x a"));
  EXPECT_THAT(on.Steps(LayoutOf({{0}, {1}}), LayoutOf({{}, {1, 0}})),
              ElementsAre("all_to_all x a->b"));
  EXPECT_THAT(on.Steps(LayoutOf({{0}, {}}, 2), LayoutOf({{0}, {1}})),
              ElementsAre("reduce_scatter y b"));
  EXPECT_THAT(on.Steps(LayoutOf({{0}, {}}, 2), LayoutOf({{0}, {}})),
              ElementsAre("all_reduce y"))
      << "where the other axis is in use";
  EXPECT_THAT(on.Steps(LayoutOf({{}, {0, 1}}), LayoutOf({{}, {1, 0}})),
              ElementsAre("collective_permute x+y"));
  EXPECT_THAT(on.Steps(LayoutOf({{}, {}}), LayoutOf({{}, {1, 0}})),
              ElementsAre("all_slice y+x b"))
      << "several axes at once";
  EXPECT_THAT(on.Steps(LayoutOf({{}, {1, 0}}), LayoutOf({{}, {}})),
              ElementsAre("all_gather y+x b"));
}

TEST(PlanReshard, AScalarSumIsOneAllReduceOverAllItsAxes) {
  const Reshards on("x:2,y:4", {});
  EXPECT_THAT(on.Steps(LayoutOf({}, 3), LayoutOf({})),
              ElementsAre("all_reduce x+y"));
}

TEST(PlanReshard, SlicesBeforeItGathers) {
  const Reshards on("x:4,y:2", {1, 2});
  EXPECT_THAT(on.Steps(LayoutOf({{0}, {}}), LayoutOf({{}, {1}})),
              ElementsAre("all_slice y b", "all_gather x a"));
}

TEST(PlanReshard, GradientIsReduceScattered) {
  // zero3: the gradient of a parameter [a, b] with a sharded over "data".
  const Reshards on("data:8,model:2", {1, 2});
  EXPECT_THAT(on.Steps(LayoutOf({{}, {1}}, 1), LayoutOf({{0}, {1}})),
              ElementsAre("reduce_scatter data a"));
}

TEST(PlanReshard, ReplicasDivideAReductionIfADimensionAllowsIt) {
  const Reshards on("x:4,y:2", {2});
  EXPECT_THAT(on.Steps(LayoutOf({{}}, 1), LayoutOf({{}})),
              ElementsAre("all_slice y a", "all_reduce x", "all_gather y a"));
}

TEST(PlanReshard, ReductionKindIsClearedWithItsLastAxis) {
  const Reshards on("x:2,y:2", {0});
  TensorLayout source = LayoutOf({{}}, 3);
  source.reduction = ReduceKind::kMax;
  TensorLayout target = LayoutOf({{}}, 1);
  target.reduction = ReduceKind::kMax;
  EXPECT_EQ(on.Plan(source, target).back().layout, target);
  EXPECT_EQ(on.Plan(source, LayoutOf({{}})).back().layout, LayoutOf({{}}));
}

TEST(PlanReshard, FourThousandDevicesArePlannedLikeEight) {
  // Activations [batch, heads, d_model] and gradients of parameters under
  // "batch:data, heads:model, [parameters] d_model:data".
  const Reshards small("data:4,model:2", {1, 2, 1}, 4096);
  const Reshards large("data:512,model:8", {1, 2, 1}, 4096);
  const TensorLayout ends[][2] = {
      {LayoutOf({{0}, {1}, {}}), LayoutOf({{0}, {}, {}})},
      {LayoutOf({{0}, {}, {}}), LayoutOf({{0}, {1}, {}})},
      {LayoutOf({{0}, {}, {}}, 2), LayoutOf({{0}, {}, {}})},
      {LayoutOf({{}, {1}, {}}, 1), LayoutOf({{}, {1}, {0}})},
      {LayoutOf({{}, {1}, {0}}), LayoutOf({{0}, {1}, {}})},
      {LayoutOf({{}, {}, {}}, 3), LayoutOf({{}, {1}, {0}})},
      {LayoutOf({{}, {1}, {0}}), LayoutOf({{}, {}, {}})},
      {LayoutOf({{0}, {}, {}}), LayoutOf({{}, {1}, {0}})},
  };
  for (const auto& [source, target] : ends) {
    EXPECT_EQ(small.Steps(source, target), large.Steps(source, target));
  }
}

TEST(PlanReshard, GivesTheSamePathEveryTime) {
  const Reshards on("x:2,y:2,z:2", {7, 7});
  const std::vector<TensorLayout> layouts =
      AllLayouts(on.grains().mesh(), 2, false);
  for (const TensorLayout& source : layouts) {
    const TensorLayout& target = layouts.back();
    EXPECT_EQ(on.Plan(source, target), on.Plan(source, target));
  }
}

TEST(PlanReshard, ASearchOnFourAxesAndFiveDimensionsTakesMilliseconds) {
  const Reshards on("x:2,y:4,z:8,w:3", std::vector<AxisSet>(5, 15), 100);
  const std::vector<TensorLayout> sources =
      AllLayouts(on.grains().mesh(), 5, true);
  const std::vector<TensorLayout> targets =
      AllLayouts(on.grains().mesh(), 5, false);
  std::mt19937 random(7);
  constexpr int kPlans = 50;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kPlans; ++i) {
    on.Plan(sources[random() % sources.size()],
            targets[random() % targets.size()]);
  }
  const std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - start;
  // About 1 ms each; the slack is for sanitizers and busy machines.
  EXPECT_LT(took.count() / kPlans, 50);
}

TEST(PlanReshard, EightAxesAreBoundedInTimeAndByTheNaivePath) {
  const Reshards on("a:2,b:2,c:2,d:2,e:2,f:2,g:2,h:2", {255, 255, 255}, 512);
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    TensorLayout ends[2] = {TensorLayout::Replicated(3),
                            TensorLayout::Replicated(3)};
    for (TensorLayout& end : ends) {
      std::vector<int> axes = {0, 1, 2, 3, 4, 5, 6, 7};
      std::shuffle(axes.begin(), axes.end(), random);
      for (int axis : axes) {
        const int choice = static_cast<int>(random() % 5);
        if (choice < 3) end.dims[choice].push_back(axis);
        if (choice == 3 && &end == &ends[0]) end.unreduced |= 1u << axis;
      }
    }
    const std::vector<ReshardStep> path = on.Plan(ends[0], ends[1]);
    const int64_t limit =
        std::max(LocalElements(on.grains(), on.shape(), ends[0]),
                 LocalElements(on.grains(), on.shape(), ends[1]));
    for (const ReshardStep& step : path) {
      EXPECT_TRUE(step.layout.IsLegal());
      EXPECT_LE(LocalElements(on.grains(), on.shape(), step.layout), limit);
    }
    EXPECT_EQ(path.empty() ? ends[0] : path.back().layout, ends[1]);
    EXPECT_LE(
        PathBytes(on.grains(), on.shape(), ends[0], path, 4),
        PathBytes(on.grains(), on.shape(), ends[0],
                  PlanNaiveReshard(on.grains(), on.shape(), ends[0], ends[1]),
                  4));
  }
}

TEST(PlanReshard, PlansSizesBeyondAnyMemory) {
  const Reshards on("x:65536,y:32767", {3, 3, 3}, int64_t{1} << 40);
  EXPECT_FALSE(
      on.Plan(LayoutOf({{0}, {1}, {}}), LayoutOf({{}, {0}, {1}})).empty());
  const Reshards empty("x:2,y:2", {3, 3}, 0);
  EXPECT_FALSE(empty.Plan(LayoutOf({{0}, {1}}), LayoutOf({{1}, {0}})).empty());
}

TEST(PlanNaiveReshard, ReducesAndGathersWhatChangesThenSlices) {
  const Reshards on("x:2,y:2,z:2", {7, 7});
  const std::vector<ReshardStep> path =
      PlanNaiveReshard(on.grains(), on.shape(), LayoutOf({{0, 1}, {}}, 4),
                       LayoutOf({{0}, {2, 1}}));
  ASSERT_EQ(path.size(), 3u);
  EXPECT_EQ(path[0].kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(path[0].layout, LayoutOf({{0, 1}, {}}));
  EXPECT_EQ(path[1].kind, CollectiveKind::kAllGather);
  EXPECT_EQ(path[1].axes, AxisList{1}) << "x stays";
  EXPECT_EQ(path[2].kind, CollectiveKind::kAllSlice);
  EXPECT_EQ(path[2].layout, LayoutOf({{0}, {2, 1}}));
}

TEST(WireBytes, FollowsTheFormulasOfRingAlgorithms) {
  EXPECT_EQ(WireBytes(CollectiveKind::kAllReduce, 4, 800), 1200);
  EXPECT_EQ(WireBytes(CollectiveKind::kReduceScatter, 4, 800), 600);
  EXPECT_EQ(WireBytes(CollectiveKind::kAllToAll, 4, 800), 600);
  EXPECT_EQ(WireBytes(CollectiveKind::kAllGather, 4, 800), 2400);
  EXPECT_EQ(WireBytes(CollectiveKind::kCollectivePermute, 4, 800), 800);
  EXPECT_EQ(WireBytes(CollectiveKind::kAllSlice, 4, 800), 0);
}

TEST(WireBytes, RoundsUpAndNeverOverflows) {
  EXPECT_EQ(WireBytes(CollectiveKind::kAllReduce, 3, 4), 6);
  EXPECT_EQ(WireBytes(CollectiveKind::kAllReduce, 1, 4), 0);
  EXPECT_EQ(WireBytes(CollectiveKind::kAllGather, 1 << 30, int64_t{1} << 62),
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(WireBytes(CollectiveKind::kAllReduce, 2, int64_t{1} << 62),
            int64_t{1} << 62);
}

TEST(PathBytes, AddsTheBytesOfAllSteps) {
  const Reshards on("x:4,y:2", {1, 2});
  const TensorLayout source = LayoutOf({{0}, {}});
  // 48 * 48 / 8 elements of 4 bytes, times 3, in the gather; the slice is free.
  EXPECT_EQ(PathBytes(on.grains(), on.shape(), source,
                      on.Plan(source, LayoutOf({{}, {1}})), 4),
            48 * 48 / 8 * 4 * 3);
}

TEST(CollectiveName, EveryKindHasItsName) {
  std::vector<absl::string_view> names;
  for (int i = 0; i < kNumCollectiveKinds; ++i) {
    names.push_back(CollectiveName(static_cast<CollectiveKind>(i)));
  }
  EXPECT_EQ(absl::StrJoin(names, " "),
            "all_reduce all_gather all_slice reduce_scatter all_to_all "
            "collective_permute");
}

TEST(PermuteSource, IsAPermutationThatKeepsUnmovedShards) {
  int pairs = 0;
  for (const char* text : {"x:2,y:2", "x:2,y:2,z:2", "x:2,y:4,z:2",
                           "z:2,x:3,y:3", "x:2,y:2,z:4", "x:2,y:2,z:2,w:2"}) {
    const Mesh mesh = *Mesh::Parse(text);
    const int ranks = static_cast<int>(mesh.num_devices());
    const int rank_of_tensor = mesh.num_axes() == 4 ? 1 : 2;
    const std::vector<TensorLayout> layouts =
        AllLayouts(mesh, rank_of_tensor, false);
    const auto shard = [&](const TensorLayout& layout, int64_t rank) {
      std::vector<int64_t> coordinates;
      for (const AxisList& axes : layout.dims) {
        coordinates.push_back(mesh.Coordinate(rank, axes));
      }
      return coordinates;
    };
    for (const TensorLayout& source : layouts) {
      for (const TensorLayout& target : layouts) {
        bool equal = true;
        for (int i = 0; i < rank_of_tensor; ++i) {
          equal &= mesh.SizeOf(source.dims[i]) == mesh.SizeOf(target.dims[i]);
        }
        if (!equal) continue;
        ++pairs;
        std::vector<bool> serves(ranks, false);
        for (int rank = 0; rank < ranks; ++rank) {
          const int64_t from = PermuteSource(mesh, source, target, rank);
          ASSERT_EQ(shard(source, from), shard(target, rank));
          ASSERT_FALSE(serves[from]) << "rank " << from << " serves two";
          serves[from] = true;
          if (shard(source, rank) == shard(target, rank)) {
            ASSERT_EQ(from, rank) << "it had the shard already";
          }
        }
      }
    }
  }
  EXPECT_GT(pairs, 2000);
}

}  // namespace
}  // namespace mtf
