// SPDX-License-Identifier: Apache-2.0
#include "train/loop/find_non_finite.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"

namespace mtf::train {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

const Dimension kRows{"rows", 5};

std::map<std::string, HostTensor> FeedOf(double fifth) {
  return {
      {"x", HostTensor::FromDoubles({kRows}, kFloat32, {1, 2, 3, 4, fifth})}};
}

// exp(x) overflows for x over 88; inf - inf is NaN.
struct Model {
  explicit Model(Graph& graph) {
    const Tensor x = Input(graph, "x", kFloat32, {kRows});
    const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {kRows}));
    const Tensor y = Exp(x * w);
    loss = ReduceSum(y - y, {});
    for (int i = 0; i < 60; ++i) loss = loss + 1.0;  // several requests
  }
  Tensor loss;
};

TEST(FindNonFinite, NamesTheFirstTensorsWithTheUsersLine) {
  for (const char* layout : {"", "rows:data"}) {
    Graph graph;
    const Model model(graph);
    const auto session = Session::Create(graph, "data:2", layout);
    ASSERT_OK(session);
    ASSERT_OK((*session)->Initialize());
    const auto none = FindNonFinite(**session, model.loss, FeedOf(5));
    ASSERT_OK(none);
    EXPECT_TRUE(none->empty());

    const auto found = FindNonFinite(**session, model.loss, FeedOf(100));
    ASSERT_OK(found);
    ASSERT_EQ(found->size(), 2u);
    EXPECT_THAT((*found)[0].ToString(),
                MatchesRegex("infinite in 1 of 5 elements of \".*exp.*\" "
                             "(.*find_non_finite_test.cc:[0-9]+.)"));
    EXPECT_THAT((*found)[1].ToString(), HasSubstr("NaN in 1 of 5 elements"));
    EXPECT_EQ((*session)->step(), 0);
  }
}

TEST(FindNonFinite, FindsAVariable) {
  Graph graph;
  const Model model(graph);
  const auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  ASSERT_OK((*session)->WriteVariable(
      "w", HostTensor::FromDoubles({kRows}, kFloat32, {1, NAN, 1, NAN, 1})));
  const auto found = FindNonFinite(**session, model.loss, FeedOf(5));
  ASSERT_OK(found);
  ASSERT_EQ(found->size(), 1u);
  EXPECT_THAT((*found)[0].ToString(),
              HasSubstr("NaN in 2 of 5 elements of \"w"));
}

}  // namespace
}  // namespace mtf::train
