// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (one rank)
//
// Elements of a filter that meet only the padding of an image, for some outputs
// or for all, have gradients of their own: zeros for the latter, which a
// library must write although it adds up nothing.
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/communicator.h"
#include "backends/reference/interpreter.h"
#include "gtest/gtest.h"
#include "lowering/lower.h"
#include "ops/convolution.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "tests/backends/garbage/run_with_garbage.h"
#include "tests/matchers.h"
#include "tests/requirements.h"

namespace mtf::testing {
namespace {

struct PaddedFilter {
  int64_t height, width;  // of the image
  int64_t window;         // in both dimensions
  WindowOptions options = {};
  int64_t in = 16, out = 16;
  friend std::ostream& operator<<(std::ostream& os, const PaddedFilter& f) {
    return os << f.height << "x" << f.width << "x" << f.in << ", window "
              << f.window << " apart " << f.options.dilation << " stride "
              << f.options.stride << ", to " << f.out;
  }
};

const PaddedFilter kPaddedFilters[] = {
    {2, 6, 5},
    {1, 1, 3},
    {1, 7, 3, {}, 64, 32},
    {3, 3, 3, {.dilation = 4}},
    {2, 9, 3, {.stride = 2, .dilation = 3}, 32, 48},
    {4, 1, 5, {.stride = 3}, 17, 31},
    {2, 5, 4, {.padding = WindowPadding::kExplicit, .before = 3, .after = 1}},
    {2, 5, 4, {.padding = WindowPadding::kExplicit, .before = 0, .after = 3}},
};

// Small integers, whose sums are exact in every dtype.
Tensor FeedIntegers(Graph& graph, Values& feeds, const std::string& name,
                    DType dtype, const Shape& shape) {
  std::vector<double> numbers(shape.num_elements());
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<double>((7 * i + 5) % 11 % 3) - 1;
  }
  feeds[name] = HostTensor::FromDoubles(shape, dtype, numbers);
  return Input(graph, name, dtype, shape);
}

void ExpectOracleGradients(const PaddedFilter& padded, DType dtype) {
  SCOPED_TRACE(absl::StrCat(DTypeName(dtype)));
  Graph graph;
  Values feeds;
  const Dimension in{"in", padded.in}, out{"out", padded.out},
      kh{"kh", padded.window}, kw{"kw", padded.window};
  const Tensor x = FeedIntegers(
      graph, feeds, "x", dtype,
      {{"batch", 2}, {"height", padded.height}, {"width", padded.width}, in});
  const Tensor w = FeedIntegers(graph, feeds, "w", dtype, {kh, kw, in, out});
  const Tensor y = Convolution(
      x, w, {{"height", "kh", padded.options}, {"width", "kw", padded.options}},
      {in});
  const Tensor dy = FeedIntegers(graph, feeds, "dy", dtype, y.shape());
  const std::vector<Tensor> fetches = Gradients(y, {x, w}, dy);
  const auto wanted = Interpret(graph, feeds, fetches);
  ASSERT_OK(wanted);
  const Mesh mesh = *Mesh::Parse("x:1");
  const auto binding = BindLayout(graph, mesh, *LayoutRules::Parse("", "test"));
  ASSERT_OK(binding);
  const auto program = Lower(graph, *binding, {.fetches = fetches});
  ASSERT_OK(program);
  LocalRanks ranks(mesh);
  for (const Garbage garbage : {Garbage::kNans, Garbage::kHuge}) {
    const auto run = RunWithGarbage(ranks, {&*program}, feeds, "cpu", garbage);
    ASSERT_OK(run);
    for (size_t f = 0; f < fetches.size(); ++f) {
      EXPECT_EQ(run->outputs[0].at(fetches[f].name()).ToDoubles(),
                (*wanted)[f].data)
          << NameOf(garbage) << " in the memory of " << fetches[f].name();
    }
  }
}

class PaddedFilters : public ::testing::TestWithParam<PaddedFilter> {};

TEST_P(PaddedFilters, HaveTheGradientsOfTheOracle) {
  for (const DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    ExpectOracleGradients(GetParam(), dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Windows, PaddedFilters,
                         ::testing::ValuesIn(kPaddedFilters));

}  // namespace
}  // namespace mtf::testing
