// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/clip.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "nn/optimizers/sgd.h"
#include "ops/elementwise.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

const Dimension kIo{"io", 2};

TEST(ClipByGlobalNorm, ScalesAllByTheNormOfAll) {
  OracleGraph o;
  const Tensor a = o.Parameter("a", {kIo}, {3, 0});
  const Tensor b = o.Parameter("b", {}, {4});
  const nn::ClippedGradients clipped =
      nn::ClipByGlobalNorm({a, Tensor(), b}, 1.0);
  ASSERT_EQ(clipped.gradients.size(), 3u);
  EXPECT_FALSE(clipped.gradients[1].valid());
  const auto values =
      o.RunAll({clipped.norm, clipped.gradients[0], clipped.gradients[2]});
  testing::ExpectNear(values[0], {5});
  testing::ExpectNear(values[1], {0.6, 0});
  testing::ExpectNear(values[2], {0.8});
}

TEST(ClipByGlobalNorm, KeepsSmallGradientsAndZeros) {
  for (double g : {0.0, 0.25}) {
    OracleGraph o;
    const Tensor a = o.Parameter("a", {kIo}, {g, -g});
    const auto clipped = nn::ClipByGlobalNorm({a}, 0.5);
    testing::ExpectNear(o.Run(clipped.gradients[0]), {g, -g}, 0);
  }
}

TEST(ClipByGlobalNorm, BelongsToTheOptimizersSection) {
  OracleGraph o;
  const Tensor a = o.Parameter("a", {kIo}, {3, 4});
  const size_t before = o.graph.operations().size();
  nn::ClipByGlobalNorm({a}, 1.0);
  // The first is the mark of the layer.
  for (size_t i = before + 1; i < o.graph.operations().size(); ++i) {
    EXPECT_EQ(o.graph.operations()[i]->section(), LayoutSection::kOptimizer);
  }
}

TEST(ClipByGlobalNorm, PropagatesNaN) {
  OracleGraph o;
  const Tensor a = o.Parameter("a", {kIo}, {std::nan(""), 1});
  const auto clipped = nn::ClipByGlobalNorm({a}, 1.0);
  for (double value : o.Run(clipped.gradients[0])) {
    EXPECT_TRUE(std::isnan(value));
  }
}

TEST(ClipByGlobalNorm, OptimizersClip) {
  OracleGraph o;
  const Tensor w = o.Parameter("w", {kIo}, {0, 0});
  const Tensor slope = Constant(o.graph, {3, 4}, kFloat32, {kIo});
  const Tensor step = nn::Sgd({.learning_rate = 1.0, .max_gradient_norm = 2.5})
                          .Minimize(ReduceSum(w * slope, {}));
  o.Run(step);
  testing::ExpectNear(o.Value("w"), {-1.5, -2});
}

TEST(ClipErrors, ANormThatIsNotPositive) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double norm : {-1.0, 0.0, 1e-60, infinity, std::nan("")}) {
    OracleGraph o;
    const Tensor a = o.Parameter("a", {kIo});
    nn::ClipByGlobalNorm({a}, norm);
    EXPECT_THAT(
        o.graph.status(),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr(absl::StrCat("max_norm is ", norm,
                                        ", not a positive number of f32 (clip, "
                                        "clip_test.cc:"))));
  }
}

}  // namespace
}  // namespace mtf
