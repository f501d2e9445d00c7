// SPDX-License-Identifier: Apache-2.0
#include "ops/moments.h"

#include <cmath>

#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension batch{"batch", 3}, length{"length", 4}, model{"model", 5};

TEST(Moments, MeanAndVarianceOverAnyDimensions) {
  const OracleTensor x = Numbers({batch, length, model}, 3);
  for (const Shape& dims : {Shape({model}), Shape({model, batch}),
                            Shape({batch, length, model}), Shape()}) {
    Graph graph;
    const MomentsResult moments = Moments(ConstantOf(graph, x), dims);
    Shape kept = x.shape;
    for (const Dimension& dim : dims) kept = kept.Without(dim.name);
    EXPECT_EQ(moments.mean.shape(), kept);
    EXPECT_EQ(moments.variance.shape(), kept);
    const double count = static_cast<double>(dims.num_elements());
    const auto mean_at = [&](const ElementIndex& at) {
      double sum = 0;
      ForEachElement(dims, [&](ElementIndex index) {
        index.insert(at.begin(), at.end());
        sum += At(x, index);
      });
      return sum / count;
    };
    ExpectElements(Fetch(moments.mean), mean_at);
    ExpectElements(Fetch(moments.variance), [&](const ElementIndex& at) {
      double sum = 0;
      ForEachElement(dims, [&](ElementIndex index) {
        index.insert(at.begin(), at.end());
        sum += std::pow(At(x, index) - mean_at(at), 2);
      });
      return sum / count;
    });
  }
}

TEST(Moments, HaveGradients) {
  ExpectSecondGradients({Numbers({batch, model}, 5)},
                        [](Graph&, const std::vector<Tensor>& xs) {
                          const auto [mean, variance] = Moments(xs[0], {model});
                          return Sin(mean) * Square(variance);
                        });
}

TEST(Moments, Of16BitFloatsAreComputedInF32) {
  Graph graph;
  // The squares exceed the range of f16, and bf16 cannot represent the mean.
  const Tensor x =
      Constant(graph, {1000, 1001, 1002, 1003}, kFloat16, {length});
  const auto [mean, variance] = Moments(x, {length});
  EXPECT_EQ(mean.dtype(), kFloat16);
  EXPECT_EQ(variance.dtype(), kFloat16);
  EXPECT_THAT(DataOf(variance), ElementsAre(1.25));
}

TEST(MomentsErrors, DTypeAndDimensions) {
  ExpectError(
      [](Graph& g) {
        const auto [mean, variance] =
            Moments(Input(g, "x", kInt32, {batch, model}), {model});
        EXPECT_EQ(mean.shape(), Shape({batch}));
        EXPECT_EQ(variance.shape(), Shape({batch}));
      },
      {"moments take a float dtype, not i32", "Cast()", "(moments"});
  ExpectError(
      [](Graph& g) { Moments(Input(g, "x", kFloat32, {batch}), {model}); },
      {"model"});
  EXPECT_FALSE(Moments({}, {model}).mean.valid());
}

}  // namespace
}  // namespace mtf
