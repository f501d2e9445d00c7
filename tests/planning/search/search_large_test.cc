// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (large searches)
//
// Searches of spaces that count as large: some layouts are priced, then the
// best are changed rule by rule. The spaces are small enough to try every
// layout, which shows whether the search missed one.
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planning/search/search_layouts.h"
#include "planning/search/search_refine.h"
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
using ::mtf::testing::TransformerSizes;
using ::testing::HasSubstr;
using ::testing::Not;

struct LargeCase {
  const char* name;
  const char* mesh;
  std::vector<std::string> dimensions;
  TransformerSizes sizes;

  friend std::ostream& operator<<(std::ostream& out, const LargeCase& c) {
    return out << c.name;
  }
};

class LargeSearch : public ::testing::TestWithParam<LargeCase> {
 protected:
  LargeSearch() : mesh_(*Mesh::Parse(GetParam().mesh)) {
    const auto model = BuildTransformer(graph_, GetParam().sizes);
    targets_ = {.fetches = {model.loss}, .updates = {model.step}};
    options_.dimensions = GetParam().dimensions;
    options_.full_space = 1;
  }

  double SecondsOf(const std::string& text) const {
    const auto rules = LayoutRules::Parse(text, "test");
    EXPECT_OK(rules);
    const auto binding = BindLayout(graph_, mesh_, *rules);
    EXPECT_OK(binding);
    auto program = Lower(graph_, *binding, targets_,
                         {.attention = prices_.attention,
                          .fusion = prices_.fusion,
                          .verify = false});
    EXPECT_OK(program);
    if (options_.memory_limit > 0 &&
        MemoryOf(*program) > options_.memory_limit) {
      return HUGE_VAL;
    }
    return prices_.step(*program).seconds;
  }

  Graph graph_;
  Targets targets_;
  Mesh mesh_;
  const SearchPrices prices_ = PricesOf(*Machine::Load("h100_nvlink_ib"));
  SearchOptions options_;
};

// Although the first search is restricted in the sections of variables.
TEST_P(LargeSearch, FindsTheBestLayoutByChangesOfSingleRules) {
  if (GetParam().name != absl::string_view("two_dimensions")) {
    SKIP_UNLESS_THOROUGH("one of the spaces is searched");
  }
  const Everything everything(LayoutLister(graph_, targets_, mesh_, prices_,
                                           options_.dimensions, true));
  std::set<int64_t> sizes;
  for (const Listed& listed : everything.all()) sizes.insert(listed.memory);
  for (int64_t limit : {int64_t{0}, *std::next(sizes.begin(), sizes.size() / 2),
                        *std::next(sizes.begin(), sizes.size() / 5)}) {
    SCOPED_TRACE(absl::StrCat("limit ", limit));
    options_.memory_limit = limit;
    const auto found =
        SearchRules({&graph_, targets_}, mesh_, prices_, options_);
    ASSERT_OK(found);
    EXPECT_TRUE(found->restricted);
    EXPECT_FALSE(found->searched_in_full);
    EXPECT_GT(found->refined, 0);
    // A rule must save at least 1e-5 of the time.
    const double best = everything.Best(limit);
    EXPECT_LE(found->best[0].price.seconds, best * (1 + 5e-5))
        << found->best[0].text << "instead of\n"
        << everything.Different(limit, 1)[0].text;
  }
}

TEST_P(LargeSearch, NoChangeOfOneRuleIsFaster) {
  const auto found = SearchRules({&graph_, targets_}, mesh_, prices_, options_);
  ASSERT_OK(found);
  const auto dimensions = internal::FindSearchDimensions(
      internal::SearchStep({&graph_, targets_}), options_);
  ASSERT_OK(dimensions);
  const auto space = internal::MakeSearchSpace(*dimensions, mesh_, options_);
  ASSERT_OK(space);
  // The roles of the layout, from its rules. Rules for variables begin with the
  // axes of the default rules.
  internal::AxisRoles roles;
  roles.axes.resize(space->axes.size());
  for (const LayoutRule& rule : found->best[0].rules.rules()) {
    const size_t dim =
        static_cast<size_t>(std::find(dimensions->names.begin(),
                                      dimensions->names.end(), rule.dimension) -
                            dimensions->names.begin());
    ASSERT_LT(dim, dimensions->names.size());
    for (size_t i = 0; i < space->axes.size(); ++i) {
      const std::string& axis = mesh_.axes()[space->axes[i]].name;
      if (std::find(rule.axes.begin(), rule.axes.end(), axis) ==
          rule.axes.end()) {
        continue;
      }
      internal::AxisRole& role = roles.axes[i];
      const internal::DimSet bit = internal::DimSet{1} << dim;
      if (rule.section == RuleSection::kDefault) role.sharded |= bit;
      if ((role.sharded & bit) != 0) continue;
      if (rule.section == RuleSection::kParameters) role.parameters |= bit;
      if (rule.section == RuleSection::kOptimizer) role.optimizer |= bit;
    }
    roles.keep_gathered = roles.keep_gathered || rule.keep_gathered;
  }
  EXPECT_EQ(RulesText(*space, roles), found->best[0].text);
  int tried = 0;
  for (const auto& list : NextTo(*dimensions, roles)) {
    for (const internal::AxisRoles& next : list) {
      const std::string text = RulesText(*space, next);
      EXPECT_GE(SecondsOf(text), found->best[0].price.seconds * (1 - 1.1e-5))
          << text;
      ++tried;
    }
  }
  EXPECT_GT(tried, 10);
}

TEST_P(LargeSearch, ReportsThatItEndedEarly) {
  options_.most_lowered = 2;
  options_.keep = 1;
  const auto set = SearchRules({&graph_, targets_}, mesh_, prices_, options_);
  ASSERT_OK(set);
  const std::string text = SummaryText(*set);
  if (set->complete) {
    EXPECT_THAT(text, Not(HasSubstr("ended early")));
  } else {
    EXPECT_THAT(text, HasSubstr("ended early: there may be better ones"));
    EXPECT_FALSE(set->searched_in_full);
  }
}

INSTANTIATE_TEST_SUITE_P(Transformers, LargeSearch,
                         ::testing::ValuesIn(std::vector<LargeCase>{
                             {"nodes_of_nvlink",
                              "x:2,y:8",
                              {"batch", "d_ff", "vocab"},
                              {.layers = 1}},
                             {"many_words",
                              "x:2,y:4",
                              {"batch", "d_ff", "vocab"},
                              {.layers = 1,
                               .batch = 16,
                               .length = 64,
                               .d_model = 256,
                               .heads = 4,
                               .d_kv = 64,
                               .d_ff = 1024,
                               .vocab = 32000}},
                             {"large_layers",
                              "x:2,y:8",
                              {"batch", "d_model", "d_ff"},
                              {.layers = 1,
                               .batch = 16,
                               .length = 128,
                               .d_model = 2048,
                               .heads = 16,
                               .d_kv = 128,
                               .d_ff = 8192,
                               .vocab = 8192}},
                             {"two_dimensions",
                              "x:2,y:8",
                              {"batch", "d_ff"},
                              {.layers = 1,
                               .batch = 16,
                               .length = 128,
                               .d_model = 2048,
                               .heads = 16,
                               .d_kv = 128,
                               .d_ff = 8192,
                               .vocab = 8192}},
                         }),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mtf
