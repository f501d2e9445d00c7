// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (large searches)
//
// The layouts found stay within a budget; if there are none, the error names
// the line that rejects most.
#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planning/cost/check_budget.h"
#include "planning/search/search_layouts.h"
#include "tests/lowering/small_transformer.h"
#include "tests/matchers.h"
#include "tests/planning/search/search_everything.h"

namespace mtf {
namespace {

using ::mtf::testing::BuildTransformer;
using ::mtf::testing::LayoutLister;
using ::mtf::testing::Listed;
using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class BudgetedSearch : public ::testing::Test {
 protected:
  BudgetedSearch() : mesh_(*Mesh::Parse("x:2,y:4")) {
    const auto model = BuildTransformer(graph_, {.layers = 1});
    targets_ = {.fetches = {model.loss}, .updates = {model.step}};
    options_.dimensions = {"batch", "heads", "d_ff", "vocab"};
    options_.sections = false;
    options_.keep = 1;
  }

  absl::StatusOr<SearchResult> Find(const std::string& budget) {
    const auto rules =
        LayoutRules::Parse("[budget]\n" + budget + "\n", "plan.layout");
    EXPECT_OK(rules);
    options_.budget = rules->budget();
    return SearchRules({&graph_, targets_}, mesh_, prices_, options_);
  }

  // For each budget the seconds of the fastest of all layouts within it.
  std::vector<double> Best(const std::vector<Budget>& budgets) const {
    std::vector<double> best(budgets.size(), HUGE_VAL);
    for (const Listed& listed : LayoutLister(graph_, targets_, mesh_, prices_,
                                             options_.dimensions, false)
                                    .List()) {
      const auto rules = LayoutRules::Parse(listed.text, "test");
      const auto binding = BindLayout(graph_, mesh_, *rules);
      auto program =
          Lower(graph_, *binding, targets_,
                {.attention = prices_.attention, .fusion = prices_.fusion});
      for (size_t i = 0; i < budgets.size(); ++i) {
        if (!CheckBudget(*program, budgets[i]).ok()) continue;
        best[i] = std::min(best[i], listed.seconds);
      }
    }
    return best;
  }

  Graph graph_;
  Targets targets_;
  Mesh mesh_;
  const SearchPrices prices_ = PricesOf(*Machine::Load("h100_nvlink_ib"));
  SearchOptions options_;
};

TEST_F(BudgetedSearch, FindsTheFastestLayoutWithinTheBudget) {
  const auto free = Find("memory at most 1 GiB");
  ASSERT_OK(free);
  std::vector<double> seconds;
  std::vector<Budget> budgets;
  for (const char* budget :
       {"nothing over y", "no all_reduce", "at most 10 KiB over y",
        "at most 4 KiB of all_reduce over x\nno all_to_all",
        "memory at most 100 KiB"}) {
    SCOPED_TRACE(budget);
    const auto found = Find(budget);
    ASSERT_OK(found);
    seconds.push_back(found->best[0].price.seconds);
    budgets.push_back(options_.budget);
    EXPECT_GE(found->best[0].price.seconds, free->best[0].price.seconds);
    // The printed file has the budget, and its layout stays within it.
    const auto rules =
        LayoutRules::Parse(LayoutFileText(*found, 0, options_), "found");
    ASSERT_OK(rules);
    EXPECT_EQ(rules->budget().ToString(), options_.budget.ToString());
    const auto binding = BindLayout(graph_, mesh_, *rules);
    ASSERT_OK(binding);
    auto program =
        Lower(graph_, *binding, targets_,
              {.attention = prices_.attention, .fusion = prices_.fusion});
    ASSERT_OK(program);
    EXPECT_OK(CheckBudget(*program, binding->budget));
  }
  const std::vector<double> best = Best(budgets);
  for (size_t i = 0; i < best.size(); ++i) {
    EXPECT_NEAR(seconds[i], best[i], 1e-9 * best[i]) << budgets[i].ToString();
  }
}

// A layout without rules sends nothing, so only its memory exceeds a limit.
TEST_F(BudgetedSearch, ErrorNamesTheLineThatRejectsMost) {
  const auto found =
      Find("nothing over x\nno all_reduce\nmemory at most 130 KiB");
  EXPECT_THAT(
      found,
      StatusIs(
          absl::StatusCode::kResourceExhausted,
          AllOf(HasSubstr("no layout keeps to the budget: budget line \"no "
                          "all_reduce\" (plan.layout:3) rejects "),
                HasSubstr("budget line \"nothing over x\" (plan.layout:2) "
                          "rejects "),
                HasSubstr("133120 bytes (130 KiB) per rank are too few "
                          "for "),
                HasSubstr("allow more in the section [budget]"))));
}

TEST_F(BudgetedSearch, ErrorNamesTheLineAboutMemory) {
  EXPECT_THAT(
      Find("memory at most 1 KiB"),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("no layout fits into 1024 bytes (1.00 KiB) per "
                               "rank; the smallest found takes "),
                     HasSubstr("budget line \"memory at most 1 KiB\" "
                               "(plan.layout:2)"))));
}

TEST_F(BudgetedSearch, ReportsLinesWithoutEffectAndMisspelledNames) {
  const auto found = Find("nothing over pod");
  ASSERT_OK(found);
  EXPECT_THAT(SummaryText(*found), HasSubstr("# Note: budget line \"nothing "
                                             "over pod\" (plan.layout:2) has "
                                             "no effect: "));
  EXPECT_THAT(Find("nothing over x in layr_*"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("did you mean \"layer_*\"?")));
}

}  // namespace
}  // namespace mtf
