// SPDX-License-Identifier: Apache-2.0
#include "ops/random_categorical.h"

#include <cmath>
#include <limits>
#include <set>

#include "ops/random.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension batch{"batch", 2000}, vocab{"vocab", 5};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The share of each index among samples of the same logits.
std::vector<double> Shares(const std::vector<double>& logits,
                           CategoricalOptions options) {
  Graph graph;
  const Tensor row = Constant(graph, logits, kFloat32, {vocab});
  const Tensor rows = row + Zeros(graph, kFloat32, {batch, vocab});
  const Tensor sample = RandomCategorical(rows, "vocab", options);
  EXPECT_EQ(sample.dtype(), kInt32);
  EXPECT_EQ(sample.shape(), Shape({batch}));
  std::vector<double> shares(vocab.size);
  for (double index : DataOf(sample)) shares.at(index) += 1.0 / batch.size;
  return shares;
}

// Four standard deviations of a share of 2000 samples are below 0.045.
void ExpectShares(const std::vector<double>& shares,
                  const std::vector<double>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == 0) {
      EXPECT_EQ(shares[i], 0) << i;
    } else {
      EXPECT_NEAR(shares[i], wanted[i], 0.045) << i;
    }
  }
}

const std::vector<double> kLogits = {
    std::log(0.1), std::log(0.4), std::log(0.2), std::log(0.2), std::log(0.1)};

TEST(RandomCategorical, SamplesTheSoftmax) {
  ExpectShares(Shares(kLogits, {}), {0.1, 0.4, 0.2, 0.2, 0.1});
  // Proportional to the squares.
  ExpectShares(Shares(kLogits, {.temperature = 0.5}),
               {1 / 26.0, 16 / 26.0, 4 / 26.0, 4 / 26.0, 1 / 26.0});
}

TEST(RandomCategorical, TemperatureZeroIsTheGreatest) {
  ExpectShares(Shares(kLogits, {.temperature = 0}), {0, 1, 0, 0, 0});
}

TEST(RandomCategorical, TheLeastTemperatureTakesTheGreatest) {
  ExpectShares(Shares({5, 10, 20, -3, 19}, {.temperature = 1e-30}),
               {0, 0, 1, 0, 0});
  ExpectShares(Shares({5e7, 1e8, -1e8, -3, 2e7}, {.temperature = 1e-30}),
               {0, 1, 0, 0, 0});
}

TEST(RandomCategorical, TopKKeepsTheLowerIndexOfEqualLogits) {
  ExpectShares(Shares(kLogits, {.top_k = 2}), {0, 2 / 3.0, 1 / 3.0, 0, 0});
  ExpectShares(Shares(kLogits, {.top_k = 1}), {0, 1, 0, 0, 0});
  ExpectShares(Shares(kLogits, {.top_k = 5}), {0.1, 0.4, 0.2, 0.2, 0.1});
}

TEST(RandomCategorical, TopPKeepsTheFewestThatReachP) {
  ExpectShares(Shares(kLogits, {.top_p = 0.05}), {0, 1, 0, 0, 0});
  ExpectShares(Shares(kLogits, {.top_p = 0.39}), {0, 1, 0, 0, 0});
  ExpectShares(Shares(kLogits, {.top_p = 0.41}), {0, 2 / 3.0, 1 / 3.0, 0, 0});
  ExpectShares(Shares(kLogits, {.top_p = 0.7}), {0, 0.5, 0.25, 0.25, 0});
  // Of what top_k leaves: 2/3 and 1/3.
  ExpectShares(Shares(kLogits, {.top_k = 2, .top_p = 0.6}), {0, 1, 0, 0, 0});
}

TEST(RandomCategorical, ExcludedIndicesAreNeverDrawn) {
  std::vector<double> logits = kLogits;
  logits[1] = logits[3] = -kInfinity;
  for (const double top_p : {1.0, 0.99}) {
    ExpectShares(Shares(logits, {.top_p = top_p}), {0.25, 0, 0.5, 0, 0.25});
  }
}

TEST(RandomCategorical, EachStepAndCallDrawsAnew) {
  Graph graph;
  const Tensor logits = Zeros(graph, kFloat32, {{"batch", 50}, vocab});
  const Tensor x = RandomCategorical(logits, "vocab");
  const Tensor y = RandomCategorical(logits, "vocab");
  std::set<std::vector<double>> samples;
  for (uint32_t step = 0; step < 3; ++step) {
    samples.insert(Fetch(x, {.step = step}).data);
    samples.insert(Fetch(y, {.step = step}).data);
  }
  EXPECT_EQ(samples.size(), 6u);
  EXPECT_EQ(Fetch(x).data, Fetch(x).data);
}

TEST(RandomGumbel, HasTheGumbelDistribution) {
  Graph graph;
  const Tensor x = RandomGumbel(graph, {{"n", 20000}});
  double sum = 0, squares = 0;
  for (double value : DataOf(x)) {
    EXPECT_GT(value, -2.9);
    EXPECT_LT(value, 16.7);
    sum += value;
    squares += value * value;
  }
  const double mean = sum / 20000;
  // Euler's constant and pi^2 / 6, within four standard deviations.
  EXPECT_NEAR(mean, 0.5772, 0.037);
  EXPECT_NEAR(squares / 20000 - mean * mean, 1.6449, 0.11);
  EXPECT_EQ(RandomGumbel(graph, {}, {.dtype = kBFloat16}).dtype(), kBFloat16);
}

TEST(RandomCategoricalErrors, NameTheOption) {
  const auto sample = [](CategoricalOptions options, DType dtype = kFloat32,
                         const char* dim = "vocab") {
    return [=](Graph& g) {
      const Tensor logits = Input(g, "x", dtype, {batch, vocab});
      EXPECT_EQ(RandomCategorical(logits, dim, options).dtype(), kInt32);
    };
  };
  ExpectError(sample({.temperature = -1}),
              {".temperature is -1", "(random_categorical"});
  ExpectError(sample({.temperature = kInfinity}), {".temperature is inf"});
  ExpectError(sample({.temperature = 1e-38}),
              {".temperature is 1e-38, but must be 0 or at least 1e-30",
               "0 takes the greatest logit"});
  ExpectError(sample({.top_k = 6}),
              {".top_k is 6, outside [0, 5], the size of dimension \"vocab\""});
  ExpectError(sample({.top_k = -1}), {".top_k is -1"});
  for (const double p : {0.0, -0.5, 1.5, std::nan("")}) {
    ExpectError(sample({.top_p = p}), {".top_p is", "outside (0, 1]"});
  }
  ExpectError(sample({}, kInt32),
              {"random_categorical takes a float dtype, not i32"});
  ExpectError(sample({}, kFloat32, "vcab"), {"did you mean \"vocab\"?"});
  ExpectError([](Graph& g) { RandomGumbel(g, {vocab}, {.dtype = kInt32}); },
              {"random_gumbel takes a float dtype, not i32"});
  EXPECT_FALSE(RandomCategorical({}, "vocab").valid());
}

}  // namespace
}  // namespace mtf
