// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/position_bias.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "nn/attention/attention.h"
#include "ops/one_hot.h"
#include "tests/fixtures.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

const Dimension kLength{"length", 3}, kMemory{"memory_length", 4},
    kHeads{"heads", 2}, kBatch{"batch", 2}, kKey{"d_kv", 2};

TEST(RelativePositionBuckets, AreThoseOfTransformers) {
  const auto torch = testing::ReadFixture("positions");
  for (const bool both : {false, true}) {
    for (const auto& [buckets, most] :
         {std::pair(32, 128), std::pair(8, 20), std::pair(64, 200)}) {
      OracleGraph o;
      const Tensor query = Constant(o.graph, 200, kInt32, {});
      const Tensor keys = Range(o.graph, {"memory_length", 401});
      const Tensor found = nn::RelativePositionBuckets(
          query, keys,
          {.buckets = buckets, .max_distance = most, .bidirectional = both});
      const std::string name =
          absl::StrCat("buckets_", both ? 1 : 0, "_", buckets, "_", most);
      EXPECT_EQ(o.Run(found), torch.at(name).values) << name;
    }
  }
}

TEST(RelativePositionBias, IsAParameterOfBucketAndHead) {
  OracleGraph o;
  const Tensor positions =
      o.Integers("at", {kBatch, kLength}, {0, 1, 2, 3, 4, 5});
  const Tensor memory = Range(o.graph, kMemory);
  const nn::RelativePositionOptions options = {
      .buckets = 4, .max_distance = 3, .bidirectional = false};
  const Tensor bias =
      nn::RelativePositionBias(positions, memory, kHeads, options);
  EXPECT_EQ(bias.shape(), Shape({kHeads, kBatch, kLength, kMemory}));
  const std::vector<double> buckets =
      o.Run(nn::RelativePositionBuckets(positions, memory, options));
  const std::vector<double> actual = o.Run(bias);
  const auto& table = o.Value("relative_position_bias/embedding/table");
  ASSERT_EQ(actual.size(), 2 * buckets.size());
  for (size_t i = 0; i < buckets.size(); ++i) {
    for (size_t h = 0; h < 2; ++h) {
      EXPECT_EQ(actual[h * buckets.size() + i],
                table[static_cast<size_t>(buckets[i]) * 2 + h]);
    }
  }
  // It reaches attention, and its gradient the parameter.
  const Tensor q = o.Parameter("q", {kBatch, kLength, kHeads, kKey});
  const Tensor k = o.Parameter("k", {kBatch, kMemory, kHeads, kKey});
  const Tensor y = nn::DotProductAttention(q, k, k,
                                           {.length = kLength,
                                            .memory_length = kMemory,
                                            .d_kv = kKey,
                                            .bias = bias});
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(Alibi, SlopesAreThoseOfThePaper) {
  EXPECT_EQ(nn::AlibiSlopes(1), std::vector<double>({0x1p-8}));
  EXPECT_EQ(nn::AlibiSlopes(4),
            std::vector<double>({0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8}));
  EXPECT_EQ(nn::AlibiSlopes(6), std::vector<double>({0x1p-2, 0x1p-4, 0x1p-6,
                                                     0x1p-8, 0x1p-1, 0x1p-3}));
  testing::ExpectNear(
      nn::AlibiSlopes(12),
      {0x1p-1, 0x1p-2, 0x1p-3, 0x1p-4, 0x1p-5, 0x1p-6, 0x1p-7, 0x1p-8,
       std::exp2(-0.5), std::exp2(-1.5), std::exp2(-2.5), std::exp2(-3.5)},
      1e-15);
}

TEST(Alibi, BiasIsMinusTheDistance) {
  OracleGraph o;
  const Tensor bias =
      nn::AlibiBias(Range(o.graph, kLength), Range(o.graph, kMemory), kHeads);
  EXPECT_EQ(bias.shape(), Shape({kHeads, kLength, kMemory}));
  std::vector<double> expected;
  for (int h = 0; h < 2; ++h) {
    for (int l = 0; l < 3; ++l) {
      for (int m = 0; m < 4; ++m) {
        expected.push_back(-std::abs(l - m) * (h == 0 ? 0x1p-4 : 0x1p-8));
      }
    }
  }
  testing::ExpectNear(o.Run(bias), expected, 1e-12);
}

TEST(PositionBiasErrors, SayWhatIsWrong) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const auto error = [](nn::RelativePositionOptions options,
                        Dimension length = kLength, DType dtype = kInt32) {
    Graph graph;
    nn::RelativePositionBias(Input(graph, "at", dtype, {length}),
                             Range(graph, kMemory), kHeads, options);
    return graph.status();
  };
  EXPECT_THAT(error({.buckets = 5}),
              StatusIs(kInvalid, AllOf(HasSubstr(".buckets is 5, not an even "
                                                 "number of at least 4"),
                                       HasSubstr("position_bias_test.cc:"))));
  EXPECT_THAT(error({.max_distance = 8}),
              StatusIs(kInvalid, HasSubstr(".max_distance is 8, but the "
                                           "distances below 8")));
  EXPECT_THAT(error({}, kHeads),
              StatusIs(kInvalid, HasSubstr("the positions \"at\" have the "
                                           "dimension \"heads\"")));
  EXPECT_THAT(error({}, kLength, kFloat32),
              StatusIs(kInvalid, HasSubstr("positions must have an integer")));
  Graph graph;
  nn::AlibiBias(Range(graph, kLength), {}, kHeads);
  EXPECT_THAT(graph.status(), StatusIs(kInvalid, HasSubstr("empty")));
  EXPECT_FALSE(nn::AlibiBias({}, {}, kHeads).valid());
}

}  // namespace
}  // namespace mtf
