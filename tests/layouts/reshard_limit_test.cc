// SPDX-License-Identifier: Apache-2.0
//
// Searches on meshes of seven and eight axes: the collectives that they try are
// limited, and every path is right whether the search ended or not.
#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "layouts/prove_reshards.h"
#include "layouts/reshard_path.h"
#include "layouts/shard.h"
#include "tests/matchers.h"
#include "tests/repeats.h"

namespace mtf {
namespace {

using ::mtf::testing::Repeats;

// The layouts that three sections of random rules give one value.
class RandomSections {
 public:
  RandomSections(int seed, int axes) : random_(seed) {
    std::string mesh;
    for (int i = 0; i < axes; ++i) {
      absl::StrAppend(&mesh, i > 0 ? "," : "", std::string(1, 'p' + i), ":",
                      random_() % 3 == 0 ? 3 : 2);
    }
    grains_ = Grains(*Mesh::Parse(mesh));
    std::vector<Dimension> dims;
    for (int i = 0, count = 1 + random_() % 4; i < count; ++i) {
      dims.push_back({std::string(1, 'a' + i),
                      static_cast<int64_t>(random_() % 2 == 0 ? 5 : 64)});
    }
    shape_ = Shape(dims);
    for (TensorLayout& section : sections_) section = RandomLayout();
  }

  // Calls visit(source, target) for every two sections, and again with
  // unreduced axes in the source.
  template <class Visit>
  void ForEachPair(const Visit& visit) {
    for (const TensorLayout& from : sections_) {
      for (const TensorLayout& to : sections_) {
        if (from == to) continue;
        visit(from, to);
        TensorLayout sum = from;
        for (int axis = 0; axis < grains_.mesh().num_axes(); ++axis) {
          if ((from.Sharded() >> axis & 1) == 0 && random_() % 2 == 0) {
            sum.unreduced |= AxisSet{1} << axis;
          }
        }
        if (sum.unreduced != 0) visit(sum, to);
      }
    }
  }

  const Grains& grains() const { return grains_; }
  const Shape& shape() const { return shape_; }

 private:
  TensorLayout RandomLayout() {
    TensorLayout layout = TensorLayout::Replicated(shape_.rank());
    AxisSet used = 0;
    for (int i = 0; i < shape_.rank(); ++i) {
      std::vector<int> axes;
      for (int axis = 0; axis < grains_.mesh().num_axes(); ++axis) {
        if (random_() % 2 == 0) axes.push_back(axis);
      }
      std::shuffle(axes.begin(), axes.end(), random_);
      for (int axis : axes) {
        grains_.Allow(shape_[i].name, AxisSet{1} << axis);
        if ((used >> axis & 1) == 0) layout.dims[i].push_back(axis);
        used |= AxisSet{1} << axis;
      }
    }
    return layout;
  }

  std::mt19937 random_;
  Grains grains_;
  Shape shape_;
  std::array<TensorLayout, 3> sections_;
};

TEST(ReshardLimit, SearchesOnEightAxesTryFewCollectives) {
  constexpr int64_t kLimit = 2000;
  int stopped = 0, ended = 0;
  for (int seed = 0; seed < Repeats(60, 30); ++seed) {
    RandomSections sections(seed, 7 + seed % 2);
    const Grains& grains = sections.grains();
    const Shape& shape = sections.shape();
    sections.ForEachPair([&](const TensorLayout& source,
                             const TensorLayout& target) {
      SCOPED_TRACE(absl::StrCat(
          "seed ", seed, ": ", LayoutText(grains.mesh(), shape, source), " to ",
          LayoutText(grains.mesh(), shape, target)));
      const ReshardPlan plan =
          SearchReshard(grains, shape, source, target, kLimit);
      EXPECT_LE(plan.moves, kLimit);
      EXPECT_EQ(plan.cheapest, plan.moves < kLimit);
      (plan.cheapest ? ended : stopped) += 1;
      ASSERT_FALSE(plan.steps.empty());
      EXPECT_EQ(plan.steps.back().layout, target);
      EXPECT_LE(PathBytes(grains, shape, source, plan.steps, 4),
                PathBytes(grains, shape, source,
                          PlanNaiveReshard(grains, shape, source, target), 4));
    });
  }
  // Both happen often.
  EXPECT_GT(stopped, ended / 4);
  EXPECT_GT(ended, stopped / 4);
}

// More moves never give a more expensive path.
TEST(ReshardLimit, ALongerSearchSendsNoMore) {
  for (int seed = 100; seed < 100 + Repeats(12, 2); ++seed) {
    RandomSections sections(seed, 8);
    const auto bytes = [&](const TensorLayout& source,
                           const TensorLayout& target, int64_t limit) {
      const ReshardPlan plan = SearchReshard(
          sections.grains(), sections.shape(), source, target, limit);
      return PathBytes(sections.grains(), sections.shape(), source, plan.steps,
                       4);
    };
    sections.ForEachPair(
        [&](const TensorLayout& source, const TensorLayout& target) {
          const int64_t least = bytes(source, target, 1);
          EXPECT_LE(bytes(source, target, 1000), least) << seed;
          EXPECT_LE(bytes(source, target, 10000), bytes(source, target, 1000))
              << seed;
        });
  }
}

TEST(ReshardLimit, PathsOfStoppedSearchesMoveEveryElement) {
  int stopped = 0;
  for (int seed = 0; seed < Repeats(12, 2); ++seed) {
    RandomSections sections(seed, 7);
    const Grains& grains = sections.grains();
    const Shape& shape = sections.shape();
    sections.ForEachPair([&](const TensorLayout& source,
                             const TensorLayout& target) {
      const double elements =
          static_cast<double>(grains.mesh().num_devices()) *
          static_cast<double>(std::max(LocalElements(grains, shape, source),
                                       LocalElements(grains, shape, target)));
      if (elements > (1 << 20)) return;
      for (int64_t limit : {1, 500}) {
        const ReshardPlan plan =
            SearchReshard(grains, shape, source, target, limit);
        if (plan.cheapest) continue;
        ++stopped;
        EXPECT_OK(ProveReshard(grains, shape, source, target, plan.steps));
      }
    });
  }
  EXPECT_GT(stopped, 0);
}

// Lowering gives each reshard at least this many moves.
TEST(ReshardLimit, SearchesOnFourAxesEndBelowTheLeastLimit) {
  constexpr int64_t kLeastMovesOfReshard = 20000;
  int64_t most = 0;
  for (int seed = 0; seed < Repeats(400, 20); ++seed) {
    RandomSections sections(seed, 4);
    sections.ForEachPair([&](const TensorLayout& source,
                             const TensorLayout& target) {
      most = std::max(most, SearchReshard(sections.grains(), sections.shape(),
                                          source, target, kMostReshardMoves)
                                .moves);
    });
  }
  EXPECT_LT(most, kLeastMovesOfReshard);
}

}  // namespace
}  // namespace mtf
