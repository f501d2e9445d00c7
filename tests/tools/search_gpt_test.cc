// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (large searches)
//
// The search on models of published sizes, compared with published layouts, and
// pricing on a few layers compared with pricing on all layers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layouts/shard.h"
#include "planning/cost/few_layers.h"
#include "planning/search/search_bounds.h"
#include "planning/search/search_layouts.h"
#include "planning/search/search_space.h"
#include "planning/search/search_step.h"
#include "tests/matchers.h"
#include "tools/models.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr int64_t kGiB = int64_t{1} << 30;

// Tensor parallelism within a node, data parallelism across nodes (Narayanan et
// al. 2021).
constexpr char kMegatron[] =
    "batch:pod+data, heads:model, d_ff:model, vocab:model";

class GptSearch : public ::testing::Test {
 protected:
  void Build(const GptSizes& sizes) {
    auto step = BuildGpt(sizes);
    ASSERT_OK(step);
    step_ = *std::move(step);
    input_ = step_.Input();
  }

  // Seconds of a step of all layers under `rules`.
  double SecondsOf(const std::string& rules, const Mesh& mesh,
                   const SearchPrices& prices) {
    const auto layout = LayoutRules::Parse(rules, "test");
    EXPECT_OK(layout);
    const auto binding = BindLayout(*step_.graph, mesh, *layout);
    EXPECT_OK(binding);
    auto program = Lower(*step_.graph, *binding, step_.targets,
                         {.attention = prices.attention,
                          .fusion = prices.fusion,
                          .verify = false});
    EXPECT_OK(program);
    return prices.step(*program).seconds;
  }

  // Expects that the layout found for each limit, in GiB, is no slower than the
  // one found for the previous limit.
  void ExpectNoSlower(const Mesh& mesh, const std::vector<int64_t>& limits) {
    double before = std::numeric_limits<double>::infinity();
    for (int64_t limit : limits) {
      const auto found = SearchRules(input_, mesh, prices_,
                                     {.memory_limit = limit * kGiB, .keep = 1});
      ASSERT_OK(found);
      EXPECT_LE(found->best[0].price.seconds, before * (1 + 1e-9)) << limit;
      before = found->best[0].price.seconds;
    }
  }

  GptStep step_;
  SearchInput input_;
  const SearchPrices prices_ = PricesOf(*Machine::Load("h100_nvlink_ib"));
};

TEST_F(GptSearch, Gpt3IsNoSlowerThanUnderMegatronsLayout) {
  Build(*FindModel("gpt3_175b"));
  const Mesh mesh = *Mesh::Parse("pod:8,data:8,model:8");
  const auto found = SearchRules(input_, mesh, prices_,
                                 {.memory_limit = 80 * kGiB, .keep = 1});
  ASSERT_OK(found);
  EXPECT_TRUE(found->complete);
  ASSERT_EQ(found->best.size(), 1u);
  const FoundLayout& best = found->best[0];
  EXPECT_LE(best.memory_bytes(), 80 * kGiB);
  // The price shown is that of all 96 layers, not of two.
  EXPECT_DOUBLE_EQ(best.price.seconds, SecondsOf(best.text, mesh, prices_));
  // Megatron's layout exceeds the memory; the search may not.
  EXPECT_LE(best.price.seconds, SecondsOf(kMegatron, mesh, prices_));
}

// With one sequence for each of the 64 groups over "model", Megatron's layout
// has no padding. Memory is not limited.
TEST_F(GptSearch, Gpt3WithoutPaddingIsNoSlowerThanUnderMegatronsLayout) {
  GptSizes sizes = *FindModel("gpt3_175b");
  sizes.batch = 64;
  Build(sizes);
  const Mesh mesh = *Mesh::Parse("pod:8,data:8,model:8");
  const auto found = SearchRules(input_, mesh, prices_, {.keep = 1});
  ASSERT_OK(found);
  EXPECT_TRUE(found->complete);
  ASSERT_EQ(found->best.size(), 1u);
  EXPECT_LE(found->best[0].price.seconds, SecondsOf(kMegatron, mesh, prices_));
}

// Without rules for scopes the smallest layout takes 88 GiB. Sequence
// parallelism between the layers, with sharded parameters, takes 75 GiB.
TEST_F(GptSearch, SequenceParallelismIsFoundWhereNothingElseFits) {
  GptSizes sizes = *FindModel("gpt3_175b");
  sizes.batch = 256;
  Build(sizes);
  const Mesh mesh = *Mesh::Parse("pod:8,data:8,model:8");
  const auto found = SearchRules(input_, mesh, prices_,
                                 {.memory_limit = 80 * kGiB, .keep = 1});
  ASSERT_OK(found);
  EXPECT_GT(found->by_modules, 0);
  EXPECT_FALSE(found->searched_in_full);
  const FoundLayout& best = found->best[0];
  EXPECT_LE(best.memory_bytes(), 80 * kGiB);
  EXPECT_THAT(best.text, HasSubstr("\n[in "));
  EXPECT_DOUBLE_EQ(best.price.seconds, SecondsOf(best.text, mesh, prices_));
  EXPECT_THAT(SummaryText(*found), HasSubstr(" with rules for scopes"));
}

// For long sequences, attention shards heads instead of the length. Presets for
// other axes have no effect on this mesh.
TEST_F(GptSearch, NoPresetIsFaster) {
  for (int64_t length : {1024, 32768}) {
    const Mesh mesh =
        *Mesh::Parse(length == 1024 ? "data:2,model:2" : "model:4");
    GptSizes sizes = *FindModel("gpt2");
    sizes.layers = 4;
    sizes.length = length;
    sizes.batch = 32768 / length;
    Build(sizes);
    const auto found =
        SearchRules(input_, mesh, prices_, {.keep = 1, .full_space = 1});
    ASSERT_OK(found);
    const FoundLayout& best = found->best[0];
    EXPECT_DOUBLE_EQ(best.price.seconds, SecondsOf(best.text, mesh, prices_));
    for (const std::string& preset : LayoutRules::PresetNames()) {
      EXPECT_LE(best.price.seconds,
                1.001 * SecondsOf(LayoutRules::Preset(preset)->ToString(), mesh,
                                  prices_))
          << preset << " at length " << length << "\n"
          << best.text;
    }
    EXPECT_EQ(absl::StrContains(
                  best.text,
                  "[in layer_*/attention/dot_product]\nlength:replicated\n"
                  "memory_length:replicated\nheads:model\n"),
              length > 1024)
        << best.text;
  }
}

// Also in a space that is searched in full, over two axes together.
TEST_F(GptSearch, RulesForScopesAreTriedInSpacesSearchedInFull) {
  GptSizes sizes = *FindModel("gpt2");
  sizes.layers = 6;
  sizes.length = 32768;
  sizes.batch = 1;
  Build(sizes);
  for (const char* mesh : {"model:4", "a:2,b:2"}) {
    const Mesh parsed = *Mesh::Parse(mesh);
    const auto found =
        SearchRules(input_, parsed, prices_, {.keep = 1, .sections = false});
    ASSERT_OK(found);
    EXPECT_FALSE(found->restricted);
    EXPECT_FALSE(found->searched_in_full);
    EXPECT_THAT(
        SummaryText(*found),
        HasSubstr("# The first is the best layout found; only some with "
                  "rules for scopes were priced"));
    const std::string axes = parsed.num_axes() == 1 ? "model" : "a+b";
    const std::string exchanged = absl::StrCat(
        "length:", axes, ", memory_length:", axes,
        ", [in **/dot_product] length:replicated, memory_length:replicated, "
        "heads:",
        axes);
    EXPECT_LE(found->best[0].price.seconds,
              SecondsOf(exchanged, parsed, prices_))
        << found->best[0].text;
  }
}

// No lower bound, which comes from two and four layers, exceeds the price on
// all layers, for a sample of the layouts on three axes: in the restricted
// space, and with every mix of sections of variables.
class GptBounds : public GptSearch,
                  public ::testing::WithParamInterface<bool> {};

TEST_P(GptBounds, HoldOnThreeAxes) {
  GptSizes sizes = *FindModel("gpt3_175b");
  sizes.layers = 7;
  Build(sizes);
  const Mesh mesh = *Mesh::Parse("pod:8,data:8,model:8");
  const internal::SearchStep step(input_, SearchOptions().most_layers,
                                  prices_.attention);
  ASSERT_TRUE(step.is_deep());
  SearchOptions options;
  if (!GetParam()) options.full_space = 1e18;
  const auto dimensions = internal::FindSearchDimensions(step, options);
  ASSERT_OK(dimensions);
  auto space = internal::MakeSearchSpace(*dimensions, mesh, options);
  ASSERT_OK(space);
  EXPECT_EQ(space->restricted, GetParam());
  std::mt19937 random(7);
  if (!GetParam()) {
    // A sample of thousands.
    std::shuffle(space->roles.begin(), space->roles.end(), random);
    space->roles.resize(40);
    space->groups = {0, 40};
  }
  const auto workload =
      internal::SummarizeStep(step, dimensions->names, prices_);
  ASSERT_OK(workload);
  const internal::FewLayers& few_layers = *step.LayerSubsets()[0];
  EXPECT_THAT(
      few_layers.left_out_layers,
      UnorderedElementsAre(Pair("layer_", 5.0), Pair("adamw/layer_", 5.0)));
  internal::TrafficTable traffic;
  const internal::SearchBounds bounds(step, *workload, *space, prices_,
                                      traffic);
  int tried = 0;
  double nearness = 0;
  for (int i = 0; i < 150; ++i) {
    internal::Roles roles;
    std::vector<internal::DimSet> sharded;
    for (int axis = 0; axis < 3; ++axis) {
      roles.push_back(static_cast<int>(random() % space->roles.size()));
      sharded.push_back(space->roles[roles.back()].sharded);
    }
    internal::AxisRoles rules = RolesOf(*space, roles);
    rules.keep_gathered = rules.shards_parameters() && i % 2 == 0;
    const std::string text = RulesText(*space, rules);
    const auto bound =
        bounds.Of(roles, bounds.ComputeSeconds(sharded), rules.keep_gathered);
    const auto layout = LayoutRules::Parse(text, "test");
    ASSERT_OK(layout);
    const auto binding = BindLayout(*step_.graph, mesh, *layout);
    ASSERT_OK(binding);
    auto program = Lower(*step_.graph, *binding, step_.targets,
                         {.attention = prices_.attention,
                          .fusion = prices_.fusion,
                          .verify = false});
    ASSERT_OK(program);
    int64_t memory = program->buffers.arena_bytes;
    for (const ProgramVariable& variable : program->variables) {
      memory +=
          LocalElements(program->grains, variable.shape, variable.layout) *
          DTypeSize(variable.dtype);
    }
    const double seconds = prices_.step(*program).seconds * (1 + 1e-9);
    EXPECT_LE(bound.seconds, seconds) << text;
    // The same holds for the bound from two layers.
    auto few =
        step.Lower(mesh, *layout, &few_layers, {.fusion = prices_.fusion});
    ASSERT_OK(few);
    const double least = prices_.least(*few, few_layers.left_out_layers);
    EXPECT_LE(least, seconds) << text;
    nearness += least / seconds;
    EXPECT_LE(bound.memory, static_cast<double>(memory) * (1 + 1e-9)) << text;
    ++tried;
  }
  EXPECT_EQ(tried, 150);
  // And the bounds are not trivial.
  EXPECT_GE(nearness, 0.75 * tried);
}
INSTANTIATE_TEST_SUITE_P(Spaces, GptBounds, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Restricted" : "MixedSections";
                         });

// The search that prices small models finds the same layout as the one that
// prices all layers.
TEST_F(GptSearch, SmallModelsFindTheLayoutThatAllLayersFind) {
  GptSizes sizes = *FindModel("gpt2");
  sizes.layers = 7;
  sizes.batch = 16;
  Build(sizes);
  const Mesh mesh = *Mesh::Parse("data:4,model:8");
  for (int64_t limit : {int64_t{0}, 3 * kGiB}) {
    SearchOptions options = {.memory_limit = limit, .keep = 1};
    options.sections = limit != 0;
    options.dimensions = {"batch", "d_model", "heads", "d_ff", "vocab"};
    const auto by_line = SearchRules(input_, mesh, prices_, options);
    options.most_layers = 7;
    const auto by_whole = SearchRules(input_, mesh, prices_, options);
    ASSERT_OK(by_line);
    ASSERT_OK(by_whole);
    EXPECT_TRUE(by_whole->complete);
    EXPECT_NEAR(by_line->best[0].price.seconds, by_whole->best[0].price.seconds,
                1e-6 * by_whole->best[0].price.seconds)
        << by_line->best[0].text << "and by the whole\n"
        << by_whole->best[0].text;
  }
}

// The fastest layout by the small models may be slightly too large with all
// layers.
TEST_F(GptSearch, LayoutsTooLargeWithAllLayersHideNoneThatFits) {
  Build(*FindModel("gpt3_175b"));
  const Mesh mesh = *Mesh::Parse("a:8,b:8,c:8");
  constexpr int64_t kLimit = 80'000'000'000;
  const auto found =
      SearchRules(input_, mesh, prices_, {.memory_limit = kLimit, .keep = 1});
  ASSERT_OK(found);
  EXPECT_LE(found->best[0].memory_bytes(), kLimit);
  // It takes half the memory and is slower than the ones that are too large.
  constexpr char kFits[] =
      "batch:a, length:c, vocab:b, heads:b, d_ff:b\n"
      "[parameters]\nvocab:b+a+c, d_kv:a+c, d_ff:b+a+c\n"
      "[optimizer]\nvocab:b+a+c, d_kv:a+c, d_ff:b+a+c";
  EXPECT_LE(found->best[0].price.seconds,
            SecondsOf(kFits, mesh, prices_) * (1 + 1e-9));
}

// For limits between the smallest and the largest layout: the small models find
// a layout that fits exactly if pricing all layers does, and it fits.
TEST_F(GptSearch, SmallModelsFindALayoutWheneverAllLayersDo) {
  GptSizes sizes = *FindModel("gpt2");
  sizes.layers = 7;
  sizes.batch = 16;
  Build(sizes);
  const Mesh mesh = *Mesh::Parse("data:2,model:4");
  SearchOptions options = {.keep = 1};
  options.sections = false;
  options.dimensions = {"batch", "heads", "d_ff", "vocab"};
  int none = 0, some = 0;
  options.memory_limit = 0;
  options.most_layers = 7;
  const auto fastest = SearchRules(input_, mesh, prices_, options);
  ASSERT_OK(fastest);
  for (int64_t percent : {110, 104, 100, 98, 96, 94, 92, 90, 88, 50}) {
    const int64_t limit = fastest->best[0].memory_bytes() / 100 * percent + 99;
    SCOPED_TRACE(percent);
    options.memory_limit = limit;
    options.most_layers = 6;
    const auto by_line = SearchRules(input_, mesh, prices_, options);
    options.most_layers = 7;
    const auto by_whole = SearchRules(input_, mesh, prices_, options);
    ASSERT_EQ(by_line.ok(), by_whole.ok()) << by_line.status();
    if (!by_line.ok()) {
      ++none;
      // The memory of the smallest layout is exact.
      EXPECT_EQ(by_line.status().message(), by_whole.status().message());
      continue;
    }
    ++some;
    EXPECT_FALSE(by_line->best[0].estimated);
    EXPECT_LE(by_line->best[0].memory_bytes(), limit);
    EXPECT_LE(by_line->best[0].price.seconds,
              by_whole->best[0].price.seconds * 1.01);
  }
  EXPECT_GT(none, 0);
  EXPECT_GT(some, 1);
}

// A larger limit admits all layouts of a smaller one, so the result must not be
// slower although local search starts from other layouts.
TEST_F(GptSearch, MoreMemoryIsNotSlower) {
  GptSizes sizes = *FindModel("gpt3_13b");
  sizes.layers = 3;
  sizes.batch = 16;
  Build(sizes);
  ExpectNoSlower(*Mesh::Parse("data:8,model:8"), {3, 4, 12});
}

// Also if the best layout has rules for scopes.
TEST_F(GptSearch, MoreMemoryIsNotSlowerForLongSequences) {
  GptSizes sizes = *FindModel("gpt3_7b");
  sizes.layers = 8;
  sizes.length = 32768;
  sizes.batch = 4;
  Build(sizes);
  ExpectNoSlower(*Mesh::Parse("data:2,model:16"), {12, 60});
}

TEST_F(GptSearch, ShowsTheRequestedNumberOfDifferentLayouts) {
  GptSizes sizes = *FindModel("gpt2");
  sizes.layers = 7;
  sizes.batch = 16;
  Build(sizes);
  SearchOptions options = {.keep = 5, .full_space = 1};
  options.dimensions = {"batch", "heads", "d_ff", "vocab"};
  const auto found =
      SearchRules(input_, *Mesh::Parse("data:2,model:4"), prices_, options);
  ASSERT_OK(found);
  ASSERT_EQ(found->best.size(), 5u);
  for (size_t i = 0; i < found->best.size(); ++i) {
    const FoundLayout& mine = found->best[i];
    EXPECT_FALSE(mine.estimated);
    for (size_t j = 0; j < i; ++j) {
      const FoundLayout& other = found->best[j];
      EXPECT_LE(other.price.seconds, mine.price.seconds * (1 + 1e-9));
      const auto memory = static_cast<double>(mine.memory_bytes());
      EXPECT_TRUE(mine.price.seconds > other.price.seconds * 1.01 ||
                  std::abs(memory - static_cast<double>(other.memory_bytes())) >
                      0.029 * memory)
          << mine.text << "and\n"
          << other.text;
    }
  }
}

TEST_F(GptSearch, SearchOverMeshesIsNoSlowerThanOnEachMesh) {
  GptSizes sizes = *FindModel("gpt2");
  sizes.layers = 2;
  sizes.batch = 16;
  Build(sizes);
  SearchOptions options = {.keep = 1};
  options.sections = false;
  const auto found = SearchMeshes(input_, 16, 2, prices_, options);
  ASSERT_OK(found);
  EXPECT_EQ(found->best[0].mesh.num_devices(), 16);
  for (const char* mesh : {"all:16", "outer:2,inner:8", "outer:4,inner:4"}) {
    const auto on_one =
        SearchRules(input_, *Mesh::Parse(mesh), prices_, options);
    ASSERT_OK(on_one);
    EXPECT_LE(found->best[0].price.seconds,
              on_one->best[0].price.seconds * (1 + 1e-9))
        << mesh;
  }
}

}  // namespace
}  // namespace mtf
