// SPDX-License-Identifier: Apache-2.0
//
// Searches and explanations lower layouts in several threads. Their results do
// not depend on the order of the threads. Small enough for ThreadSanitizer.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planning/explain/explain.h"
#include "planning/search/search_layouts.h"
#include "tests/matchers.h"
#include "tools/models.h"

namespace mtf {
namespace {

const Machine& Pod() {
  static const Machine* machine = new Machine(*Machine::Load("h100_nvlink_ib"));
  return *machine;
}

// For a space that is searched in full, and for a restricted one whose layouts
// are priced on fewer layers.
TEST(Threads, ASearchFindsTheSameTwice) {
  const auto step = BuildGpt({.layers = 7});
  ASSERT_OK(step);
  const SearchInput input = step->Input();
  const Mesh mesh = *Mesh::Parse("data:2");
  for (double full_space : {1e6, 1.0}) {
    const SearchOptions options = {.dimensions = {"batch", "d_ff"},
                                   .full_space = full_space};
    const auto first = SearchRules(input, mesh, PricesOf(Pod()), options);
    const auto second = SearchRules(input, mesh, PricesOf(Pod()), options);
    ASSERT_OK(first);
    ASSERT_OK(second);
    EXPECT_EQ(first->restricted, full_space == 1);
    ASSERT_EQ(first->best.size(), second->best.size());
    for (size_t i = 0; i < first->best.size(); ++i) {
      EXPECT_EQ(first->best[i].text, second->best[i].text);
      EXPECT_EQ(first->best[i].price.seconds, second->best[i].price.seconds);
      EXPECT_EQ(first->best[i].memory_bytes(), second->best[i].memory_bytes());
    }
  }
}

TEST(Threads, AnExplanationIsTheSameTwice) {
  const auto step = BuildGpt({.layers = 1});
  ASSERT_OK(step);
  const Mesh mesh = *Mesh::Parse("data:2");
  std::vector<std::string> texts;
  for (int i = 0; i < 2; ++i) {
    const auto explanation =
        Explain(*step->graph, mesh, *LayoutRules::Preset("zero3"),
                step->targets, Pod());
    ASSERT_OK(explanation);
    texts.push_back(ExplainJson(*explanation));
  }
  EXPECT_EQ(texts[0], texts[1]);
}

}  // namespace
}  // namespace mtf
