// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/sinusoid_positions.h"

#include <cmath>

#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

const Dimension kBatch{"batch", 3}, kModel{"d_model", 5};

TEST(SinusoidPositions, AreSinesAndCosinesOfGeometricFrequencies) {
  OracleGraph o;
  const Tensor y =
      nn::SinusoidPositions(o.Integers("at", {kBatch}, {0, 1, 70}), kModel);
  EXPECT_EQ(y.shape(), Shape({kBatch, kModel}));
  EXPECT_EQ(y.dtype(), kFloat32);
  std::vector<double> expected;
  for (const double at : {0, 1, 70}) {
    for (int d = 0; d < 5; ++d) {
      const double angle = at / std::pow(10000.0, (d - d % 2) / 5.0);
      expected.push_back(d % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  testing::ExpectNear(o.Run(y), expected, 1e-9);
}

TEST(SinusoidPositionsErrors, SayWhatIsWrong) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const auto error = [](Shape shape, DType dtype, double base) {
    Graph graph;
    nn::SinusoidPositions(Input(graph, "at", dtype, shape), kModel,
                          {.base = base});
    return graph.status();
  };
  EXPECT_THAT(error({kModel}, kInt32, 10),
              StatusIs(kInvalid, HasSubstr("\"d_model\"")));
  EXPECT_THAT(error({kBatch}, kBool, 10),
              StatusIs(kInvalid, HasSubstr("(sinusoid_positions, "
                                           "sinusoid_positions_test.cc:")));
  EXPECT_THAT(error({kBatch}, kInt32, 0),
              StatusIs(kInvalid, HasSubstr(".base is 0")));
}

}  // namespace
}  // namespace mtf
