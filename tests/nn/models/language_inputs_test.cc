// SPDX-License-Identifier: Apache-2.0
//
// What language models read and predict.
#include "nn/models/language_model.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

const Dimension kBatch{"batch", 2}, kLength{"length", 6};

TEST(ShiftRight, BeginsEachSegmentWithTheStart) {
  OracleGraph o;
  const Tensor tokens = o.Integers("tokens", {kBatch, kLength},
                                   {5, 6, 7, 8, 9, 4, 3, 2, 5, 6, 7, 8});
  const Tensor segments = o.Integers("segments", {kBatch, kLength},
                                     {0, 0, 1, 1, 1, 2, 4, 4, 4, 4, 0, 0});
  EXPECT_THAT(o.Run(nn::ShiftRight(tokens, 0, segments)),
              ElementsAre(0, 5, 0, 7, 8, 0, 0, 3, 2, 5, 0, 7));
  EXPECT_THAT(o.Run(nn::ShiftRight(tokens, 1, segments)),
              ElementsAre(1, 5, 1, 7, 8, 1, 1, 3, 2, 5, 1, 7));
  EXPECT_OK(o.graph.status());
  nn::ShiftRight(tokens, 1, Zeros(o.graph, kInt32, {kLength}));
  EXPECT_THAT(o.graph.status(), StatusIs(kInvalid, HasSubstr("batch")));
}

TEST(DelimitedInputs, AreTokensAfterAnEvenNumberOfEnds) {
  OracleGraph o;
  const Tensor tokens = o.Integers("tokens", {kBatch, kLength},
                                   {5, 1, 7, 1, 9, 1, 1, 1, 5, 6, 1, 8});
  EXPECT_THAT(o.Run(nn::DelimitedInputs(tokens)),
              ElementsAre(1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0));
  EXPECT_OK(o.graph.status());
  nn::DelimitedInputs(Ones(o.graph, kFloat32, {kLength}));
  EXPECT_THAT(o.graph.status(),
              StatusIs(kInvalid, HasSubstr("must have an integer dtype")));
}

}  // namespace
}  // namespace mtf
