// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/initializers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nn/layers/dense.h"
#include "nn/layers/embedding.h"
#include "nn/layers/parameter.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

std::vector<double> ValuesOf(const nn::Initializer& init, const Shape& fan_in,
                             const Shape& fan_out) {
  OracleGraph o;
  return o.Run(init(o.graph, {{}, fan_in, fan_out}));
}

struct Moments {
  double mean = 0, variance = 0, largest = 0;
};

Moments MomentsOf(const std::vector<double>& values) {
  Moments m;
  const double n = static_cast<double>(values.size());
  for (double x : values) m.mean += x / n;
  for (double x : values) {
    m.variance += (x - m.mean) * (x - m.mean) / n;
    m.largest = std::max(m.largest, std::abs(x));
  }
  return m;
}

struct Family {
  const char* name;
  nn::Initializer init;
  double variance;
  double bound;  // in standard deviations
  friend void PrintTo(const Family& f, std::ostream* out) { *out << f.name; }
};

class VarianceScalingTest : public ::testing::TestWithParam<Family> {};

// Of kernels from [a, b] to [c], with fans of 120 and 40.
TEST_P(VarianceScalingTest, HasMeanVarianceAndBound) {
  const Moments m =
      MomentsOf(ValuesOf(GetParam().init, {{"a", 12}, {"b", 10}}, {{"c", 40}}));
  const double deviation = std::sqrt(GetParam().variance);
  EXPECT_NEAR(m.mean, 0, 0.06 * deviation);
  EXPECT_NEAR(m.variance, GetParam().variance, 0.08 * GetParam().variance);
  EXPECT_LE(m.largest, GetParam().bound * deviation * (1 + 1e-5));
  EXPECT_GE(m.largest, std::min(GetParam().bound, 3.0) * deviation * 0.98);
}

constexpr double kNone = std::numeric_limits<double>::infinity();
const double kTruncated = 2 / 0.87962566103423978;

INSTANTIATE_TEST_SUITE_P(
    All, VarianceScalingTest,
    ::testing::Values(
        Family{"LeCun", nn::LeCun(), 1.0 / 120, kNone},
        Family{"He", nn::He(), 2.0 / 120, kNone},
        Family{"Glorot", nn::Glorot(), 1.0 / 80, std::sqrt(3.0)},
        Family{"GlorotNormal", nn::Glorot(nn::Distribution::kNormal), 1.0 / 80,
               kNone},
        Family{"HeTruncated", nn::He(nn::Distribution::kTruncatedNormal),
               2.0 / 120, kTruncated},
        Family{
            "FanOut",
            nn::VarianceScaling({.scale = 3,
                                 .fan = nn::Fan::kOut,
                                 .distribution = nn::Distribution::kUniform}),
            3.0 / 40, std::sqrt(3.0)}),
    [](const auto& info) { return std::string(info.param.name); });

// The quantiles of a truncated normal distribution.
TEST(TruncatedNormal, HasItsDistribution) {
  std::vector<double> x = ValuesOf(
      nn::LeCun(nn::Distribution::kTruncatedNormal), {}, {{"a", 4000}});
  std::sort(x.begin(), x.end());
  const double inside = std::erf(std::sqrt(2.0));
  for (double z : {-1.5, -1.0, -0.3, 0.0, 0.7, 1.8}) {
    const double share = 0.5 + std::erf(z / std::sqrt(2.0)) / inside / 2;
    const double found =
        static_cast<double>(
            std::lower_bound(x.begin(), x.end(), z / 0.87962566103423978) -
            x.begin()) /
        4000;
    EXPECT_NEAR(found, share, 0.025) << z;
  }
}

// The products of all rows, or of all columns if they are fewer.
void ExpectOrthonormal(const std::vector<double>& matrix, int rows, int columns,
                       double gain) {
  const bool by_rows = rows <= columns;
  const int vectors = by_rows ? rows : columns;
  const auto at = [&](int vector, int i) {
    return by_rows ? matrix[vector * columns + i]
                   : matrix[i * columns + vector];
  };
  for (int a = 0; a < vectors; ++a) {
    for (int b = 0; b < vectors; ++b) {
      double product = 0;
      for (int i = 0; i < std::max(rows, columns); ++i) {
        product += at(a, i) * at(b, i);
      }
      EXPECT_NEAR(product, a == b ? gain * gain : 0, 1e-9) << a << " " << b;
    }
  }
}

TEST(Orthogonal, RowsOrColumnsAreOrthonormal) {
  const Dimension a{"a", 2}, b{"b", 4}, c{"c", 5}, d{"d", 8};
  ExpectOrthonormal(ValuesOf(nn::Orthogonal(), {a, b}, {c}), 8, 5, 1);
  ExpectOrthonormal(ValuesOf(nn::Orthogonal(2), {c}, {a, b}), 5, 8, 2);
  ExpectOrthonormal(ValuesOf(nn::Orthogonal(), {a, b}, {d}), 8, 8, 1);
  ExpectOrthonormal(ValuesOf(nn::Orthogonal(), {}, {d}), 1, 8, 1);
}

TEST(Orthogonal, EachOfSeveralKernelsIs) {
  OracleGraph o;
  const nn::KernelShape kernel = {{{"experts", 2}}, {{"a", 3}}, {{"b", 4}}};
  const std::vector<double> both = o.Run(nn::Orthogonal()(o.graph, kernel));
  ASSERT_EQ(both.size(), 24);
  const std::vector<double> first(both.begin(), both.begin() + 12);
  const std::vector<double> second(both.begin() + 12, both.end());
  ExpectOrthonormal(first, 3, 4, 1);
  ExpectOrthonormal(second, 3, 4, 1);
  EXPECT_NE(first, second);
}

TEST(Initializers, TheDefaultIsLeCun) {
  const Dimension batch{"batch", 2}, in{"in", 3}, out{"out", 4};
  const auto kernel = [&](const nn::DenseOptions& options) {
    OracleGraph o;
    nn::Dense(Input(o.graph, "x", kFloat32, {batch, in}), {in}, {out}, options);
    EXPECT_OK(o.graph.status());
    EXPECT_OK(InitializeVariables(o.graph, 5, &o.variables));
    return o.Value("dense/kernel");
  };
  EXPECT_EQ(kernel({}), kernel({.init = nn::LeCun()}));
  EXPECT_EQ(kernel({.init_scale = 2}), kernel({.init = nn::He()}));
  EXPECT_NE(kernel({}), kernel({.init = nn::Glorot()}));
  EXPECT_EQ(kernel({.init = nn::ConstantValue(0.5)}),
            std::vector<double>(12, 0.5));
}

TEST(Initializers, OfATableOfEmbeddings) {
  OracleGraph o;
  const Dimension batch{"batch", 2}, vocab{"vocab", 3}, d{"d", 2};
  const Tensor tokens = Input(o.graph, "tokens", kInt32, {batch});
  nn::Embedding(tokens, vocab, d, {.init = nn::ConstantValue(0.25)});
  nn::EmbeddingTable(o.graph, vocab, d, {.init = nn::Orthogonal()});
  ASSERT_OK(o.graph.status());
  ASSERT_OK(InitializeVariables(o.graph, 5, &o.variables));
  EXPECT_EQ(o.Value("embedding/table"), std::vector<double>(6, 0.25));
  ExpectOrthonormal(o.Value("embedding_1/table"), 3, 2, 1);
}

struct Wrong {
  const char* name;
  std::function<void(Graph&)> build;
  const char* message;
  friend void PrintTo(const Wrong& w, std::ostream* out) { *out << w.name; }
};

const Dimension kIn{"in", 3}, kOut{"out", 4};

void BuildKernel(Graph& graph, const nn::KernelOptions& options) {
  nn::Kernel(graph, "kernel", {kIn}, {kOut}, kFloat32, options);
}

class WrongInitializers : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongInitializers, AreErrorsOfTheLayer) {
  Graph graph;
  GetParam().build(graph);
  for (const char* words : {GetParam().message, ", initializers_test.cc:"}) {
    EXPECT_THAT(graph.status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongInitializers,
    ::testing::Values(
        Wrong{"Scale",
              [](Graph& g) {
                BuildKernel(g, {.init = nn::VarianceScaling({.scale = -1})});
              },
              ".scale is -1, not a non-negative number of f32 "
              "(variance_scaling, "},
        Wrong{"Gain",
              [](Graph& g) { BuildKernel(g, {.init = nn::Orthogonal(-2)}); },
              "gain is -2, not a non-negative number of f32 (orthogonal, "},
        Wrong{"Both",
              [](Graph& g) { BuildKernel(g, {.scale = 2, .init = nn::He()}); },
              ".scale has no effect with .init (kernel, "},
        Wrong{"BothOfDense",
              [](Graph& g) {
                nn::Dense(Zeros(g, kFloat32, {kIn}), {kIn}, {kOut},
                          {.init_scale = 2, .init = nn::He()});
              },
              ".init_scale has no effect with .init (dense, "},
        Wrong{"BothOfATable",
              [](Graph& g) {
                nn::EmbeddingTable(g, kIn, kOut,
                                   {.stddev = 2, .init = nn::He()});
              },
              ".stddev has no effect with .init (embedding_table \"embedding\""
              ", "},
        Wrong{"Shape",
              [](Graph& g) {
                BuildKernel(g, {.init = [](Graph& graph,
                                           const nn::KernelShape& kernel) {
                              return Zeros(graph, kFloat32, kernel.fan_out);
                            }});
              },
              "the initializer of \"kernel\" returned f32[out=4], not "
              "f32[in=3, out=4] (initializer, "},
        Wrong{"ANameTwice",
              [](Graph& g) {
                nn::Kernel(g, "kernel", {kIn}, {kIn}, kFloat32,
                           {.init = nn::Orthogonal()});
              },
              "\"in\""}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mtf
