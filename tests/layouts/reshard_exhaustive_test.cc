// SPDX-License-Identifier: Apache-2.0
//
// Proves that every reshard between any two layouts moves every element to the
// right position, by simulating each path on the shards of all ranks, for all
// pairs of layouts on small meshes. Also tests that the proof detects errors.
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layouts/all_layouts.h"
#include "layouts/prove_reshards.h"
#include "layouts/reshard_path.h"
#include "layouts/simulate_reshard.h"
#include "tests/matchers.h"
#include "tests/requirements.h"

namespace mtf {
namespace {

using ::mtf::internal::AllLayouts;
using ::mtf::internal::LocalTensor;
using ::mtf::internal::SimulatedMesh;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

struct ReshardCase {
  const char* mesh;
  int rank;

  std::string ToString() const {
    return absl::StrCat("mesh_",
                        absl::StrReplaceAll(mesh, {{":", ""}, {",", "_"}}), "_",
                        rank, rank == 1 ? "_dimension" : "_dimensions");
  }
};
std::ostream& operator<<(std::ostream& out, const ReshardCase& c) {
  return out << c.ToString();
}

class ReshardPairs : public ::testing::TestWithParam<ReshardCase> {};

TEST_P(ReshardPairs, EveryElementArrivesForEveryPairOfLayouts) {
  const Mesh mesh = *Mesh::Parse(GetParam().mesh);
  if (mesh.num_axes() == 3 && GetParam().rank > 1)
    SKIP_UNDER_SANITIZERS("the largest mesh");
  ProveOptions options;
  options.seconds = 1e6;
  const auto proof = ProveReshards(mesh, GetParam().rank, options);
  ASSERT_OK(proof);
  EXPECT_TRUE(proof->complete());
  // An independent count of the pairs whose target has no new unreduced axes.
  int64_t pairs = 0;
  const auto layouts = AllLayouts(mesh, GetParam().rank, /*unreduced=*/true);
  for (const TensorLayout& source : layouts) {
    for (const TensorLayout& target : layouts) {
      pairs += (target.unreduced | source.unreduced) == source.unreduced;
    }
  }
  EXPECT_EQ(proof->proved, pairs);
  RecordProperty("pairs", static_cast<int>(pairs));
}

// A value [a=5, b=6] on four ranks, with "a" sharded over x.
class WrongPaths : public ::testing::Test {
 protected:
  WrongPaths() : mesh_(*Mesh::Parse("x:2,y:2")), grains_(mesh_) {
    grains_.Allow("a", 0b11);
    grains_.Allow("b", 0b11);
    source_ = TensorLayout::Replicated(2);
    source_.dims[0] = {0};
  }

  // The result of ProveReshard for the planned path after `change`.
  template <class Change>
  absl::Status Changed(const TensorLayout& target, Change change) {
    std::vector<ReshardStep> path =
        PlanReshard(grains_, shape_, source_, target);
    EXPECT_OK(ProveReshard(grains_, shape_, source_, target, path));
    change(path);
    return ProveReshard(grains_, shape_, source_, target, path);
  }

  Mesh mesh_;
  Grains grains_;
  const Shape shape_ = {{"a", 5}, {"b", 6}};
  TensorLayout source_;
};

TEST_F(WrongPaths, MissingStepIsDetected) {
  TensorLayout target = TensorLayout::Replicated(2);
  target.dims[1] = {0};
  EXPECT_THAT(Changed(target, [](auto& path) { path.pop_back(); }),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("ends in")));
}

TEST_F(WrongPaths, GatherAlongTheWrongDimensionIsDetected) {
  EXPECT_THAT(
      Changed(TensorLayout::Replicated(2), [](auto& path) { path[0].dim = 1; }),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("is wrong")));
}

TEST_F(WrongPaths, GatherOverTheWrongAxisIsDetected) {
  EXPECT_THAT(Changed(TensorLayout::Replicated(2),
                      [](auto& path) { path[0].axes = {1}; }),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("element")));
}

TEST_F(WrongPaths, SumOverTheWrongAxisIsDetected) {
  source_ = TensorLayout::Replicated(2);
  source_.unreduced = 0b01;
  EXPECT_THAT(Changed(TensorLayout::Replicated(2),
                      [](auto& path) { path[0].axes = {1}; }),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("element")));
}

TEST_F(WrongPaths, MissingSumIsDetected) {
  source_ = TensorLayout::Replicated(2);
  source_.unreduced = 0b10;
  EXPECT_THAT(Changed(TensorLayout::Replicated(2),
                      [](auto& path) {
                        path[0].kind = CollectiveKind::kAllSlice;
                        path[0].dim = 0;
                      }),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("is wrong")));
}

TEST_F(WrongPaths, DetourThroughMoreMemoryIsDetected) {
  TensorLayout target = TensorLayout::Replicated(2);
  target.dims[1] = {0};
  // all_gather and all_slice in place of one all_to_all.
  EXPECT_THAT(Changed(target,
                      [&](auto& path) {
                        path =
                            PlanNaiveReshard(grains_, shape_, source_, target);
                      }),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("more memory")));
}

// Rules do not shard a dimension over an axis of size 1.
TEST(ProveReshards, IgnoresAxesOfSizeOne) {
  const auto with = ProveReshards(*Mesh::Parse("a:1,b:2,c:1,d:3"), 2);
  const auto without = ProveReshards(*Mesh::Parse("b:2,d:3"), 2);
  ASSERT_OK(with);
  ASSERT_OK(without);
  EXPECT_TRUE(with->complete());
  EXPECT_EQ(with->pairs, without->pairs);
  const auto one = ProveReshards(*Mesh::Parse("a:1,b:1"), 3);
  ASSERT_OK(one);
  EXPECT_TRUE(one->complete());
}

TEST(ProveReshards, CountsSkippedPairs) {
  const Mesh mesh = *Mesh::Parse("x:2,y:4");
  ProveOptions options;
  options.seconds = 0;
  auto proof = ProveReshards(mesh, 2, options);
  ASSERT_OK(proof);
  EXPECT_FALSE(proof->complete());
  EXPECT_GT(proof->not_reached, 0);
  EXPECT_EQ(proof->proved + proof->not_reached + proof->too_large,
            proof->pairs);

  options = {};
  options.most_elements = 100;
  int64_t last = 0, of = 0;
  options.progress = [&](int64_t done, int64_t pairs) {
    EXPECT_GE(done, last);
    last = done;
    of = pairs;
  };
  proof = ProveReshards(mesh, 2, options);
  ASSERT_OK(proof);
  EXPECT_GT(proof->too_large, 0);
  EXPECT_GT(proof->proved, 0);
  EXPECT_EQ(proof->not_reached, 0);
  EXPECT_EQ(proof->proved + proof->too_large, proof->pairs);
  EXPECT_EQ(last, proof->pairs);
  EXPECT_EQ(of, proof->pairs);
}

// The ancestor's defect: it slices by "rows" before it gathers "cols", and the
// values come out as 0 2 4 6 1 3 5 7.
TEST(Reshard, RenameFromColsToRowsKeepsTheOrderThatTheAncestorPermutes) {
  const Mesh mesh = *Mesh::Parse("rows:2,cols:4");
  const Shape shape = {{"a2", 8}};
  Grains grains(mesh);
  grains.Allow("a", 0b10);
  grains.Allow("a2", 0b01);
  grains.Tie("a", "a2");
  TensorLayout source = TensorLayout::Replicated(1);
  source.dims[0] = {1};
  TensorLayout target = TensorLayout::Replicated(1);
  target.dims[0] = {0};

  SimulatedMesh ranks(mesh);
  std::vector<LocalTensor> held;
  for (int rank = 0; rank < 8; ++rank) {
    const int64_t first = rank % 4 * 2;
    held.push_back({{2}, {first, first + 1}});
  }
  TensorLayout layout = source;
  for (const ReshardStep& step : PlanReshard(grains, shape, source, target)) {
    auto after = ranks.Run(step, layout, held);
    ASSERT_OK(after);
    held = *std::move(after);
    layout = step.layout;
  }
  EXPECT_EQ(layout, target);
  for (int rank = 0; rank < 8; ++rank) {
    const int64_t first = rank / 4 * 4;
    EXPECT_EQ(held[rank].data,
              (std::vector<int64_t>{first, first + 1, first + 2, first + 3}))
        << "rank " << rank;
  }
}

std::vector<ReshardCase> AllCases() {
  std::vector<ReshardCase> cases;
  for (const char* mesh :
       {"x:2", "x:3", "x:4", "x:2,y:2", "x:2,y:3", "x:2,y:4", "x:2,y:2,z:2"}) {
    for (int rank : {1, 2, 3}) cases.push_back({mesh, rank});
  }
  // Three axes of different sizes: an axis between two that swap positions has
  // another stride afterwards.
  cases.push_back({"x:3,y:2,z:2", 1});
  cases.push_back({"x:4,y:3,z:2", 1});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Exhaustive, ReshardPairs,
                         ::testing::ValuesIn(AllCases()), [](const auto& info) {
                           return info.param.ToString();
                         });

}  // namespace
}  // namespace mtf
