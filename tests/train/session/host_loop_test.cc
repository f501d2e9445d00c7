// SPDX-License-Identifier: Apache-2.0
//
// The loop of docs/writing_layers.md: the host runs a step until a scalar that
// it fetches says stop.
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

const Dimension kBatch{"batch", 3};

// The square roots of `numbers`, and the number of turns.
absl::StatusOr<std::vector<double>> SquareRoots(
    const std::string& mesh, const std::string& layout,
    const std::vector<double>& numbers, int* turns) {
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, {kBatch});
  Tensor root = StateVariable(graph, "root", Ones(graph, kFloat32, {kBatch}));
  Tensor next = 0.5 * (root + x / root);
  Tensor change = ReduceMax(Abs(next - root), {});
  Tensor turn = Assign(root, next);

  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                       Session::Create(graph, mesh, layout));
  MTF_RETURN_IF_ERROR(session->Initialize());
  const std::map<std::string, HostTensor> feeds = {
      {"x", HostTensor::FromDoubles({kBatch}, kFloat32, numbers)}};
  double changed = 1;
  while (changed > 1e-6) {
    MTF_ASSIGN_OR_RETURN(
        const auto values,
        session->Run({.feeds = feeds, .fetches = {change}, .updates = {turn}}));
    MTF_ASSIGN_OR_RETURN(changed, values[0].At(0));
    ++*turns;
  }
  MTF_ASSIGN_OR_RETURN(const HostTensor roots, session->ReadVariable("root"));
  return roots.ToDoubles();
}

TEST(HostLoop, EndsAtTheSameTurnUnderEveryLayout) {
  const std::vector<double> numbers = {4, 2, 100};
  int turns = 0;
  const auto roots = SquareRoots("", "", numbers, &turns);
  ASSERT_OK(roots);
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_NEAR((*roots)[i], std::sqrt(numbers[i]), 1e-5);
  }
  EXPECT_GT(turns, 5);
  int sharded_turns = 0;
  const auto sharded = SquareRoots("a:2", "batch:a", numbers, &sharded_turns);
  ASSERT_OK(sharded);
  EXPECT_EQ(*sharded, *roots);
  EXPECT_EQ(sharded_turns, turns);
}

}  // namespace
}  // namespace mtf::train
