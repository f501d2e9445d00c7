// SPDX-License-Identifier: Apache-2.0
#include "ops/random.h"

#include <limits>

#include "mtf/half.h"
#include "mtf/philox.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension a{"a", 3}, b{"b", 5};

TEST(RandomUniform, IsPhiloxOfSeedStreamStepAndElement) {
  Graph graph;
  const Tensor first = RandomUniform(graph, {a, b}, 0, 1);
  const Tensor second = RandomUniform(graph, {b, a}, 0, 1);
  const InterpretOptions options = {.seed = 42, .step = 7};
  const OracleTensor x = Fetch(first, options), y = Fetch(second, options);
  Graph streams;  // draws the streams of `graph`
  const uint32_t of_x = streams.NextRandomStream();
  const uint32_t of_y = streams.NextRandomStream();
  for (uint64_t i = 0; i < 15; ++i) {
    EXPECT_EQ(x.data[i], UniformFromWord(PhiloxAt(42, of_x, 7, i).word[0]));
    EXPECT_EQ(y.data[i], UniformFromWord(PhiloxAt(42, of_y, 7, i).word[0]));
  }
}

TEST(RandomNormal, IsBoxMullerOfTwoWords) {
  Graph graph;
  const Tensor normal = RandomNormal(graph, {a, b}, 0, 1);
  const OracleTensor x = Fetch(normal, {.seed = 1, .step = 2});
  const uint32_t stream = Graph().NextRandomStream();
  for (uint64_t i = 0; i < 15; ++i) {
    const PhiloxWords words = PhiloxAt(1, stream, 2, i);
    EXPECT_EQ(x.data[i], NormalFromWords(words));
  }
}

TEST(Random, IsEqualInAllStepsOnRequestOnly) {
  Graph graph;
  const Tensor fresh = RandomUniform(graph, {a}, 0, 1);
  const Tensor fixed = RandomUniform(graph, {a}, 0, 1, {.per_step = false});
  EXPECT_NE(Fetch(fresh, {1, 0}).data, Fetch(fresh, {1, 1}).data);
  EXPECT_EQ(Fetch(fixed, {1, 0}).data, Fetch(fixed, {1, 1}).data);
  EXPECT_NE(Fetch(fixed, {1, 0}).data, Fetch(fixed, {2, 0}).data);
}

struct Moments {
  double mean = 0, variance = 0, low = 0, high = 0;
};

Moments MomentsOf(const OracleTensor& x) {
  Moments m;
  const double n = static_cast<double>(x.data.size());
  for (double v : x.data) m.mean += v / n;
  for (double v : x.data) m.variance += (v - m.mean) * (v - m.mean) / n;
  const auto [low, high] = std::minmax_element(x.data.begin(), x.data.end());
  m.low = *low;
  m.high = *high;
  return m;
}

TEST(Random, HasTheRequestedMoments) {
  Graph graph;
  const Shape many = {{"n", 20000}};
  const Moments uniform = MomentsOf(Fetch(RandomUniform(graph, many, -2, 4)));
  EXPECT_NEAR(uniform.mean, 1, 0.05);
  EXPECT_NEAR(uniform.variance, 36.0 / 12, 0.1);
  EXPECT_GE(uniform.low, -2);
  EXPECT_LT(uniform.high, 4);
  EXPECT_GT(uniform.high, 3.9);
  const Moments normal = MomentsOf(Fetch(RandomNormal(graph, many, 5, 0.5)));
  EXPECT_NEAR(normal.mean, 5, 0.02);
  EXPECT_NEAR(normal.variance, 0.25, 0.02);
  EXPECT_LT(normal.low, 5 - 3 * 0.5);
  EXPECT_GT(normal.high, 5 + 3 * 0.5);
}

TEST(Random, IsDrawnInFloat32AndCast) {
  Graph graph;
  const Tensor x = RandomNormal(graph, {a}, 1, 2, {.dtype = kBFloat16});
  EXPECT_EQ(x.dtype(), kBFloat16);
  for (double v : DataOf(x)) {
    EXPECT_EQ(v, static_cast<float>(v));
    EXPECT_EQ(std::fmod(std::abs(v), std::ldexp(1, std::ilogb(v) - 7)), 0);
  }
}

// After rounding to the dtype, low occurs and high does not, even if a sum or a
// cast of the largest draws rounds up.
TEST(RandomUniform, StaysBelowHigh) {
  struct Range {
    double low, high;
  };
  for (const DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    const auto round = [&](double x) {
      if (dtype == kBFloat16) return ToFloat(ToBFloat16(static_cast<float>(x)));
      if (dtype == kFloat16) return ToFloat(ToFloat16(static_cast<float>(x)));
      return static_cast<float>(x);
    };
    for (const auto& [low, high] : std::vector<Range>{{0, 1},
                                                      {0, 3},
                                                      {-1, 0},
                                                      {-1, 1},
                                                      {1000, 1001},
                                                      {-1001, -1000},
                                                      {0.999, 1.001},
                                                      {0.1, 0.7},
                                                      {0, 1e-7},
                                                      {1e4, 1e4 + 1e-9}}) {
      Graph graph;
      const OracleTensor x = Fetch(
          RandomUniform(graph, {{"n", 5000}}, low, high, {.dtype = dtype}));
      const auto [least, most] =
          std::minmax_element(x.data.begin(), x.data.end());
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " ", low, " ", high));
      EXPECT_GE(round(*least), round(low));
      if (round(low) < round(high)) {
        EXPECT_LT(round(*most), round(high));
      } else {
        EXPECT_EQ(round(*most), round(low));
      }
    }
  }
}

TEST(RandomUniform, OfAnEmptyRangeIsItsBound) {
  Graph graph;
  EXPECT_THAT(DataOf(RandomUniform(graph, {a}, 2.5, 2.5)),
              ElementsAre(2.5, 2.5, 2.5));
}

TEST(RandomErrors, DTypeAndRange) {
  ExpectError(
      [](Graph& g) { RandomUniform(g, {a}, 0, 1, {.dtype = kInt32}); },
      {"random_uniform takes a float dtype, not i32 (random_uniform, "});
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double stddev : {-1.0, infinity, 1e39, std::nan("")}) {
    ExpectError([&](Graph& g) { RandomNormal(g, {a}, 0, stddev); },
                {absl::StrCat("stddev is ", stddev,
                              ", not a non-negative number of f32 "
                              "(random_normal, ")});
  }
  for (const double mean : {-infinity, 1e39, std::nan("")}) {
    ExpectError(
        [&](Graph& g) { RandomNormal(g, {a}, mean, 1); },
        {absl::StrCat("mean is ", mean,
                      ", not a finite number of f32 (random_normal, ")});
    ExpectError(
        [&](Graph& g) { RandomUniform(g, {a}, mean, 1); },
        {absl::StrCat("low is ", mean,
                      ", not a finite number of f32 (random_uniform, ")});
    ExpectError([&](Graph& g) { RandomUniform(g, {a}, 0, -mean); },
                {absl::StrCat("high is ", -mean, ", not a finite number of ")});
  }
  ExpectError(
      [](Graph& g) { RandomUniform(g, {a}, 0, 7e4, {.dtype = kFloat16}); },
      {"high is 70000, not a finite number of f16"});
  ExpectError([](Graph& g) { RandomUniform(g, {a}, -3e38, 3e38); },
              {"high - low is 6e+38, not a finite number of f32"});
  ExpectError([](Graph& g) { RandomUniform(g, {a}, 1, 0.5); },
              {"low is 1, above high, which is 0.5 (random_uniform, "});
  ExpectError(
      [](Graph& g) {
        RandomNormal(g, {a, a}, 0, 1);
      },
      {"\"a\" occurs twice"});
}

TEST(Random, CallWithAnErrorTakesAStreamToo) {
  Graph graph;
  RandomUniform(graph, {a}, 0, 1, {.dtype = kInt32});
  Graph other;
  other.NextRandomStream();
  EXPECT_EQ(graph.NextRandomStream(), other.NextRandomStream());
}

TEST(Dropout, ZeroesAndScales) {
  Graph graph;
  const Shape shape = {{"n", 20000}};
  const Tensor y = Dropout(Constant(graph, 3, kFloat32, shape), 0.25);
  int64_t zeros = 0;
  for (double v : DataOf(y)) {
    if (v == 0) {
      ++zeros;
    } else {
      EXPECT_DOUBLE_EQ(v, 4);
    }
  }
  EXPECT_NEAR(static_cast<double>(zeros), 5000, 200);
}

TEST(Dropout, NoiseShapeSharesTheMask) {
  Graph graph;
  const Tensor x = Ones(graph, kFloat32, {{"m", 40}, b});
  const OracleTensor y = Fetch(Dropout(x, 0.5, {.noise_shape = {{"m", 40}}}));
  std::map<double, int> values;
  for (int64_t m = 0; m < 40; ++m) {
    const double first = At(y, {{"m", m}, {"b", 0}});
    ++values[first];
    for (int64_t i = 0; i < 5; ++i) {
      EXPECT_EQ(At(y, {{"m", m}, {"b", i}}), first);
    }
  }
  EXPECT_EQ(values.size(), 2u) << "some kept, some not";
}

TEST(Dropout, KeepsTheOrderOfDimensions) {
  Graph graph;
  const Dimension n{"n", 6};
  const Tensor x = ConstantOf(graph, Numbers({n, a, b}, 3));
  const OracleTensor in = Fetch(x);
  Graph streams;  // draws the streams of `graph`
  for (const Shape& noise :
       std::vector<Shape>{{b, n}, {b, a, n}, {b}, {a, n}}) {
    const Tensor y = Dropout(x, 0.5, {.noise_shape = noise});
    ASSERT_EQ(y.shape(), x.shape());
    const OracleTensor out = Fetch(y);
    const uint32_t stream = streams.NextRandomStream();
    int64_t i = 0;
    ForEachElement(x.shape(), [&](const ElementIndex& index) {
      // The random number of an element is that at its index in the noise
      // shape.
      int64_t at = 0;
      for (const Dimension& dim : noise) {
        at = at * dim.size + index.at(dim.name);
      }
      const bool kept =
          UniformFromWord(PhiloxAt(0, stream, 0, at).word[0]) >= 0.5;
      EXPECT_EQ(out.data[i], kept ? 2 * in.data[i] : 0);
      ++i;
    });
  }
}

TEST(Dropout, GradientHasTheSameMask) {
  Graph graph;
  const Tensor x = Ones(graph, kFloat32, {{"n", 50}});
  const Tensor y = Dropout(x, 0.4);
  EXPECT_EQ(DataOf(Gradients(y, {x})[0]), DataOf(y));
}

TEST(Dropout, ADroppedInfinityIsZero) {
  Graph graph;
  const Tensor x = Constant(graph, std::numeric_limits<double>::infinity(),
                            kFloat32, {{"n", 50}});
  for (double v : DataOf(Dropout(x, 0.5))) EXPECT_FALSE(std::isnan(v));
}

TEST(Dropout, RateZeroReturnsX) {
  Graph graph;
  const Tensor x = Ones(graph, kFloat32, {a});
  EXPECT_TRUE(SameTensor(Dropout(x, 0), x));
}

TEST(DropoutErrors, RateDTypeAndNoiseShape) {
  for (const double rate : {-0.1, 1.0, 2.0, std::nan("")}) {
    ExpectError(
        [&](Graph& g) { Dropout(Ones(g, kFloat32, {a}), rate); },
        {absl::StrCat("the rate ", rate, " is not in [0, 1)"), "(dropout, "});
  }
  ExpectError([](Graph& g) { Dropout(Ones(g, kInt32, {a}), 0.5); },
              {"dropout takes a float dtype, not i32"});
  ExpectError(
      [](Graph& g) {
        Dropout(Ones(g, kFloat32, {a}), 0.5, {.noise_shape = {b}});
      },
      {"has no dimension \"b\""});
  ExpectError(
      [](Graph& g) {
        Dropout(Ones(g, kFloat32, {a}), 0.5, {.noise_shape = {{"a", 1}}});
      },
      {"dimension \"a\" is 3 in \"constant\" but 1 in the output"});
  EXPECT_FALSE(Dropout(Tensor(), 0.5).valid());
}

}  // namespace
}  // namespace mtf
