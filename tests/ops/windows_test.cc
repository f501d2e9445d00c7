// SPDX-License-Identifier: Apache-2.0
#include "ops/windows.h"

#include <cmath>
#include <limits>

#include "ops/einsum.h"
#include "ops/pad.h"
#include "ops/shift.h"
#include "ops/slice.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension a{"a", 2};

// A call of Windows of a dimension of `size`.
struct WindowCase {
  int64_t size, window;
  WindowOptions options;

  int64_t span() const { return (window - 1) * options.dilation + 1; }
  int64_t count() const {
    if (options.padding == WindowPadding::kSame) {
      return (size + options.stride - 1) / options.stride;
    }
    return (size + options.before + options.after - span()) / options.stride +
           1;
  }
  int64_t before() const {
    if (options.padding != WindowPadding::kSame) return options.before;
    return std::max<int64_t>(0,
                             (count() - 1) * options.stride + span() - size) /
           2;
  }
  // The element that window `i` has at `w`, or -1.
  int64_t ElementOf(int64_t i, int64_t w) const {
    const int64_t at = i * options.stride + w * options.dilation - before();
    if (options.wrap) return ((at % size) + size) % size;
    return at >= 0 && at < size ? at : -1;
  }
  std::string Describe() const {
    return absl::StrCat("size ", size, " window ", window, " stride ",
                        options.stride, " dilation ", options.dilation,
                        " before ", options.before, " after ", options.after,
                        " padding ", static_cast<int>(options.padding),
                        options.wrap ? " wrap" : "");
  }
};

// Calls visit for sizes up to `most`, windows up to 5, strides and dilations up
// to 3, and every kind of padding.
void ForEachWindowCase(int64_t most,
                       const std::function<void(const WindowCase&)>& visit) {
  for (int64_t size = 1; size <= most; ++size) {
    for (int64_t window = 1; window <= 5; ++window) {
      for (int64_t stride = 1; stride <= 3; ++stride) {
        for (int64_t dilation = 1; dilation <= 3; ++dilation) {
          for (const bool wrap : {false, true}) {
            WindowOptions options{
                .stride = stride, .dilation = dilation, .wrap = wrap};
            visit({size, window, options});
            options.padding = WindowPadding::kValid;
            WindowCase valid{size, window, options};
            if (valid.span() <= size && !wrap) visit(valid);
            options.padding = WindowPadding::kExplicit;
            options.before = size % 3 + 1;
            options.after = 2;
            WindowCase more{size, window, options};
            if (more.span() <= size + options.before + 2) visit(more);
          }
        }
      }
    }
  }
}

TEST(Windows, EverySmallCaseAgreesWithLoops) {
  ForEachWindowCase(13, [](WindowCase test) {
    SCOPED_TRACE(test.Describe());
    const double fill = test.options.wrap ? 0 : -7;
    test.options.fill = fill;
    Graph graph;
    const OracleTensor x = Numbers({a, {"n", test.size}}, 3);
    const Tensor y =
        Windows(ConstantOf(graph, x), "n", {"w", test.window}, test.options);
    ASSERT_OK(graph.status());
    ASSERT_EQ(y.shape(), Shape({a, {"n", test.count()}, {"w", test.window}}));
    ExpectElements(Fetch(y), [&](const ElementIndex& index) {
      const int64_t from = test.ElementOf(index.at("n"), index.at("w"));
      return from < 0 ? fill : At(x, {{"a", index.at("a")}, {"n", from}});
    });
  });
}

TEST(FoldWindows, EverySmallCaseAgreesWithLoops) {
  ForEachWindowCase(13, [](const WindowCase& test) {
    SCOPED_TRACE(test.Describe());
    Graph graph;
    // In another order than that of Windows.
    const OracleTensor y =
        Numbers({{"w", test.window}, {"n", test.count()}, a}, 4);
    const Tensor x =
        FoldWindows(ConstantOf(graph, y), "n", "w", test.size, test.options);
    ASSERT_OK(graph.status());
    ASSERT_EQ(x.shape(), Shape({{"n", test.size}, a}));
    std::vector<double> sums(test.size * 2, 0);
    ForEachElement(y.shape, [&](const ElementIndex& index) {
      const int64_t to = test.ElementOf(index.at("n"), index.at("w"));
      if (to >= 0) sums[to * 2 + index.at("a")] += At(y, index);
    });
    ExpectElements(Fetch(x), [&](const ElementIndex& index) {
      return sums[index.at("n") * 2 + index.at("a")];
    });
  });
}

TEST(Windows, OfEveryDType) {
  for (DType dtype : {kFloat32, kBFloat16, kFloat16, kInt32, kInt64, kBool}) {
    Graph graph;
    const Tensor x = Constant(graph, {1, 0, 1}, dtype, {{"n", 3}});
    const Tensor y = Windows(x, "n", {"w", 2});
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_THAT(DataOf(y), ElementsAre(1, 0, 0, 1, 1, 0));
    if (dtype == kBool) continue;
    EXPECT_THAT(DataOf(FoldWindows(y, "n", "w", 3)), ElementsAre(1, 0, 2));
  }
}

TEST(Windows, MaximumIgnoresWhatIsBeyondTheEnds) {
  Graph graph;
  const Tensor x = Constant(graph, {-3, -1, -2, -5, -4}, {{"n", 5}});
  const WindowOptions pool{.stride = 2,
                           .fill = -std::numeric_limits<double>::infinity()};
  EXPECT_THAT(DataOf(MaxOver(Windows(x, "n", {"w", 3}, pool), {{"w", 3}})),
              ElementsAre(-1, -1, -4));
}

// A convolution and its transpose are each other's gradients.
TEST(Windows, ConvolutionInTwoDimensionsAgreesWithLoops) {
  Graph graph;
  const Dimension height{"height", 6}, width{"width", 5}, io{"io", 2},
      o{"o", 3}, kh{"kh", 3}, kw{"kw", 2};
  const OracleTensor x = Numbers({height, width, io}, 1);
  const OracleTensor w = Numbers({kh, kw, io, o}, 2);
  const Tensor y =
      Einsum({Windows(Windows(ConstantOf(graph, x), "height", kh), "width", kw),
              ConstantOf(graph, w)},
             {height, width, o});
  ExpectElements(Fetch(y), [&](ElementIndex index) {
    double sum = 0;
    const int64_t row = index.at("height"), column = index.at("width");
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 2; ++j) {
        index["height"] = row + i - 1;
        index["width"] = column + j;
        if (index["height"] < 0 || index["height"] >= 6 ||
            index["width"] >= 5) {
          continue;
        }
        index["kh"] = i;
        index["kw"] = j;
        for (index["io"] = 0; index["io"] < 2; ++index["io"]) {
          sum += At(x, index) * At(w, index);
        }
      }
    }
    return sum;
  });
}

TEST(WindowsGradients, OfSmallCases) {
  ForEachWindowCase(4, [](const WindowCase& test) {
    SCOPED_TRACE(test.Describe());
    ExpectSecondGradients(
        {Numbers({{"n", test.size}, a}, 5)},
        [&](Graph&, const std::vector<Tensor>& xs) {
          const Tensor y =
              Windows(xs[0], "n", {"w", test.window}, test.options);
          return FoldWindows(y * y, "n", "w", test.size, test.options);
        });
  });
}

TEST(WindowsGradients, OfAFillValueAreZero) {
  ExpectSecondGradients(
      {Numbers({{"n", 3}}, 5)}, [&](Graph&, const std::vector<Tensor>& xs) {
        const Tensor y = Windows(xs[0], "n", {"w", 3}, {.fill = 2});
        return y * y;
      });
}

TEST(WindowsErrors, NameTheDimensionAndBothNumbers) {
  const auto x = [](Graph& g) { return Ones(g, kFloat32, {{"n", 4}}); };
  ExpectError(
      [&](Graph& g) {
        Windows(x(g), "m", {"w", 2});
      },
      {"\"m\"", "windows"});
  ExpectError(
      [&](Graph& g) {
        Windows(x(g), "n", {"n", 2});
      },
      {"window dimension \"n\" is a dimension of", "another name"});
  ExpectError(
      [&](Graph& g) {
        Windows(x(g), "n", {"w", 3},
                {.dilation = 2, .padding = WindowPadding::kValid});
      },
      {"a window of \"w\" spans 5 elements, but dimension \"n\" of", "is 4",
       "kSame"});
  ExpectError(
      [&](Graph& g) {
        Windows(x(g), "n", {"w", 3}, {.stride = 0});
      },
      {".stride is 0; it must be from 1 to 2^40"});
  ExpectError(
      [&](Graph& g) {
        Windows(x(g), "n", {"w", 3}, {.before = 1});
      },
      {".before is 1 and .after is 0, which only"});
  ExpectError(
      [&](Graph& g) {
        Windows(x(g), "n", {"w", 3}, {.fill = 1, .wrap = true});
      },
      {".fill is 1, but windows that wrap around read no fill value"});
  ExpectError(
      [&](Graph& g) {
        Windows(x(g), "n", {"w", 0});
      },
      {"windows of dimension \"n\" have 0 elements \"w\""});
  ExpectError(
      [&](Graph& g) {
        Windows(Ones(g, kInt32, {{"n", 4}}), "n", {"w", 2}, {.fill = 0.5});
      },
      {"0.5"});
  ExpectError(
      [&](Graph& g) {
        Windows(x(g), "n", {"w", 1 << 20}, {.wrap = true});
      },
      {"wrap around dimension \"n\" of", "more than 64 times"});
  ExpectError(
      [&](Graph& g) {
        FoldWindows(Ones(g, kFloat32, {{"n", 4}, {"w", 2}}), "n", "w", 9,
                    {.stride = 2});
      },
      {"counts 4 windows, but a dimension of 9 has 5", "transpose"});
  ExpectError(
      [&](Graph& g) {
        FoldWindows(Ones(g, kBool, {{"n", 4}, {"w", 2}}), "n", "w", 4);
      },
      {"bool"});
  EXPECT_FALSE(Windows(Tensor(), "n", {"w", 2}).valid());
  ExpectError(
      [](Graph& g) {
        FoldWindows(Ones(g, kFloat32, {{"n", 4}, {"w", 2}}), "n", "w", -3);
      },
      {"dimension \"n\" is to get -3 elements from windows \"w\" of 2"});
  EXPECT_FALSE(FoldWindows(Tensor(), "n", "w", 2).valid());
}

}  // namespace
}  // namespace mtf
