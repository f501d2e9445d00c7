// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/rotary.h"

#include <cmath>
#include <string>

#include "tests/fixtures.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using nn::RotaryPairs;
using nn::RotaryScalingRule;
using ::testing::AllOf;
using ::testing::HasSubstr;

const Dimension kLength{"length", 7}, kKey{"d_kv", 8}, kBatch{"batch", 2};

// Positions far apart, so that a wrong frequency shows.
Tensor FarPositions(OracleGraph& o) {
  return o.Integers("positions", {kLength},
                    {3, 1003, 2003, 3003, 4003, 5003, 6003});
}

TEST(RotaryEmbedding, IsThatOfTransformers) {
  const std::pair<const char*, nn::RotaryOptions> cases[] = {
      {"halves", {}},
      {"interleaved", {.pairs = RotaryPairs::kInterleaved}},
      {"positions", {}},
      {"half_of_d_kv", {.base = 500, .fraction = 0.5}},
      {"linear",
       {.scaling = {.rule = RotaryScalingRule::kLinear, .factor = 4}}},
      {"ntk", {.scaling = {.rule = RotaryScalingRule::kNtk, .factor = 4}}},
      {"llama3",
       {.base = 500000,
        .scaling = {.rule = RotaryScalingRule::kLlama3, .factor = 8}}},
      {"yarn",
       {.scaling = {.rule = RotaryScalingRule::kYarn,
                    .factor = 4,
                    .original_length = 2048}}}};
  const auto torch = testing::ReadFixture("positions");
  for (auto [name, options] : cases) {
    SCOPED_TRACE(name);
    OracleGraph o;
    const Tensor x = o.Parameter("x", {kLength, kKey}, torch.at("x").values);
    const bool near = std::string(name) == "halves" ||
                      std::string(name) == "interleaved" ||
                      std::string(name) == "half_of_d_kv";
    if (!near) options.positions = FarPositions(o);
    const Tensor y = nn::RotaryEmbedding(x, kLength, kKey, options);
    EXPECT_EQ(y.shape(), x.shape());
    testing::ExpectNear(o.Run(y), torch.at(name).values, 1e-6);
    o.ExpectGradientsOf(testing::Probe(o, y));
  }
}

// Products of rotated queries and keys depend on the distance only, and keep
// their length.
TEST(RotaryEmbedding, ProductsDependOnDistances) {
  for (const RotaryPairs pairs :
       {RotaryPairs::kHalves, RotaryPairs::kInterleaved}) {
    OracleGraph o;
    const Tensor row = o.Parameter("row", {kKey});
    const Tensor x = row + Zeros(o.graph, kFloat32, {kLength, kKey});
    const std::vector<double> y =
        o.Run(nn::RotaryEmbedding(x, kLength, kKey, {.pairs = pairs}));
    const auto product = [&](int i, int j) {
      double sum = 0;
      for (int d = 0; d < 8; ++d) sum += y[i * 8 + d] * y[j * 8 + d];
      return sum;
    };
    for (int i = 0; i + 2 < 7; ++i) {
      EXPECT_NEAR(product(i, i), product(0, 0), 1e-9);
      EXPECT_NEAR(product(i, i + 2), product(0, 2), 1e-9);
    }
  }
}

TEST(RotaryEmbedding, TakesAnOffsetForEachRow) {
  OracleGraph o;
  const Dimension now{"now", 1};
  const Tensor x = o.Parameter("x", {kBatch, now, kKey});
  const Tensor all =
      o.Parameter("all", {kBatch, kLength, kKey}, std::vector<double>(112, 0));
  const Tensor offset = o.Integers("offset", {kBatch}, {2, 5});
  const Tensor y = nn::RotaryEmbedding(x, now, kKey, {.offset = offset});
  o.Fill();
  std::vector<double>& values = o.variables["all"].data;
  const auto& rows = o.Value("x");
  for (int d = 0; d < 8; ++d) {
    values[2 * 8 + d] = rows[d];
    values[(7 + 5) * 8 + d] = rows[8 + d];
  }
  const std::vector<double> full =
      o.Run(nn::RotaryEmbedding(all, kLength, kKey));
  std::vector<double> expected(full.begin() + 2 * 8, full.begin() + 3 * 8);
  expected.insert(expected.end(), full.begin() + 12 * 8, full.begin() + 13 * 8);
  testing::ExpectNear(o.Run(y), expected);
}

TEST(RotaryEmbedding, KeepsADtypeAndTheOrderOfDimensions) {
  OracleGraph o;
  const Tensor x = Input(o.graph, "x", kBFloat16, {kKey, kBatch, kLength});
  const Tensor positions =
      o.Integers("positions", {kLength, kBatch}, std::vector<int32_t>(14, 3));
  for (const RotaryPairs pairs :
       {RotaryPairs::kHalves, RotaryPairs::kInterleaved}) {
    const Tensor y = nn::RotaryEmbedding(
        x, kLength, kKey,
        {.fraction = 0.5, .pairs = pairs, .positions = positions});
    ASSERT_OK(o.graph.status());
    EXPECT_EQ(y.dtype(), kBFloat16);
    EXPECT_EQ(y.shape(), x.shape());
  }
}

TEST(RotaryErrors, SayWhatIsWrong) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const auto error = [](nn::RotaryOptions options, Dimension d_kv = kKey) {
    Graph graph;
    nn::RotaryEmbedding(Input(graph, "x", kFloat32, {kLength, kKey}), kLength,
                        d_kv, options);
    return graph.status();
  };
  EXPECT_THAT(error({}, {"d_kv", 6}),
              StatusIs(kInvalid, AllOf(HasSubstr("\"d_kv\" is 6 in the call"),
                                       HasSubstr("rotary_test.cc:"))));
  EXPECT_THAT(error({.fraction = 0.4}),
              StatusIs(kInvalid, HasSubstr("3 of the 8 elements of \"d_kv\" is "
                                           "an odd number")));
  EXPECT_THAT(error({.fraction = 1.5}),
              StatusIs(kInvalid, HasSubstr(".fraction is 1.5, not in (0, 1]")));
  EXPECT_THAT(error({.base = 1}),
              StatusIs(kInvalid, HasSubstr(".base is 1, not a number above")));
  EXPECT_THAT(error({.scaling = {.factor = 0}}),
              StatusIs(kInvalid, HasSubstr(".scaling.factor")));
  EXPECT_THAT(
      error({.scaling = {.low_frequency_factor = 5}}),
      StatusIs(kInvalid, HasSubstr("not below .high_frequency_factor")));
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kLength, kKey});
  nn::RotaryEmbedding(x, kLength, kKey,
                      {.offset = Input(graph, "at", kInt32, {kKey})});
  EXPECT_THAT(graph.status(),
              StatusIs(kInvalid, HasSubstr("offsets have the dimension "
                                           "\"d_kv\", which is rotated")));
  Graph other;
  const Tensor y = Input(other, "x", kFloat32, {kLength, kKey});
  nn::RotaryEmbedding(y, kLength, kKey,
                      {.positions = Input(other, "at", kFloat32, {kLength})});
  EXPECT_THAT(other.status(),
              StatusIs(kInvalid, HasSubstr("positions must have an integer")));
}

}  // namespace
}  // namespace mtf
