// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (edge_cases_test runs the same threads)
//
// A function of each element gives the same bits in every run, on every number
// of ranks, next to any other elements.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "mtf/graph.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "tests/matchers.h"
#include "tests/repeats.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

const Dimension kN{"n", 72};

// Angles of a few turns; every ninth is too large for fast sines.
HostTensor Angles() {
  std::vector<double> angles;
  for (int i = 0; i < kN.size; ++i) {
    angles.push_back(i % 9 == 4 ? 4e4 + 3e3 * i : 0.37 * i - 11);
  }
  return HostTensor::FromDoubles({kN}, kFloat32, angles);
}

class RepeatedBits : public ::testing::TestWithParam<const char*> {
 protected:
  using Function = std::function<Tensor(Tensor)>;

  // The values of `runs` steps.
  std::vector<HostTensor> Run(const Function& function, const char* mesh,
                              int runs) {
    Graph graph;
    const Tensor y = function(Input(graph, "x", kFloat32, {kN}));
    std::vector<HostTensor> all;
    auto session = Session::Create(
        graph, mesh, "n:x", {.backend = GetParam(), .ranks = RankKind::kLocal});
    EXPECT_OK(session);
    if (!session.ok()) return all;
    for (int i = 0; i < runs; ++i) {
      auto values =
          (*session)->Run({.feeds = {{"x", Angles()}}, .fetches = {y}});
      EXPECT_OK(values);
      if (!values.ok()) break;
      all.push_back((*values)[0]);
    }
    return all;
  }

  void ExpectSameEverywhere(const Function& function, double (*exact)(double)) {
    const std::vector<HostTensor> one = Run(function, "x:1", 1);
    ASSERT_EQ(one.size(), 1u);
    const HostTensor x = Angles();
    for (int64_t i = 0; i < kN.size; ++i) {
      EXPECT_NEAR(*one[0].At(i), exact(*x.At(i)), 1e-6) << i;
    }
    // Different ranks have different elements at the end of a vector.
    const bool is_cpu = std::string(GetParam()) == "cpu";
    ExpectSame(function, "x:2", is_cpu ? testing::Repeats(1000, 20) : 3,
               one[0]);
    ExpectSame(function, "x:3", 3, one[0]);
    ExpectSame(function, "x:5", 3, one[0]);
  }
  void ExpectSame(const Function& function, const char* mesh, int runs,
                  const HostTensor& want) {
    SCOPED_TRACE(mesh);
    int different = 0;
    for (const HostTensor& again : Run(function, mesh, runs)) {
      different += !(again == want);
    }
    EXPECT_EQ(different, 0);
  }
};

TEST_P(RepeatedBits, OfACosineWithSomeLargeArguments) {
  ExpectSameEverywhere([](Tensor x) { return Cos(x); }, std::cos);
}

TEST_P(RepeatedBits, OfASineWithSomeLargeArguments) {
  ExpectSameEverywhere([](Tensor x) { return Sin(x); }, std::sin);
}

INSTANTIATE_TEST_SUITE_P(Devices, RepeatedBits,
                         ::testing::Values("cpu", "reference"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace
}  // namespace mtf::train
