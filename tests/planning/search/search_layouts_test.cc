// SPDX-License-Identifier: Apache-2.0
//
// The search finds the best layout. The expected result is found by trying
// every set of rules over the dimensions and skipping those that do not lower.
#include "planning/search/search_layouts.h"

#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planning/search/search_bounds.h"
#include "planning/search/search_space.h"
#include "tests/lowering/small_transformer.h"
#include "tests/matchers.h"
#include "tests/planning/search/search_everything.h"
#include "tests/requirements.h"

namespace mtf {
namespace {

using ::mtf::testing::BuildTransformer;
using ::mtf::testing::Everything;
using ::mtf::testing::LayoutLister;
using ::mtf::testing::Listed;
using ::mtf::testing::MemoryOf;
using ::mtf::testing::SimplePrice;
using ::mtf::testing::TransformerSizes;
using ::testing::HasSubstr;

struct SearchCase {
  const char* name;
  const char* mesh;
  std::vector<std::string> dimensions;
  bool sections;
  const char* machine;  // "" for SimplePrice
  TransformerSizes sizes = {.layers = 1};

  friend std::ostream& operator<<(std::ostream& out, const SearchCase& c) {
    return out << c.name;
  }
};

class Search : public ::testing::TestWithParam<SearchCase> {
 protected:
  void SetUp() override {
    for (const char* large :
         {"two_axes", "two_axes_with_sections", "nodes_with_sections",
          "large_layers_with_sections"}) {
      if (GetParam().name == absl::string_view(large)) {
        SKIP_UNDER_SANITIZERS("a large search");
      }
    }
  }
  Search() : mesh_(*Mesh::Parse(GetParam().mesh)) {
    const auto model = BuildTransformer(graph_, GetParam().sizes);
    targets_.fetches = {model.loss};
    targets_.updates = {model.step};
    if (GetParam().machine[0] == '\0') {
      prices_.step = SimplePrice;
    } else {
      prices_ = PricesOf(*Machine::Load(GetParam().machine));
    }
    options_.dimensions = GetParam().dimensions;
    options_.sections = GetParam().sections;
    options_.keep = 1;
    options_.full_space = 1e9;
  }

  // Lists the layouts of each case once for all tests.
  const Everything& AllLayouts() const {
    static auto* lists = new std::map<std::string, Everything>;
    const auto known = lists->find(GetParam().name);
    if (known != lists->end()) return known->second;
    return lists
        ->emplace(GetParam().name,
                  LayoutLister(graph_, targets_, mesh_, prices_,
                               options_.dimensions, options_.sections))
        .first->second;
  }

  Graph graph_;
  Targets targets_;
  Mesh mesh_;
  SearchPrices prices_;
  SearchOptions options_;
};

TEST_P(Search, FindsTheBestOfAllLayoutsUnderEveryMemoryLimit) {
  const Everything& everything = AllLayouts();
  ASSERT_GT(everything.all().size(), 1u);
  std::set<int64_t> sizes;
  for (const Listed& listed : everything.all()) sizes.insert(listed.memory);
  // No limit, the lowest one that a layout fits into, and some in between.
  std::vector<int64_t> limits = {0, *sizes.begin()};
  for (int i = 1; i < 4; ++i) {
    limits.push_back(*std::next(sizes.begin(), sizes.size() * i / 5));
  }
  for (int64_t limit : limits) {
    SCOPED_TRACE(absl::StrCat("limit ", limit));
    options_.memory_limit = limit;
    const auto found =
        SearchRules({&graph_, targets_}, mesh_, prices_, options_);
    ASSERT_OK(found);
    EXPECT_TRUE(found->complete);
    EXPECT_FALSE(found->restricted);
    const double best = everything.Best(limit);
    EXPECT_NEAR(found->best[0].price.seconds, best, 1e-9 * best)
        << found->best[0].text;
    // The reported price and memory are those of the layout.
    auto program = [&]() -> absl::StatusOr<Program> {
      MTF_ASSIGN_OR_RETURN(
          const LayoutRules rules,
          LayoutRules::Parse(LayoutFileText(*found, 0, options_), "test"));
      MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                           BindLayout(graph_, mesh_, rules));
      return Lower(graph_, binding, targets_,
                   {.attention = prices_.attention, .fusion = prices_.fusion});
    }();
    ASSERT_OK(program);
    EXPECT_EQ(prices_.step(*program).seconds, found->best[0].price.seconds);
    EXPECT_EQ(MemoryOf(*program), found->best[0].memory_bytes());
  }
}

// `most_lowered` does not end the search of a space that is searched in full.
TEST_P(Search, FindsTheBestThatDifferWithoutLimitOnLoweredLayouts) {
  const Everything& everything = AllLayouts();
  options_.keep = 3;
  options_.most_lowered = 1;
  const auto found = SearchRules({&graph_, targets_}, mesh_, prices_, options_);
  ASSERT_OK(found);
  EXPECT_TRUE(found->complete);
  EXPECT_TRUE(found->searched_in_full);
  const std::vector<Listed> best = everything.Different(0, 3);
  ASSERT_EQ(found->best.size(), best.size());
  for (size_t i = 0; i < best.size(); ++i) {
    EXPECT_NEAR(found->best[i].price.seconds, best[i].seconds,
                1e-9 * best[i].seconds)
        << found->best[i].text << "instead of\n"
        << best[i].text;
  }
}

TEST_P(Search, ErrorStatesTheMemoryOfTheSmallestIfNothingFits) {
  const Everything& everything = AllLayouts();
  options_.memory_limit = everything.Smallest() - 1;
  const auto found = SearchRules({&graph_, targets_}, mesh_, prices_, options_);
  EXPECT_THAT(found, testing::StatusIs(absl::StatusCode::kResourceExhausted,
                                       HasSubstr("no layout fits into")));
}

// No layout of the space costs less than its lower bounds.
TEST_P(Search, BoundsHoldForEveryLayout) {
  if (prices_.matmul == nullptr) GTEST_SKIP() << "no bounds without a machine";
  const internal::SearchStep step(
      {&graph_, targets_}, SearchOptions().most_layers, prices_.attention);
  const auto dimensions = internal::FindSearchDimensions(step, options_);
  ASSERT_OK(dimensions);
  const auto space = internal::MakeSearchSpace(*dimensions, mesh_, options_);
  ASSERT_OK(space);
  const auto workload =
      internal::SummarizeStep(step, dimensions->names, prices_);
  ASSERT_OK(workload);
  internal::TrafficTable traffic;
  const internal::SearchBounds bounds(step, *workload, *space, prices_,
                                      traffic);
  internal::Roles roles(space->axes.size(), 0);
  for (;;) {
    std::vector<internal::DimSet> sharded;
    for (int role : roles) sharded.push_back(space->roles[role].sharded);
    internal::AxisRoles layout = RolesOf(*space, roles);
    for (bool once : {false, true}) {
      if (once && !layout.shards_parameters()) continue;
      layout.keep_gathered = once;
      const std::string text = RulesText(*space, layout);
      const auto rules = LayoutRules::Parse(text, "test");
      ASSERT_OK(rules);
      const auto binding = BindLayout(graph_, mesh_, *rules);
      ASSERT_OK(binding);
      auto program = Lower(graph_, *binding, targets_,
                           {.attention = prices_.attention,
                            .fusion = prices_.fusion,
                            .verify = false});
      ASSERT_OK(program) << text;
      const auto bound = bounds.Of(roles, bounds.ComputeSeconds(sharded), once);
      const double most = prices_.step(*program).seconds * (1 + 1e-9);
      EXPECT_LE(bound.seconds, most) << text;
      EXPECT_LE(bound.memory,
                static_cast<double>(MemoryOf(*program)) * (1 + 1e-9))
          << text;
      EXPECT_DOUBLE_EQ(bound.memory, bounds.MemoryOf(layout));
    }
    if (HasFailure()) return;
    size_t i = 0;
    while (i < roles.size() &&
           ++roles[i] == static_cast<int>(space->roles.size())) {
      roles[i++] = 0;
    }
    if (i == roles.size()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(
    SmallTransformer, Search,
    ::testing::ValuesIn(std::vector<SearchCase>{
        {"one_axis",
         "x:4",
         {"batch", "d_model", "heads", "d_ff", "vocab"},
         false,
         ""},
        {"one_axis_with_sections",
         "x:2",
         {"batch", "d_model", "d_ff"},
         true,
         ""},
        {"two_axes", "x:2,y:4", {"batch", "heads", "d_ff", "vocab"}, false, ""},
        {"two_axes_with_sections", "x:2,y:2", {"batch", "d_ff"}, true, ""},
        {"one_axis_of_nvlink",
         "x:8",
         {"batch", "length", "d_model", "heads", "d_ff", "vocab"},
         false,
         "h100_nvlink_ib"},
        {"two_alike_axes_of_nvlink",
         "x:2,y:2",
         {"batch", "d_model", "heads", "d_ff"},
         false,
         "h100_nvlink_ib"},
        {"nodes_of_nvlink",
         "x:4,y:8",
         {"batch", "heads", "d_ff", "vocab"},
         false,
         "h100_nvlink_ib"},
        {"nodes_with_sections",
         "x:2,y:8",
         {"batch", "d_ff"},
         true,
         "h100_nvlink_ib"},
        {"large_layers",
         "x:4,y:8",
         {"batch", "heads", "d_ff"},
         false,
         "h100_nvlink_ib",
         {.layers = 1,
          .batch = 32,
          .length = 256,
          .d_model = 1024,
          .heads = 16,
          .d_kv = 64,
          .d_ff = 4096,
          .vocab = 8192}},
        {"large_layers_with_sections",
         "x:2,y:8",
         {"batch", "d_ff"},
         true,
         "h100_nvlink_ib",
         {.layers = 1,
          .batch = 16,
          .length = 128,
          .d_model = 2048,
          .heads = 16,
          .d_kv = 128,
          .d_ff = 8192,
          .vocab = 8192}},
        {"fused_attention",
         "x:2,y:4",
         {"batch", "length", "heads", "d_kv"},
         false,
         "h100_nvlink_ib",
         {.layers = 2,
          .batch = 8,
          .length = 512,
          .d_model = 64,
          .heads = 4,
          .d_kv = 64,
          .d_ff = 64,
          .vocab = 64,
          .dtype = kBFloat16}},
        {"fused_attention_with_sections",
         "x:4",
         {"length", "heads"},
         true,
         "h200_x8",
         {.layers = 1,
          .batch = 4,
          .length = 256,
          .d_model = 256,
          .heads = 4,
          .d_kv = 64,
          .d_ff = 256,
          .vocab = 512,
          .dtype = kBFloat16}},
        {"uneven_sizes",
         "x:3,y:4",
         {"batch", "heads", "d_ff"},
         false,
         "h100_nvlink_ib",
         {.layers = 1,
          .batch = 7,
          .length = 5,
          .d_model = 9,
          .heads = 3,
          .d_kv = 2,
          .d_ff = 13,
          .vocab = 11}},
        {"without_overlap",
         "x:2,y:2",
         {"batch", "heads", "d_ff", "vocab"},
         false,
         "tpu_v3"},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mtf
