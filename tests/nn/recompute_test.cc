// SPDX-License-Identifier: Apache-2.0
//
// A program that rematerializes parts of its forward pass has the gradients of
// one that keeps them.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/lowering/gpt_recompute.h"
#include "tests/nn/oracle.h"

namespace mtf::testing {
namespace {

std::map<std::string, std::vector<double>> GradientsOf(
    const RecomputeOptions& options) {
  OracleGraph oracle;
  GptSizes sizes;
  sizes.layers = 2;
  sizes.batch = 2;
  sizes.length = 3;
  sizes.d_model = 4;
  sizes.heads = 2;
  sizes.vocab = 5;
  sizes.dropout = 0.25;
  sizes.dtype = sizes.parameters = kFloat32;
  RecomputingGpt gpt(oracle.graph, sizes, options);
  const Tensor loss = gpt.Build().loss;
  EXPECT_OK(oracle.graph.status());
  const Shape tokens = {{"batch", 2}, {"inner_length", 3}};
  oracle.feeds["tokens"] = HostTensor::Of<int32_t>(tokens, {0, 4, 2, 1, 3, 3});
  oracle.feeds["targets"] = HostTensor::Of<int32_t>(tokens, {4, 2, 0, 3, 3, 1});
  std::vector<Tensor> fetches = gpt.gradients();
  fetches.push_back(loss);
  const std::vector<std::vector<double>> values = oracle.RunAll(fetches);
  std::map<std::string, std::vector<double>> gradients;
  for (size_t i = 0; i < gpt.parameters().size(); ++i) {
    gradients[oracle.graph.FindVariable(gpt.parameters()[i])->name] = values[i];
  }
  gradients["loss"] = values.back();
  return gradients;
}

void ExpectTheSame(const RecomputeOptions& options) {
  const auto kept = GradientsOf({.what = Recompute::kNothing}),
             again = GradientsOf(options);
  // Six kernels in each of two layers, the table and the loss.
  ASSERT_EQ(kept.size(), 14u);
  ASSERT_EQ(again.size(), kept.size());
  for (const auto& [name, gradient] : kept) {
    ASSERT_TRUE(again.contains(name)) << name;
    ASSERT_EQ(again.at(name).size(), gradient.size()) << name;
    double most = 0;
    for (size_t i = 0; i < gradient.size(); ++i) {
      EXPECT_NEAR(again.at(name)[i], gradient[i], 1e-10) << name;
      most = std::max(most, std::abs(gradient[i]));
    }
    EXPECT_GT(most, 1e-6) << name;
  }
}

TEST(Recompute, OfLayersGivesTheSameGradients) {
  ExpectTheSame({.what = Recompute::kLayer});
}

TEST(Recompute, OfAttentionGivesTheSameGradients) {
  ExpectTheSame({.what = Recompute::kAttention});
  ExpectTheSame({.what = Recompute::kAttention, .enter_again = true});
}

}  // namespace
}  // namespace mtf::testing
