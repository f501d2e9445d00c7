// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/product_key_memory.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

const Dimension kBatch{"batch", 5}, kModel{"d_model", 3},
    kHeads{"memory_heads", 2}, kKeys{"memory_keys", 4}, kHalf{"d_half", 2};

// Queries [batch, heads, half, d_half] by loops, before the norm.
std::vector<double> Projected(OracleGraph& o) {
  const std::vector<double>& x = o.Value("x");
  const std::vector<double>& w = o.Value("product_key_memory/query/kernel");
  std::vector<double> q;
  for (int b = 0; b < 5; ++b) {
    for (int j = 0; j < 8; ++j) {
      q.push_back(o.Value("product_key_memory/query/bias")[j]);
      for (int d = 0; d < 3; ++d) q.back() += x[b * 3 + d] * w[d * 8 + j];
    }
  }
  return q;
}

// Normalizes elements begin, begin + step, ... by their mean and variance.
void Normalize(std::vector<double>& q, int begin, int count, int step,
               double scale, double bias) {
  double mean = 0, variance = 0;
  for (int i = 0; i < count; ++i) mean += q[begin + i * step] / count;
  for (int i = 0; i < count; ++i) {
    variance += std::pow(q[begin + i * step] - mean, 2) / count;
  }
  for (int i = 0; i < count; ++i) {
    double& each = q[begin + i * step];
    each = (each - mean) / std::sqrt(variance + 1e-5) * scale + bias;
  }
}

// The layer with all keys one after the other.
std::vector<double> BruteForce(OracleGraph& o, nn::QueryNorm norm,
                               int neighbours) {
  std::vector<double> q = Projected(o);
  const std::string scope = "product_key_memory/";
  if (norm == nn::QueryNorm::kBatchNorm) {
    for (int j = 0; j < 8; ++j) {
      Normalize(q, j, 5, 8, o.Value(scope + "batch_norm/scale")[j],
                o.Value(scope + "batch_norm/bias")[j]);
    }
  } else if (norm == nn::QueryNorm::kLayerNorm) {
    const std::vector<double> scale = o.Value(scope + "layer_norm/scale"),
                              bias = o.Value(scope + "layer_norm/bias");
    for (int half = 0; half < 20; ++half) {
      Normalize(q, half * 2, 2, 1, 1, 0);
      for (int c = 0; c < 2; ++c) {
        q[half * 2 + c] = q[half * 2 + c] * scale[c] + bias[c];
      }
    }
  }
  const std::vector<double>& keys = o.Value(scope + "keys");
  const std::vector<double>& values = o.Value(scope + "values");
  std::vector<double> y(15, 0.0);
  for (int b = 0; b < 5; ++b) {
    for (int h = 0; h < 2; ++h) {
      std::vector<std::pair<double, int>> scores;
      for (int slot = 0; slot < 16; ++slot) {
        double score = 0;
        for (int c = 0; c < 2; ++c) {
          score += q[((b * 2 + h) * 2 + 0) * 2 + c] *
                   keys[((h * 2 + 0) * 4 + slot / 4) * 2 + c];
          score += q[((b * 2 + h) * 2 + 1) * 2 + c] *
                   keys[((h * 2 + 1) * 4 + slot % 4) * 2 + c];
        }
        scores.emplace_back(score, slot);
      }
      std::sort(scores.rbegin(), scores.rend());
      scores.resize(neighbours);
      double sum = 0;
      for (const auto& [score, slot] : scores) sum += std::exp(score);
      for (const auto& [score, slot] : scores) {
        for (int d = 0; d < 3; ++d) {
          y[b * 3 + d] += std::exp(score) / sum * values[slot * 3 + d];
        }
      }
    }
  }
  return y;
}

TEST(ProductKeyMemory, ReadsTheNearestOfAllKeys) {
  for (const nn::QueryNorm norm :
       {nn::QueryNorm::kBatchNorm, nn::QueryNorm::kLayerNorm,
        nn::QueryNorm::kNone}) {
    for (const int neighbours : {1, 3, 4}) {
      OracleGraph o;
      const Tensor x = o.Parameter("x", {kBatch, kModel});
      const Tensor y = nn::ProductKeyMemory(x, {.heads = kHeads,
                                                .keys = kKeys,
                                                .d_half = kHalf,
                                                .neighbours = neighbours,
                                                .norm = norm});
      ASSERT_OK(o.graph.status());
      testing::ExpectNear(o.Run(y), BruteForce(o, norm, neighbours), 1e-6);
      if (norm != nn::QueryNorm::kLayerNorm) {
        o.ExpectGradientsOf(testing::Probe(o, y));
      }
    }
  }
}

TEST(ProductKeyErrors, SayWhatIsWrong) {
  const auto error = [](nn::ProductKeyOptions options) {
    Graph graph;
    nn::ProductKeyMemory(Input(graph, "x", kFloat32, {kBatch, kModel}),
                         options);
    return graph.status();
  };
  EXPECT_THAT(error({.keys = kKeys, .neighbours = 5}),
              StatusIs(kInvalid, HasSubstr(".neighbours is 5, not in [1, 4]")));
  EXPECT_THAT(error({.heads = Dimension(), .keys = kKeys}),
              StatusIs(kInvalid, HasSubstr(".heads is missing")));
  EXPECT_THAT(error({.heads = {"batch", 2}}),
              StatusIs(kInvalid, HasSubstr("has the dimension \"batch\" of "
                                           "the memory")));
}

}  // namespace
}  // namespace mtf
