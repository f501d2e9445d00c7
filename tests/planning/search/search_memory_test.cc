// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (large searches)
//
// Compares the peak memory of many layers, extrapolated from two and four of
// them, with the program of all layers.
#include "planning/search/search_memory.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planning/search/search_space.h"
#include "planning/search/search_step.h"
#include "tests/lowering/small_transformer.h"
#include "tests/matchers.h"

namespace mtf::internal {
namespace {

using ::mtf::testing::BuildTransformer;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(AlignPrograms, InsertionIsAlignedFromBothEnds) {
  // a (b c) d against a (b c) (b c) d.
  EXPECT_THAT(AlignPrograms({1, 2, 3, 4}, {1, 2, 3, 2, 3, 4}),
              UnorderedElementsAre(Pair(0, 0), Pair(1, 1), Pair(2, 2),
                                   Pair(3, 5), Pair(2, 4), Pair(1, 3)));
  EXPECT_THAT(AlignPrograms({1, 2}, {1, 2}),
              ElementsAre(Pair(0, 0), Pair(1, 1)));
}

TEST(AlignPrograms, NothingIsAlignedIfInstructionsAreMissing) {
  EXPECT_THAT(AlignPrograms({1, 2, 3}, {1, 3}), IsEmpty());
  EXPECT_THAT(AlignPrograms({1, 2}, {2, 1}), IsEmpty());
}

TEST(PeakLiveBytes, HighestLineMayStartBelowThePeak) {
  // The last instruction has the peak of two layers, but the bytes in the
  // middle grow.
  const LiveBytes two = {{1, 2, 3}, {10, 20, 90}, {false, false, false}};
  const LiveBytes four = {
      {1, 2, 2, 3}, {10, 20, 40, 90}, {false, false, false, false}};
  EXPECT_EQ(PeakLiveBytes(two, four, 0), 90);
  EXPECT_EQ(PeakLiveBytes(two, four, 1), 90);
  EXPECT_EQ(PeakLiveBytes(two, four, 10), 220);
}

struct Counts {
  int tried = 0, exact = 0;
  double highest = 0, lowest = 0;  // error, as a share
};

// Random layouts of a transformer of 12 layers.
Counts Compare(const std::string& mesh_text, bool sections) {
  Graph graph;
  const auto model = BuildTransformer(graph, {.layers = 12});
  const SearchStep step(
      {&graph, {.fetches = {model.loss}, .updates = {model.step}}});
  EXPECT_THAT(step.LayerSubsetSizes(), ElementsAre(2, 4));
  std::vector<const FewLayers*> depths = step.LayerSubsets();
  depths.push_back(nullptr);
  const Mesh mesh = *Mesh::Parse(mesh_text);
  SearchOptions options;
  options.sections = sections;
  const auto dimensions = FindSearchDimensions(step, options);
  EXPECT_OK(dimensions);
  const auto space = MakeSearchSpace(*dimensions, mesh, options);
  EXPECT_OK(space);
  std::mt19937 random(3);
  Counts counts;
  for (int i = 0; i < 40; ++i) {
    AxisRoles roles;
    for (size_t axis = 0; axis < space->axes.size(); ++axis) {
      roles.axes.push_back(space->roles[random() % space->roles.size()]);
    }
    roles.keep_gathered = roles.shards_parameters() && i % 2 == 0;
    const std::string text = RulesText(*space, roles);
    std::vector<LiveBytes> live;
    int64_t arena = 0;
    for (const FewLayers* few : depths) {
      const auto program = step.Lower(mesh, text, few);
      EXPECT_OK(program) << text;
      live.push_back(LiveBytesAlong(*program));
      arena = program->buffers.arena_bytes;
    }
    const int64_t estimate = PeakLiveBytes(live[0], live[1], step.position());
    const int64_t most =
        *std::max_element(live[2].bytes.begin(), live[2].bytes.end());
    // The plan packs the peak into at most 1/64 more.
    EXPECT_GE(arena, most) << text;
    EXPECT_LE(arena, most + most / 64) << text;
    const double error =
        static_cast<double>(estimate - most) / static_cast<double>(most);
    ++counts.tried;
    if (estimate == most) ++counts.exact;
    counts.highest = std::max(counts.highest, error);
    counts.lowest = std::min(counts.lowest, error);
  }
  return counts;
}

TEST(PeakLiveBytes, EqualsThatOfAllLayersToTheByte) {
  for (const char* mesh : {"a:8", "a:2,b:4", "a:2,b:2,c:2"}) {
    SCOPED_TRACE(mesh);
    const Counts counts = Compare(mesh, /*sections=*/false);
    EXPECT_EQ(counts.exact, counts.tried);
    EXPECT_EQ(counts.tried, 40);
  }
}

// Parameters may be gathered ahead across all of a few layers but not across
// many, and buckets of sums need not end with a layer.
TEST(PeakLiveBytes, IsCloseIfParametersAreGatheredAhead) {
  for (const char* mesh : {"a:8", "a:2,b:4", "a:2,b:2,c:2"}) {
    SCOPED_TRACE(mesh);
    const Counts counts = Compare(mesh, /*sections=*/true);
    EXPECT_GE(counts.exact, counts.tried * 8 / 10);
    EXPECT_LE(counts.highest, 0.05);
    EXPECT_GE(counts.lowest, -0.05);
  }
}

}  // namespace
}  // namespace mtf::internal
