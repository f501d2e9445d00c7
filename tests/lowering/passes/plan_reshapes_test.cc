// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layouts/all_layouts.h"
#include "layouts/reshard_path.h"
#include "layouts/shard.h"
#include "lowering/program/print_program.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/slice.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

constexpr char kPass[] = "plan_reshapes";

TEST(PlanReshapes, AMergeMovesTheShardsToTheMajorDimension) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{m:8}
%x : f32[a:8, c:64/m] = input x
%1 : f32[a:8, c:64] = reshard(%x)
%2 : f32[ac:512] = reshape(%1)
%y : f32[ac:512/m] = reshard(%2)
output(%y) y
)"),
            R"(
mesh{m:8}
%x : f32[a:8, c:64/m] = input x
%1 : f32[a:8/m, c:64] = reshard(%x)
%2 : f32[ac:512/m] = reshape(%1)
output(%2) y
)");
}

TEST(PlanReshapes, ASplitMovesTheShardsToTheMinorDimensionAfterwards) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{m:8}
%x : f32[ac:512/m] = input x
%1 : f32[ac:512] = reshard(%x)
%2 : f32[a:8, c:64] = reshape(%1)
%y : f32[a:8, c:64/m] = reshard(%2)
output(%y) y
)"),
            R"(
mesh{m:8}
%x : f32[ac:512/m] = input x
%2 : f32[a:8/m, c:64] = reshape(%x)
%y : f32[a:8, c:64/m] = reshard(%2)
output(%y) y
)");
}

// The gather alone sends what the reader of everything needs.
TEST(PlanReshapes, AGatherThatAnotherReaderNeedsStays) {
  ExpectUnchanged(kPass, R"(
mesh{m:8}
%x : f32[a:8, c:64/m] = input x
%1 : f32[a:8, c:64] = reshard(%x)
%2 : f32[ac:512] = reshape(%1)
%y : f32[ac:512/m] = reshard(%2)
output(%y) y
output(%2) z
)");
}

TEST(PlanReshapes, AReductionIsScatteredAlongTheMajorDimension) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{m:8}
%x : f32[a:8, c:64, k:8/m] = input x
%s : f32[a:8, c:64] unreduced{m} = reduce(%x) sum
%1 : f32[a:8, c:64] = reshard(%s)
%2 : f32[ac:512] = reshape(%1)
%y : f32[ac:512/m] = reshard(%2)
output(%y) y
)"),
            R"(
mesh{m:8}
%x : f32[a:8, c:64, k:8/m] = input x
%s : f32[a:8, c:64] unreduced{m} = reduce(%x) sum
%1 : f32[a:8/m, c:64] = reshard(%s)
%2 : f32[ac:512/m] = reshape(%1)
output(%2) y
)");
}

// Sharding "a" over 8 would pad the other "a", of 6 elements.
TEST(PlanReshapes, PaddingElsewhereDoesNotChange) {
  ExpectUnchanged(kPass, R"(
mesh{m:8}
%w : f32[a:6] = input w
%x : f32[a:8, c:64/m] = input x
%1 : f32[a:8, c:64] = reshard(%x)
%2 : f32[ac:512] = reshape(%1)
%y : f32[ac:512/m] = reshard(%2)
output(%y) y
output(%w) w
)");
}

TEST(PlanReshapes, RenamesAreNotLookedAt) {
  ExpectUnchanged(kPass, R"(
mesh{m:8}
%x : f32[a:8, c:64/m] = input x
%1 : f32[a:8, c:64] = reshard(%x)
%2 : f32[b:8, c:64] = reshape(%1)
%y : f32[b:8, c:64/m] = reshard(%2)
output(%y) y
)");
}

// Bytes: [a:8, c:512] in f32 takes 16384, so 2048 per rank. The gather sends
// 7 * 2048 = 14336, an all_to_all 7/8 * 2048 = 1792.
constexpr char kAllToAll[] = "all_to_all m 1x 1792\n";

TEST(ReshapeBytes, AMergeOfAShardedMinorDimension) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {{"a", 8}, {"c", 512}});
  const Tensor y = MergeDimensions(x, {"a", "c"}, "ac") * 2.0;
  EXPECT_EQ(Costs(LowerText(graph, "m:8", "c:m, ac:m",
                            {.fetches = {y}, .fetch_shards = true})),
            kAllToAll);
}

TEST(ReshapeBytes, TheGradientOfAMerge) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {{"a", 8}, {"c", 512}});
  const Tensor w = Input(graph, "w", kFloat32, {{"ac", 4096}});
  const Tensor y = MergeDimensions(x * 2.0, {"a", "c"}, "ac");
  const Tensor dx = Gradients(ReduceSum(y * w, {}), {x})[0];
  EXPECT_EQ(Costs(LowerText(graph, "m:8", "c:m, ac:m",
                            {.fetches = {dx}, .fetch_shards = true})),
            kAllToAll);
}

TEST(ReshapeBytes, ASplitToAShardedMinorDimension) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {{"ac", 4096}});
  const Tensor y = SplitDimension(x, "ac", {{"a", 8}, {"c", 512}}) * 2.0;
  EXPECT_EQ(Costs(LowerText(graph, "m:8", "c:m, ac:m",
                            {.fetches = {y}, .fetch_shards = true})),
            kAllToAll);
}

TEST(ReshapeBytes, TheGradientOfASplit) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {{"ac", 4096}});
  const Tensor w = Input(graph, "w", kFloat32, {{"a", 8}, {"c", 512}});
  const Tensor y = SplitDimension(x * 2.0, "ac", {{"a", 8}, {"c", 512}});
  const Tensor dx = Gradients(ReduceSum(y * w, {}), {x})[0];
  EXPECT_EQ(Costs(LowerText(graph, "m:8", "c:m, ac:m",
                            {.fetches = {dx}, .fetch_shards = true})),
            kAllToAll);
}

// 3 does not divide by 8, but "b" does: two all_to_alls instead of a gather of
// 7 * 1536 = 10752 bytes.
TEST(ReshapeBytes, ShardsMoveToAThirdDimensionAndBack) {
  Graph graph;
  const Tensor x =
      Input(graph, "x", kFloat32, {{"b", 8}, {"a", 3}, {"c", 128}});
  const Tensor y = MergeDimensions(x, {"a", "c"}, "ac") * 2.0;
  EXPECT_EQ(Costs(LowerText(graph, "m:8", "c:m, ac:m",
                            {.fetches = {y}, .fetch_shards = true})),
            "all_to_all m 2x 2688\n");
}

// "a" stays where it is; only "c" moves: 1/2 of 1024 bytes.
TEST(ReshapeBytes, BothPartsOfAMergeAreSharded) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {{"a", 4}, {"c", 256}});
  const Tensor y = MergeDimensions(x, {"a", "c"}, "ac") * 2.0;
  EXPECT_EQ(Costs(LowerText(graph, "x:2,y:2", "a:x, c:y, ac:x+y",
                            {.fetches = {y}, .fetch_shards = true})),
            "all_to_all y 1x 512\n");
}

// The result of a merge has the layout of its rules, so a slice of another
// dimension does not gather it.
TEST(ReshapeBytes, AMergeThatIsSliced) {
  Graph graph;
  const Tensor x =
      Input(graph, "x", kFloat32, {{"b", 2}, {"a", 8}, {"c", 256}});
  const Tensor y = Slice(MergeDimensions(x, {"a", "c"}, "ac"), "b", 0, 1);
  EXPECT_EQ(Costs(LowerText(graph, "m:8", "c:m, ac:m",
                            {.fetches = {y}, .fetch_shards = true})),
            kAllToAll);
}

// The oracle of the bytes: all pairs of layouts of operand and result under
// which each rank holds the same elements, found by listing the elements.
class FewestBytes {
 public:
  FewestBytes(const Grains& grains, const Shape& before, const Shape& after)
      : grains_(grains), before_(before), after_(after) {
    const std::vector<TensorLayout> befores = LayoutsOf(before),
                                    afters = LayoutsOf(after);
    std::map<std::vector<std::vector<int64_t>>, std::vector<TensorLayout>>
        by_elements;
    for (const TensorLayout& layout : afters) {
      by_elements[Elements(after, layout)].push_back(layout);
    }
    for (const TensorLayout& layout : befores) {
      for (const TensorLayout& other : by_elements[Elements(before, layout)]) {
        local_.emplace_back(layout, other);
      }
    }
  }

  int64_t Between(const TensorLayout& source, const TensorLayout& target) {
    int64_t fewest = std::numeric_limits<int64_t>::max();
    for (const auto& [before, after] : local_) {
      fewest = std::min(fewest, Bytes(before_, source, before) +
                                    Bytes(after_, after, target));
    }
    return fewest;
  }

 private:
  // Layouts that do not change the padding, without empty shards.
  std::vector<TensorLayout> LayoutsOf(const Shape& shape) const {
    std::vector<TensorLayout> layouts =
        internal::AllLayouts(grains_.mesh(), shape.rank(), false);
    const auto excluded = [&](const TensorLayout& layout) {
      for (int i = 0; i < shape.rank(); ++i) {
        const AxisSet axes =
            SetOf(layout.dims[i]) | grains_.AxesOf(shape[i].name);
        const int64_t extent = grains_.ExtentOf(shape[i]);
        const int64_t shards = grains_.mesh().SizeOf(layout.dims[i]);
        if (extent % grains_.mesh().SizeOf(axes) != 0 ||
            shape[i].size <= extent / shards * (shards - 1)) {
          return true;
        }
      }
      return false;
    };
    layouts.erase(std::remove_if(layouts.begin(), layouts.end(), excluded),
                  layouts.end());
    return layouts;
  }

  // By rank: the row-major indices of its elements.
  std::vector<std::vector<int64_t>> Elements(const Shape& shape,
                                             const TensorLayout& layout) const {
    std::vector<std::vector<int64_t>> elements;
    for (int64_t rank = 0; rank < grains_.mesh().num_devices(); ++rank) {
      std::vector<int64_t> indices = {0};
      const auto dims = ShardOf(grains_, shape, layout, rank);
      for (int i = 0; i < shape.rank(); ++i) {
        std::vector<int64_t> next;
        for (int64_t index : indices) {
          for (int64_t at = 0; at < dims[i].valid; ++at) {
            next.push_back(index * shape[i].size + dims[i].offset + at);
          }
        }
        indices = next;
      }
      elements.push_back(indices);
    }
    return elements;
  }

  int64_t Bytes(const Shape& shape, const TensorLayout& from,
                const TensorLayout& to) {
    const auto [known, is_new] = bytes_.try_emplace(
        absl::StrCat(LayoutText(grains_.mesh(), shape, from), ">",
                     LayoutText(grains_.mesh(), shape, to)),
        0);
    if (is_new) {
      known->second = PathBytes(grains_, shape, from,
                                PlanReshard(grains_, shape, from, to), 4);
    }
    return known->second;
  }

  const Grains grains_;
  const Shape before_, after_;
  std::vector<std::pair<TensorLayout, TensorLayout>> local_;
  std::map<std::string, int64_t> bytes_;
};

struct BytesCase {
  const char* mesh;
  Shape before, after;
};

std::string RulesOf(const Mesh& mesh, const Shape& shape,
                    const TensorLayout& layout) {
  std::string text;
  for (int i = 0; i < shape.rank(); ++i) {
    if (layout.dims[i].empty()) continue;
    absl::StrAppend(&text, shape[i].name, ":", mesh.AxisNames(layout.dims[i]),
                    "\n");
  }
  return text;
}

// Lowers a reshape between every pair of layouts.
void ExpectFewestBytes(const BytesCase& test) {
  const Mesh mesh = *Mesh::Parse(test.mesh);
  int failures = 0;
  for (const TensorLayout& source :
       internal::AllLayouts(mesh, test.before.rank(), false)) {
    for (const TensorLayout& target :
         internal::AllLayouts(mesh, test.after.rank(), false)) {
      const std::string rules = RulesOf(mesh, test.before, source) +
                                RulesOf(mesh, test.after, target);
      Graph graph;
      const Tensor x = Input(graph, "x", kFloat32, test.before);
      const Tensor y = Reshape(x, test.after) * 2.0;
      const auto binding =
          BindLayout(graph, mesh, *LayoutRules::Parse(rules, "test"));
      ASSERT_OK(binding);
      const auto program =
          Lower(graph, *binding, {.fetches = {y}, .fetch_shards = true});
      ASSERT_OK(program);
      int64_t bytes = 0;
      for (const CollectiveCost& cost : ListCollectives(*program)) {
        bytes += cost.bytes;
      }
      const int64_t fewest =
          FewestBytes(binding->grains, test.before, test.after)
              .Between(source, target);
      if (bytes > fewest && ++failures < 4) {
        ADD_FAILURE() << bytes << " bytes, but " << fewest << "\n"
                      << test.mesh << "\n"
                      << rules << PrintProgram(*program);
      }
    }
  }
  EXPECT_EQ(failures, 0) << test.mesh << " " << test.before.ToString();
}

TEST(ReshapeBytes, AreTheFewestOnOneAxis) {
  for (const char* mesh : {"x:2", "x:3", "x:4"}) {
    ExpectFewestBytes({mesh, {{"a", 4}, {"b", 6}}, {{"m", 24}}});
    ExpectFewestBytes({mesh, {{"m", 24}}, {{"a", 4}, {"b", 6}}});
    ExpectFewestBytes({mesh, {{"a", 3}, {"b", 5}}, {{"m", 15}}});
    ExpectFewestBytes({mesh, {{"a", 4}, {"b", 6}}, {{"p", 8}, {"q", 3}}});
    ExpectFewestBytes(
        {mesh, {{"k", 12}, {"a", 2}, {"b", 6}}, {{"l", 12}, {"m", 12}}});
  }
}

TEST(ReshapeBytes, AreTheFewestOnTwoAxes) {
  for (const char* mesh : {"x:2,y:2", "x:2,y:3", "x:4,y:2"}) {
    ExpectFewestBytes({mesh, {{"a", 4}, {"b", 6}}, {{"m", 24}}});
    ExpectFewestBytes({mesh, {{"m", 16}}, {{"a", 8}, {"b", 2}}});
    ExpectFewestBytes({mesh, {{"a", 5}, {"b", 6}}, {{"m", 30}}});
    ExpectFewestBytes({mesh, {{"a", 4}, {"b", 6}}, {{"p", 8}, {"q", 3}}});
  }
  ExpectFewestBytes(
      {"x:2,y:2", {{"k", 4}, {"a", 2}, {"b", 6}}, {{"l", 4}, {"m", 12}}});
}

TEST(ReshapeBytes, AreTheFewestOnThreeAxes) {
  ExpectFewestBytes({"x:2,y:2,z:2", {{"a", 8}, {"b", 4}}, {{"m", 32}}});
  ExpectFewestBytes({"x:2,y:2,z:2", {{"m", 24}}, {{"a", 4}, {"b", 6}}});
}

}  // namespace
}  // namespace mtf::testing
