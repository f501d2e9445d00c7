// SPDX-License-Identifier: Apache-2.0
#include "ops/convolution.h"

#include "ops/einsum.h"
#include "ops/reshape.h"
#include "tests/convolution_cases.h"
#include "tests/fixtures.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension batch{"batch", 2}, in{"in", 3}, out{"out", 2};

// The first element of window `i`, for a dimension of `size`.
int64_t FirstOf(int64_t i, int64_t size, int64_t count, int64_t window,
                const WindowOptions& options) {
  int64_t before = options.before;
  if (options.padding == WindowPadding::kSame) {
    before =
        std::max<int64_t>(0, (count - 1) * options.stride +
                                 (window - 1) * options.dilation + 1 - size) /
        2;
  }
  return i * options.stride - before;
}

struct ImageCase {
  int64_t height, width, kh, kw;
  WindowOptions along_height, along_width;
};

const ImageCase kImages[] = {
    {5, 6, 3, 3, {}, {}},
    {5, 4, 2, 3, {.stride = 2}, {.dilation = 2}},
    {6, 5, 3, 1, {.padding = WindowPadding::kValid}, {.stride = 3}},
    {3, 3, 3, 2, Padded(2, 1), Padded(0, 3, 2)},
    {4, 5, 1, 1, {}, {}},
};

TEST(Convolution, OfImagesAgreesWithLoops) {
  for (const ImageCase& test : kImages) {
    Graph graph;
    const Dimension height{"height", test.height}, width{"width", test.width},
        kh{"kh", test.kh}, kw{"kw", test.kw};
    const OracleTensor x = Numbers({batch, height, width, in}, 3);
    const OracleTensor w = Numbers({kh, kw, in, out}, 4);
    const Tensor y = Convolution(ConstantOf(graph, x), ConstantOf(graph, w),
                                 {{"height", "kh", test.along_height},
                                  {"width", "kw", test.along_width}},
                                 {in});
    ASSERT_OK(graph.status());
    ASSERT_EQ(y.shape().rank(), 4);
    EXPECT_EQ(y.shape()[3], out);
    const int64_t rows = y.shape()[1].size, columns = y.shape()[2].size;
    ExpectElements(Fetch(y), [&](const ElementIndex& at) {
      double sum = 0;
      ForEachElement(w.shape, [&](const ElementIndex& k) {
        if (k.at("out") != at.at("out")) return;
        const int64_t row = FirstOf(at.at("height"), test.height, rows, test.kh,
                                    test.along_height) +
                            k.at("kh") * test.along_height.dilation;
        const int64_t column = FirstOf(at.at("width"), test.width, columns,
                                       test.kw, test.along_width) +
                               k.at("kw") * test.along_width.dilation;
        if (row < 0 || row >= test.height || column < 0 ||
            column >= test.width) {
          return;
        }
        sum += At(w, k) * At(x, {{"batch", at.at("batch")},
                                 {"height", row},
                                 {"width", column},
                                 {"in", k.at("in")}});
      });
      return sum;
    });
  }
}

// Over one, two and three dimensions, in any order of dimensions.
TEST(Convolution, GradientsMatchDifferences) {
  const Dimension length{"length", 4}, height{"height", 3}, k{"k", 3},
      kh{"kh", 2};
  ExpectSecondGradients(
      {Numbers({in, length, batch}, 5), Numbers({out, k, in}, 6)},
      [&](Graph&, const std::vector<Tensor>& xs) {
        return Convolution(xs[0], xs[1], {{"length", "k", {.stride = 2}}},
                           {in});
      });
  ExpectGradients(
      {Numbers({height, batch, in, length}, 7), Numbers({in, kh, k}, 8)},
      [&](Graph&, const std::vector<Tensor>& xs) {
        return Convolution(xs[0], xs[1],
                           {{"length", "k", Padded(1, 2)}, {"height", "kh"}},
                           {});
      });
  ExpectGradients({Numbers({{"depth", 2}, height, length, in}, 9),
                   Numbers({{"kd", 2}, kh, k, in, out}, 10)},
                  [&](Graph&, const std::vector<Tensor>& xs) {
                    return Convolution(
                        xs[0], xs[1],
                        {{"depth", "kd"}, {"height", "kh"}, {"length", "k"}},
                        {in});
                  });
}

TEST(TransposedConvolution, IsTheGradientOfAConvolution) {
  for (const ImageCase& test : kImages) {
    Graph graph;
    const Dimension height{"height", test.height}, width{"width", test.width};
    const std::vector<SpatialDimension> spatial = {
        {"height", "kh", test.along_height}, {"width", "kw", test.along_width}};
    const Tensor x = ConstantOf(graph, Numbers({batch, height, width, in}, 11));
    const Tensor w = ConstantOf(
        graph, Numbers({{"kh", test.kh}, {"kw", test.kw}, in, out}, 12));
    const Tensor y = Convolution(x, w, spatial, {in});
    const Tensor dy = ConstantOf(graph, Numbers(y.shape(), 13));
    const Tensor dx =
        TransposedConvolution(dy, w, spatial, {out}, {height, width});
    const Tensor expected = Gradients(y, {x}, dy)[0];
    ASSERT_OK(graph.status());
    ASSERT_EQ(dx.shape(), x.shape());
    const OracleTensor want = Fetch(expected);
    ExpectElements(Fetch(dx),
                   [&](const ElementIndex& at) { return At(want, at); });
  }
}

TEST(TransposedConvolution, DefaultSizes) {
  Graph graph;
  const Tensor x = Zeros(graph, kFloat32, {{"n", 5}, in});
  const Tensor w = Zeros(graph, kFloat32, {{"k", 3}, in, out});
  const auto size_with = [&](const WindowOptions& options) {
    return TransposedConvolution(x, w, {{"n", "k", options}}, {in})
        .shape()
        .SizeOf("n");
  };
  EXPECT_EQ(size_with({}), 5);
  EXPECT_EQ(size_with({.stride = 2}), 10);
  EXPECT_EQ(size_with({.stride = 2, .padding = WindowPadding::kValid}), 11);
  EXPECT_EQ(size_with(Padded(1, 1, 2)), 9);
  EXPECT_EQ(size_with(Padded(0, 1, 2, 2)), 12);
  EXPECT_OK(graph.status());
}

// The cases of tests/fixtures/convolution.py.
struct TorchCase {
  std::string name;
  std::vector<WindowOptions> options;  // by spatial dimension
  int64_t groups = 1;
  bool transposed = false;
};

// A fixture with the dimensions `names`.
OracleTensor FromTorch(const FixtureTensor& tensor,
                       const std::vector<std::string>& names) {
  std::vector<Dimension> dims;
  for (size_t i = 0; i < names.size(); ++i) {
    dims.push_back({names[i], tensor.sizes[i]});
  }
  return {Shape(dims), kFloat32, tensor.values};
}

void ExpectNearTorch(Tensor x, const FixtureTensor& expected) {
  const std::vector<double> values = DataOf(x);
  ASSERT_EQ(values.size(), expected.values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected.values[i],
                1e-5 * (1 + std::abs(expected.values[i])))
        << "element " << i;
  }
}

void ExpectTorch(const TorchCase& test) {
  SCOPED_TRACE(test.name);
  const auto torch = ReadFixture("convolution");
  const auto of = [&](const char* what) {
    return torch.at(absl::StrCat(test.name, "/", what));
  };
  std::vector<std::string> of_x = {"batch"}, of_w;
  std::vector<SpatialDimension> spatial;
  Shape sizes;
  for (size_t i = 0; i < test.options.size(); ++i) {
    const std::string name = absl::StrCat("s", i),
                      window = absl::StrCat("k", i);
    of_x.push_back(name);
    of_w.push_back(window);
    spatial.push_back({name, window, test.options[i]});
    sizes = sizes.With({name, of("y").sizes[i + 1]});
  }
  std::vector<std::string> of_y = of_x;
  of_x.push_back("in");
  of_y.push_back("out");
  of_w.insert(of_w.end(), {"in", "out"});
  Graph graph;
  Tensor x = ConstantOf(graph, FromTorch(of("x"), of_x));
  Tensor w = ConstantOf(graph, FromTorch(of("w"), of_w));
  const Tensor dy = ConstantOf(graph, FromTorch(of("dy"), of_y));
  const Dimension filter_in = w.dim("in"), filter_out = w.dim("out");
  Tensor y;
  if (test.groups > 1) {
    // Groups are a dimension that both have.
    const Dimension group{"group", test.groups};
    const Tensor split_x = SplitDimension(x, "in", {group, filter_in});
    const Tensor split_w = SplitDimension(
        w, "out", {group, {"out", filter_out.size / test.groups}});
    y = MergeDimensions(Convolution(split_x, split_w, spatial, {filter_in}),
                        {"group", "out"}, "out");
  } else if (test.transposed) {
    y = TransposedConvolution(x, w, spatial, {filter_in}, sizes);
  } else {
    y = Convolution(x, w, spatial, {filter_in});
  }
  ASSERT_OK(graph.status());
  const std::vector<Tensor> gradients = Gradients(y, {x, w}, dy);
  ExpectNearTorch(y, of("y"));
  ExpectNearTorch(gradients[0], of("dx"));
  ExpectNearTorch(gradients[1], of("dw"));
}

TEST(Convolution, IsThatOfPyTorch) {
  ExpectTorch({"conv1d", {Padded(1, 1, 2)}});
  ExpectTorch({"conv2d", {Padded(1, 1), Padded(1, 1)}});
  ExpectTorch({"conv2d_strided",
               {{.stride = 2, .dilation = 2, .padding = WindowPadding::kValid},
                {.padding = WindowPadding::kValid}}});
  ExpectTorch(
      {"conv3d",
       {Padded(1, 1), Padded(1, 1), {.padding = WindowPadding::kValid}}});
  ExpectTorch({"groups", {Padded(1, 1), Padded(1, 1)}, 2});
  ExpectTorch({"depthwise", {Padded(1, 1), Padded(1, 1)}, 3});
  ExpectTorch({"transposed", {Padded(1, 1, 2), Padded(1, 1, 2)}, 1, true});
}

TEST(TransposedConvolution, SizesBelowZeroAndOverflowsAreErrors) {
  const auto expect = [](WindowOptions options,
                         const std::vector<std::string>& words) {
    ExpectError(
        [&](Graph& g) {
          TransposedConvolution(Zeros(g, kFloat32, {{"n", 4}, in}),
                                Zeros(g, kFloat32, {{"k", 3}, in, out}),
                                {{"n", "k", options}}, {in});
        },
        words);
  };
  expect({.padding = WindowPadding::kExplicit, .before = 5, .after = 3},
         {"dimension \"n\" of the result would be -2: 4 windows \"k\" of 3",
          "less .before 5 and .after 3", "use less padding"});
  expect({.stride = int64_t{1} << 40}, {"more than 2^40 elements"});
  expect({.stride = int64_t{1} << 62}, {".stride is 4611686018427387904"});
  expect({.dilation = int64_t{1} << 40, .padding = WindowPadding::kValid},
         {"more than 2^40 elements"});
}

// The sizes that an error names are those that have as many windows.
TEST(TransposedConvolution, EverySizeWithAsManyWindowsIsAccepted) {
  for (const WindowOptions& options :
       {WindowOptions{.stride = 3},
        WindowOptions{.stride = 2, .padding = WindowPadding::kValid},
        WindowOptions{.stride = 3,
        .dilation = 2,
        .padding = WindowPadding::kExplicit,
        .before = 1,
        .after = 2}}) {
    for (int64_t size = 1; size < 20; ++size) {
      SCOPED_TRACE(size);
      Graph of_windows, transposed;
      const Tensor y = Windows(Zeros(of_windows, kFloat32, {{"n", size}}), "n",
                               {"k", 3}, options);
      TransposedConvolution(Zeros(transposed, kFloat32, {{"n", 4}, in}),
                            Zeros(transposed, kFloat32, {{"k", 3}, in}),
                            {{"n", "k", options}}, {in}, {{"n", size}});
      EXPECT_EQ(transposed.status().ok(),
                of_windows.status().ok() && y.shape().SizeOf("n") == 4);
    }
  }
}

TEST(Convolution, BadCallsAreErrors) {
  const Dimension n{"n", 4}, k{"k", 3};
  const auto of = [&](Shape x, Shape w, std::vector<SpatialDimension> spatial,
                      Shape reduced, const std::vector<std::string>& words,
                      Shape sizes = {}) {
    ExpectError(
        [&](Graph& g) {
          const Tensor a = Zeros(g, kFloat32, x), b = Zeros(g, kFloat32, w);
          if (sizes.rank() > 0) {
            TransposedConvolution(a, b, spatial, reduced, sizes);
          } else {
            Convolution(a, b, spatial, reduced);
          }
        },
        words);
  };
  of({n, in}, {k, in, out}, {}, {in}, {"needs a spatial dimension"});
  of({n, in}, {k, in, out}, {{"m", "k"}}, {in}, {"\"m\""});
  of({n, in}, {k, in, out}, {{"n", "kk"}}, {in}, {"\"kk\""});
  of({n, in}, {k, in, out}, {{"n", "k"}, {"n", "k"}}, {in}, {"listed twice"});
  of({n, in}, {k, in, out}, {{"n", "k"}}, {in, n},
     {"cannot be both a spatial dimension and a reduced one"});
  of({n, in}, {k, in, n}, {{"n", "k"}}, {in},
     {"has the spatial dimension \"n\"", "another name"});
  of({n, in, k}, {k, in, out}, {{"n", "k"}}, {in}, {"window of the filter"});
  of({n, in}, {k, out}, {{"n", "k"}}, {in}, {"\"in\""});
  of({n, in}, {k, {"in", 7}, out}, {{"n", "k"}}, {in},
     {"\"in\" is 3 in the call but 7"});
  of({n, in}, {{"k", 9}, in, out},
     {{"n", "k", {.padding = WindowPadding::kValid}}}, {in}, {"spans 9"});
  of({n, in}, {k, in, out}, {{"n", "k"}}, {in},
     {"\"in\" of size 9", "not a spatial dimension"}, {{"in", 9}});
  of({n, in}, {k, in, out}, {{"n", "k"}}, {in},
     {"to have \"n\" of size 9, but", "only a dimension of 4 has 4 windows",
      "default of 4"},
     {{"n", 9}});
  of({n, in}, {k, in, out}, {{"n", "k", {.stride = 3}}}, {in},
     {"only a dimension of 10 to 12 has 4 windows", "default of 12"},
     {{"n", 9}});
  of({n, {"m", 4}, in}, {k, in, out}, {{"n", "k"}, {"m", "k"}}, {in},
     {"\"k\" of the filter has the windows of \"n\" and of \"m\""});
  EXPECT_FALSE(Convolution(Tensor(), Tensor(), {{"n", "k"}}, {}).valid());
  ExpectError(
      [&](Graph& g) {
        Convolution(Zeros(g, kFloat32, {n, in}), Tensor(), {{"n", "k"}}, {in});
      },
      {"empty"});
}

}  // namespace
}  // namespace mtf
