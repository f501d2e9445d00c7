// SPDX-License-Identifier: Apache-2.0
//
// Edge cases of operations in a session, on both devices and under several
// layouts: empty dimensions, integer division by zero, indices of rows without
// elements, variables that are assigned twice or created too late.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "mtf/graph.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class EdgeCases
    : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  absl::StatusOr<std::vector<HostTensor>> Run(const Graph& graph,
                                              const RunRequest& request) {
    MTF_ASSIGN_OR_RETURN(session_,
                         Session::Create(graph, "x:3", std::get<1>(GetParam()),
                                         {.backend = std::get<0>(GetParam())}));
    MTF_RETURN_IF_ERROR(session_->Initialize());
    return session_->Run(request);
  }
  std::unique_ptr<Session> session_;
};

TEST_P(EdgeCases, LogSumExpOfNoElementsIsMinusInfinity) {
  for (int64_t b : {1, 4}) {
    Graph graph;
    Tensor p = Input(graph, "p", kFloat32, {{"a", 0}, {"b", b}});
    Tensor y = ReduceLogSumExp(p, {{"b", b}});
    const auto values = Run(
        graph,
        {.feeds = {{"p", HostTensor(p.shape(), kFloat32)}}, .fetches = {y}});
    ASSERT_OK(values);
    for (int64_t i = 0; i < b; ++i) {
      EXPECT_EQ(*(*values)[0].At(i), -std::numeric_limits<double>::infinity());
    }
  }
}

TEST_P(EdgeCases, AnIntegerModuloZeroIsItself) {
  for (DType dtype : {kInt32, kInt64}) {
    Graph graph;
    Tensor x = Constant(graph, {-4, 5}, dtype, {{"a", 2}});
    Tensor zero = Constant(graph, {0, 0}, dtype, {{"a", 2}});
    const auto values =
        Run(graph, {.fetches = {Mod(x, zero), FloorDivide(x, zero)}});
    ASSERT_OK(values);
    EXPECT_EQ((*values)[0].ToDoubles(), (std::vector<double>{-4, 5}));
    EXPECT_EQ((*values)[1].ToDoubles(), (std::vector<double>{0, 0}));
  }
}

TEST_P(EdgeCases, MeansOfManyHalfFloats) {
  SKIP_UNDER_THREAD_SANITIZER("a size changes no thread");
  for (const DType dtype : {kFloat16, kBFloat16}) {
    Graph graph;
    const Tensor x = Constant(graph, 3, dtype, {{"a", 70000}});
    const Tensor mean = ReduceMean(x, {});
    const Tensor g = Gradients(ReduceMax(x, {}), {x})[0];
    const auto values = Run(graph, {.fetches = {mean, g}});
    ASSERT_OK(values);
    EXPECT_EQ(*(*values)[0].At(0), 3);
    EXPECT_NEAR(*(*values)[1].At(69999), 1 / 70000.0, 1e-7);
  }
}

// The largest numbers round up to `high` in a sum or a cast.
TEST_P(EdgeCases, UniformNumbersStayBelowHigh) {
  const auto dtypes = {kFloat32, kBFloat16, kFloat16};
  Graph graph;
  std::vector<Tensor> fetches;
  for (const DType dtype : dtypes) {
    for (const double low : {0.0, 1000.0}) {
      fetches.push_back(
          RandomUniform(graph, {{"a", 9999}}, low, low + 1, {.dtype = dtype}));
    }
  }
  const auto values = Run(graph, {.fetches = fetches});
  ASSERT_OK(values);
  // 1000 and 1001 round to the same bf16.
  const std::vector<double> high = {1, 1001, 1, 1000.5, 1, 1001};
  for (size_t i = 0; i < fetches.size(); ++i) {
    for (const double value : (*values)[i].ToDoubles()) {
      ASSERT_GE(value, i % 2 == 0 ? 0 : 1000) << i;
      ASSERT_LT(value, high[i]) << i;
    }
  }
}

TEST_P(EdgeCases, IndicesOfEmptyRowsAreChecked) {
  Graph graph;
  Tensor updates = Ones(graph, kFloat32, {{"c", 3}, {"z", 0}});
  Tensor indices = Constant(graph, {0, 9, 1}, kInt32, {{"c", 3}});
  Tensor sums = ScatterAdd(updates, indices, "a", {{"a", 5}, {"z", 0}});
  EXPECT_THAT(Run(graph, {.fetches = {sums}}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("index 9")));
}

TEST_P(EdgeCases, TwoAssignmentsOfOneVariableInAStepAreAnError) {
  Graph graph;
  Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {{"a", 4}}));
  Tensor up = Assign(w, w + 1.0), down = Assign(w, w - 1.0);
  EXPECT_THAT(Run(graph, {.updates = {up, down}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("\"w\" is assigned twice in one step"),
                             HasSubstr("edge_cases_test.cc"))));
}

TEST_P(EdgeCases, AVariableCreatedAfterTheSessionIsAnError) {
  Graph graph;
  Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {{"a", 4}}));
  ASSERT_OK(Run(graph, {.fetches = {w}}));
  Tensor late = Variable(graph, "late", Ones(graph, kFloat32, {{"a", 4}}));
  EXPECT_THAT(session_->Run({.fetches = {late}}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("variable \"late\" was created after")));
}

TEST_P(EdgeCases, ATooLargeTensorIsAnErrorThatNamesIt) {
  Graph graph;
  Tensor w =
      Ones(graph, kFloat32, {{"c", int64_t{1} << 30}, {"d", int64_t{1} << 30}});
  EXPECT_THAT(Run(graph, {.fetches = {w}}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("elements on every device"),
                             HasSubstr("edge_cases_test.cc"))));
}

INSTANTIATE_TEST_SUITE_P(
    Everywhere, EdgeCases,
    ::testing::Combine(::testing::Values("cpu", "reference"),
                       ::testing::Values("", "a:x", "b:x", "c:x")));

}  // namespace
}  // namespace mtf::train
