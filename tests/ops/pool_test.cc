// SPDX-License-Identifier: Apache-2.0
#include "ops/pool.h"

#include "tests/fixtures.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const PoolOptions kHalf = {
    .stride = 2, .padding = WindowPadding::kExplicit, .before = 1, .after = 1};

TEST(Pool, OfPairs) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 5, -2, 4, 9}, kFloat32, {{"n", 5}});
  EXPECT_THAT(DataOf(MaxPool(x, {{"n", 2}})), ElementsAre(5, 4));
  EXPECT_THAT(DataOf(AveragePool(x, {{"n", 2}})), ElementsAre(3, 1));
  const PoolOptions all = {.stride = 1, .padding = WindowPadding::kSame};
  EXPECT_THAT(DataOf(MaxPool(x, {{"n", 3}}, all)), ElementsAre(5, 5, 5, 9, 9));
  EXPECT_THAT(DataOf(AveragePool(x, {{"n", 2}}, all)),
              ElementsAre(3, 1.5, 1, 6.5, 4.5));
  PoolOptions inside = all;
  inside.count_padding = false;
  EXPECT_THAT(DataOf(AveragePool(x, {{"n", 2}}, inside)),
              ElementsAre(3, 1.5, 1, 6.5, 9));
  EXPECT_OK(graph.status());
}

// The options of tests/fixtures/pool.py.
struct TorchCase {
  std::string name;
  int64_t window;
  PoolOptions options;
};

void ExpectTorch(const TorchCase& test) {
  SCOPED_TRACE(test.name);
  const auto torch = ReadFixture("pool");
  const auto of = [&](const char* what) {
    return torch.at(absl::StrCat(test.name, "/", what));
  };
  const auto shaped = [](const FixtureTensor& tensor) {
    std::vector<Dimension> dims;
    for (size_t i = 0; i < tensor.sizes.size(); ++i) {
      dims.push_back({absl::StrCat("d", i), tensor.sizes[i]});
    }
    return OracleTensor{Shape(dims), kFloat32, tensor.values};
  };
  Graph graph;
  const OracleTensor input = shaped(of("x"));
  const Tensor x = ConstantOf(graph, input);
  const Tensor dy = ConstantOf(graph, shaped(of("dy")));
  Shape windows;
  for (int i = 1; i + 1 < input.shape.rank(); ++i) {
    windows = windows.With({absl::StrCat("d", i), test.window});
  }
  const bool is_max = test.name.substr(0, 3) == "max";
  const Tensor y = is_max ? MaxPool(x, windows, test.options)
                          : AveragePool(x, windows, test.options);
  ASSERT_OK(graph.status());
  ASSERT_EQ(y.shape(), dy.shape());
  const OracleTensor expected = shaped(of("y")), gradient = shaped(of("dx"));
  ExpectElements(
      Fetch(y), [&](const ElementIndex& at) { return At(expected, at); }, 1e-5);
  ExpectElements(
      Fetch(Gradients(y, {x}, dy)[0]),
      [&](const ElementIndex& at) { return At(gradient, at); }, 1e-5);
}

TEST(Pool, IsThatOfPyTorch) {
  PoolOptions inside = kHalf;
  inside.count_padding = false;
  ExpectTorch({"max1d", 2, {}});
  ExpectTorch({"max2d", 3, kHalf});
  ExpectTorch({"max3d", 2, {}});
  ExpectTorch({"average1d", 2, {}});
  ExpectTorch({"average2d", 3, kHalf});
  ExpectTorch({"average2d_inside", 3, inside});
  ExpectTorch({"average3d", 2, {}});
}

TEST(Pool, GradientsMatchDifferences) {
  const Shape shape = {{"n", 5}, {"c", 2}, {"m", 4}};
  PoolOptions inside = kHalf;
  inside.count_padding = false;
  for (const PoolOptions& options : {PoolOptions{}, kHalf, inside}) {
    ExpectGradients({Numbers(shape, 1)},
                    [&](Graph&, const std::vector<Tensor>& xs) {
                      return MaxPool(xs[0], {{"n", 2}, {"m", 3}}, options);
                    });
    ExpectSecondGradients(
        {Numbers(shape, 2)}, [&](Graph&, const std::vector<Tensor>& xs) {
          return AveragePool(xs[0], {{"m", 3}, {"n", 2}}, options);
        });
  }
}

// The windows that a pooling makes never have the name of a dimension of `x`.
TEST(Pool, AnyNameOfADimensionIsAllowed) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2, 5, 3, 0, 9, 4, 8}, kFloat32,
                            {{"n", 4}, {"n-window", 2}});
  EXPECT_THAT(DataOf(MaxPool(x, {{"n", 2}})), ElementsAre(5, 3, 4, 9));
  EXPECT_THAT(DataOf(MaxPool(x, {{"n-window", 2}, {"n", 2}})),
              ElementsAre(5, 9));
  EXPECT_THAT(DataOf(AveragePool(x, {{"n", 2}, {"n-window", 2}})),
              ElementsAre(2.75, 5.25));
}

TEST(Pool, BadCallsAreErrors) {
  const Shape shape = {{"n", 5}};
  ExpectError(
      [&](Graph& g) {
        MaxPool(Zeros(g, kInt32, shape), {{"n", 2}});
      },
      {"max_pool takes a float dtype, not i32", "Cast()"});
  ExpectError([&](Graph& g) { MaxPool(Zeros(g, kFloat32, shape), {}); },
              {"no dimension to pool"});
  ExpectError(
      [&](Graph& g) {
        AveragePool(Zeros(g, kFloat32, shape), {{"m", 2}});
      },
      {"\"m\""});
  ExpectError(
      [&](Graph& g) {
        MaxPool(Zeros(g, kFloat32, shape), {{"n", 2}}, {.stride = -1});
      },
      {".stride is -1"});
  ExpectError(
      [&](Graph& g) {
        AveragePool(Zeros(g, kFloat32, shape), {{"n", 6}});
      },
      {"spans 6"});
  ExpectError(
      [&](Graph& g) {
        MaxPool(Zeros(g, kFloat32, shape), {{"n", 0}});
      },
      {"the windows of max_pool have 0 elements of dimension \"n\", which is "
       "5"});
  ExpectError(
      [&](Graph& g) {
        AveragePool(Zeros(g, kFloat32, shape), {{"n", 2}, {"n", 2}});
      },
      {"\"n\" occurs twice in [n=2, n=2]"});
  EXPECT_FALSE(MaxPool(Tensor(), {{"n", 2}}).valid());
  EXPECT_FALSE(AveragePool(Tensor(), {{"n", 2}}).valid());
}

}  // namespace
}  // namespace mtf
