// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (edge_cases_test runs the same threads)
//
// Padding and rounding in a session: programs whose literals and casts round
// are bitwise equal to one device, on every device and under every layout.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "mtf/graph.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/slice.h"
#include "tests/matchers.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

using ::testing::HasSubstr;

const Dimension kA{"a", 5};
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

struct Layout {
  const char* mesh;
  const char* rules;
};
const Layout kLayouts[] = {
    {"x:1", ""},    {"x:2", "a:x"},       {"x:3", "a:x"},
    {"x:8", "a:x"}, {"x:2,y:3", "a:y+x"},
};

class UnevenShards : public ::testing::TestWithParam<const char*> {
 protected:
  using Build = std::function<Tensor(Graph&)>;
  using Feeds = std::map<std::string, HostTensor>;

  static absl::StatusOr<HostTensor> Run(const Layout& layout,
                                        const Build& build,
                                        const Feeds& feeds) {
    Graph graph;
    const Tensor y = build(graph);
    MTF_ASSIGN_OR_RETURN(
        const auto session,
        Session::Create(graph, layout.mesh, layout.rules,
                        {.backend = GetParam(), .ranks = RankKind::kLocal}));
    MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> values,
                         session->Run({.feeds = feeds, .fetches = {y}}));
    return values[0];
  }

  // Expects the fetch to be `want` under every layout.
  template <class T>
  static void ExpectEverywhere(const std::vector<T>& want, const Build& build,
                               const Feeds& feeds = {}) {
    for (const Layout& layout : kLayouts) {
      SCOPED_TRACE(std::string(layout.mesh) + " " + layout.rules);
      const auto got = Run(layout, build, feeds);
      ASSERT_OK(got);
      ASSERT_EQ(got->num_bytes(), want.size() * sizeof(T));
      std::vector<T> values(want.size());
      std::memcpy(values.data(), got->data(), got->num_bytes());
      EXPECT_EQ(values, want);
    }
  }

  static Feeds Fed(DType dtype, const std::vector<double>& values) {
    return {{"x", HostTensor::FromDoubles({kA}, dtype, values)}};
  }
  static Tensor Count(Tensor condition) {
    return ReduceSum(Cast(condition, kFloat32), {});
  }
};

TEST_P(UnevenShards, ALiteralBelowTheSmallestHalf) {
  ExpectEverywhere<float>(
      {5},
      [](Graph& g) {
        return Count(GreaterEqual(Abs(Input(g, "x", kFloat16, {kA})), 1e-8));
      },
      Fed(kFloat16, {1, 2, 3, 4, 5}));
}

TEST_P(UnevenShards, ALiteralBelowTheSmallestFloat) {
  ExpectEverywhere<float>(
      {5},
      [](Graph& g) {
        return Count(GreaterEqual(Input(g, "x", kFloat32, {kA}), 1e-50));
      },
      Fed(kFloat32, {1, 2, 3, 4, 5}));
}

TEST_P(UnevenShards, ACastOfAConstantThatRounds) {
  ExpectEverywhere<float>({5}, [](Graph& g) {
    return Count(
        Greater(Cast(Constant(g, 0.3, kBFloat16, {kA}), kFloat32), 0.3));
  });
  ExpectEverywhere<float>({5}, [](Graph& g) {
    return Count(
        Equal(Cast(Constant(g, 16777217, kInt32, {kA}), kFloat32), 16777216.0));
  });
}

TEST_P(UnevenShards, ADifferenceOfValuesRoundedToTwoDTypes) {
  ExpectEverywhere<float>({5}, [](Graph& g) {
    return Count(NotEqual(Cast(Constant(g, 0.1, kBFloat16, {kA}), kFloat32) -
                              Constant(g, 0.1, kFloat32, {kA}),
                          0.0));
  });
}

TEST_P(UnevenShards, TheLargestAndTheSmallestInt64) {
  const auto input = [](Graph& g) { return Input(g, "x", kInt64, {kA}); };
  for (int64_t value : {kMost, kMost - 1, kLeast, kLeast + 1}) {
    const std::map<std::string, HostTensor> feeds = {
        {"x", HostTensor::Of<int64_t>({kA}, std::vector<int64_t>(5, value))}};
    ExpectEverywhere<int64_t>(
        {value}, [&](Graph& g) { return ReduceMin(input(g), {}); }, feeds);
    ExpectEverywhere<int64_t>(
        {value}, [&](Graph& g) { return ReduceMax(input(g), {}); }, feeds);
  }
}

TEST_P(UnevenShards, Int64sBeyondThePrecisionOfDouble) {
  const std::vector<int64_t> x = {
      (int64_t{1} << 53) + 1, (int64_t{1} << 60) + 7, 3 - (int64_t{1} << 61),
      12345678901234567, 99};
  const std::map<std::string, HostTensor> feeds = {
      {"x", HostTensor::Of<int64_t>({kA}, x)}};
  const auto expect = [&](const std::function<int64_t(int64_t)>& want,
                          const std::function<Tensor(Tensor)>& build) {
    std::vector<int64_t> wanted;
    for (int64_t value : x) wanted.push_back(want(value));
    ExpectEverywhere<int64_t>(
        wanted, [&](Graph& g) { return build(Input(g, "x", kInt64, {kA})); },
        feeds);
  };
  const auto wrap = [](uint64_t value) { return static_cast<int64_t>(value); };
  expect([](int64_t v) { return v + 1; }, [](Tensor x) { return x + 1; });
  expect([&](int64_t v) { return wrap(uint64_t(v) * uint64_t(v)); },
         [](Tensor x) { return Square(x); });
  expect([](int64_t v) { return (v % 10 + 10) % 10; },
         [](Tensor x) { return Mod(x, 10); });
  expect([](int64_t v) { return int64_t{static_cast<int32_t>(v)}; },
         [](Tensor x) { return Cast(Cast(x, kInt32), kInt64); });
  // Literals, constants and fills can be a power of two beyond 2^53.
  expect([](int64_t v) { return v + (int64_t{1} << 60); },
         [](Tensor x) { return x + 0x1p60; });
  expect([](int64_t v) { return v - (int64_t{1} << 62); },
         [](Tensor x) {
           return x + Constant(x.graph(), std::vector<double>(5, -0x1p62),
                               kInt64, {kA});
         });
  uint64_t sum = 0;
  for (int64_t value : x) sum += uint64_t(value);
  ExpectEverywhere<int64_t>(
      {wrap(sum)},
      [](Graph& g) { return ReduceSum(Input(g, "x", kInt64, {kA}), {}); },
      feeds);
}

TEST_P(UnevenShards, IntegersWrap) {
  const std::vector<int32_t> x = {2147483647, -2147483647 - 1, 100003, -99991,
                                  65536};
  const std::map<std::string, HostTensor> feeds = {
      {"x", HostTensor::Of<int32_t>({kA}, x)}};
  const auto wrap = [](int64_t value) { return static_cast<int32_t>(value); };
  std::vector<int32_t> squares, halves;
  int32_t greatest = std::numeric_limits<int32_t>::min();
  int64_t sum = 0;
  for (int64_t value : x) {
    squares.push_back(wrap(value * value));
    // Also within a fused chain.
    halves.push_back(
        wrap(static_cast<int64_t>(std::floor(wrap(value * value) / 2.0))));
    greatest = std::max(greatest, squares.back());
    sum += squares.back();
  }
  const auto square = [](Graph& g) {
    return Square(Input(g, "x", kInt32, {kA}));
  };
  ExpectEverywhere<int32_t>(squares, square, feeds);
  ExpectEverywhere<int32_t>(
      halves, [&](Graph& g) { return FloorDivide(square(g), 2); }, feeds);
  ExpectEverywhere<int32_t>(
      {greatest}, [&](Graph& g) { return ReduceMax(square(g), {}); }, feeds);
  ExpectEverywhere<int32_t>(
      {wrap(sum)}, [&](Graph& g) { return ReduceSum(square(g), {}); }, feeds);
  ExpectEverywhere<int32_t>(
      {wrap(sum)},
      [](Graph& g) {
        const Tensor x = Input(g, "x", kInt32, {kA});
        return Einsum({x, x}, {});
      },
      feeds);
}

// The message names the user's operation, not the values that the layout adds.
TEST_P(UnevenShards, AnErrorUsesTheUsersNameOfTheIndices) {
  const Dimension rows{"rows", 3}, table{"table", 4};
  std::string first;
  for (const Layout& layout : kLayouts) {
    const auto got = Run(
        layout,
        [&](Graph& g) {
          // A slice needs a reshard of "idx", a value of the same name.
          const Tensor other = Input(g, "idx", kInt32, {kA});
          const Tensor sliced = ReduceSum(Slice(other, "a", 1, 3), {});
          const Tensor indices = Input(g, "idx_1", kInt32, {rows});
          return Gather(Ones(g, kInt32, {table}), indices, "table") + sliced;
        },
        {{"idx", HostTensor({kA}, kInt32)},
         {"idx_1", HostTensor::Of<int32_t>({rows}, {0, 7, 1})}});
    ASSERT_FALSE(got.ok());
    if (first.empty()) {
      first = got.status().ToString();
      EXPECT_THAT(first, HasSubstr("\"idx_1\""));
    }
    EXPECT_EQ(got.status().ToString(), first) << layout.mesh;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, UnevenShards,
                         ::testing::Values("cpu", "reference"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace mtf::train
