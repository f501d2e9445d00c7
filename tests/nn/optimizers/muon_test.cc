// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/muon.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "nn/layers/dense.h"
#include "nn/layers/embedding.h"
#include "nn/layers/layer_norm.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::testing::ElementsAre;

// One step of Muon from a kernel of zeros with the gradient `values`; the
// result is the update. In shape order, the first `fan_in_dims` dimensions
// after `each_dims` are summed over.
std::vector<double> UpdateOf(const Shape& shape, int fan_in_dims,
                             const std::vector<double>& values,
                             nn::MuonOptions options, int each_dims = 0) {
  OracleGraph o;
  const Tensor w = Variable(o.graph, "w", Zeros(o.graph, kFloat32, shape),
                            {.kernel = {each_dims, fan_in_dims}});
  o.variables["w"] = {shape, kFloat32,
                      std::vector<double>(shape.num_elements(), 0.0)};
  const Tensor g = Constant(o.graph, values, kFloat32, shape);
  options.learning_rate = 1.0;
  o.Run(nn::Muon(options).Apply({g}, {w}));
  std::vector<double> update = o.Value("w");
  for (double& x : update) x = -x;
  return update;
}

TEST(Muon, FoldsTheDimensionsOfAKernel) {
  const std::vector<double> g = testing::SomeNumbers(4 * 6, 1);
  // [io] to [heads, d_kv], and [heads, d_kv] to [io].
  const std::vector<double> wide =
      UpdateOf({{"io", 4}, {"out", 6}}, 1, g, {.match_adam = false});
  testing::ExpectNear(UpdateOf({{"io", 4}, {"heads", 2}, {"d_kv", 3}}, 1, g,
                               {.match_adam = false}),
                      wide, 1e-9);
  const std::vector<double> tall =
      UpdateOf({{"in", 6}, {"io", 4}}, 1, g, {.match_adam = false});
  testing::ExpectNear(UpdateOf({{"heads", 2}, {"d_kv", 3}, {"io", 4}}, 2, g,
                               {.match_adam = false}),
                      tall, 1e-9);
}

TEST(Muon, StackedMatricesAreIndependent) {
  const std::vector<double> first = testing::SomeNumbers(6, 1);
  const std::vector<double> second = testing::SomeNumbers(6, 2);
  const Dimension in{"in", 2}, out{"out", 3}, experts{"experts", 2};
  std::vector<double> both = first, expected;
  both.insert(both.end(), second.begin(), second.end());
  for (const auto& g : {first, second}) {
    const std::vector<double> update = UpdateOf({in, out}, 1, g, {});
    expected.insert(expected.end(), update.begin(), update.end());
  }
  testing::ExpectNear(
      UpdateOf({experts, in, out}, 2, both, {.stacked = {"experts"}}), expected,
      1e-9);
  // As nn::Kernel() says.
  testing::ExpectNear(UpdateOf({experts, in, out}, 1, both, {}, 1), expected,
                      1e-9);
}

// Singular values of the update are near 1: u^T u is near the identity.
TEST(Muon, UpdatesAreNearlyOrthogonal) {
  constexpr int kRows = 6, kColumns = 3;
  const std::vector<double> u = UpdateOf(
      {{"in", kRows}, {"out", kColumns}}, 1,
      testing::SomeNumbers(kRows * kColumns, 4), {.match_adam = false});
  for (int i = 0; i < kColumns; ++i) {
    for (int j = 0; j < kColumns; ++j) {
      double product = 0;
      for (int r = 0; r < kRows; ++r) {
        product += u[r * kColumns + i] * u[r * kColumns + j];
      }
      // Five iterations reach singular values between 0.7 and 1.2.
      EXPECT_NEAR(product, i == j ? 1 : 0, 0.5) << i << " " << j;
    }
  }
}

// The root mean square is about 0.2, as that of updates of Adam, whatever the
// shape.
TEST(Muon, MatchesTheUpdatesOfAdam) {
  for (const auto& [in, out] : {std::pair{4, 16}, {16, 4}, {8, 8}}) {
    double square = 0;
    for (double x : UpdateOf({{"in", in}, {"out", out}}, 1,
                             testing::SomeNumbers(in * out, 3), {})) {
      square += x * x / (in * out);
    }
    EXPECT_NEAR(std::sqrt(square), 0.2, 0.05) << in << " " << out;
  }
}

TEST(Muon, UpdatesKernelsAndLeavesTheRestToAdamW) {
  Graph graph;
  const Dimension batch{"batch", 2}, vocab{"vocab", 5}, d{"d", 4}, h{"h", 6};
  const Tensor tokens = Input(graph, "tokens", kInt32, {batch});
  Tensor x = nn::Embedding(tokens, vocab, d);
  x = nn::Dense(nn::LayerNorm(x, d), {d}, {h});
  x = nn::Dense(x, {h}, {vocab}, {.name = "head"});
  nn::Muon({.adam_kernels = {"head"}}).Minimize(ReduceSum(x, {}));
  ASSERT_OK(graph.status());
  std::vector<std::string> momenta;
  for (const VariableInfo& info : graph.variables()) {
    if (info.name.ends_with("/momentum")) momenta.push_back(info.name);
  }
  EXPECT_THAT(momenta, ElementsAre("muon/dense/kernel/momentum"));
}

TEST(Muon, AGradientOfZeroIsNoNaN) {
  for (double x : UpdateOf({{"in", 2}, {"out", 2}}, 1, {0, 0, 0, 0}, {})) {
    EXPECT_EQ(x, 0);
  }
}

}  // namespace
}  // namespace mtf
