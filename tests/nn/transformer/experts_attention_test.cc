// SPDX-License-Identifier: Apache-2.0
#include "nn/transformer/experts_attention.h"

#include <string>
#include <vector>

#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

const Dimension kBatch{"batch", 2}, kLength{"length", 5}, kModel{"d_model", 4},
    kHeads{"heads", 2}, kKey{"d_kv", 2};

TEST(ExpertsAttention, OfOneExpertIsAttentionWithSharedKeysAndValues) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const nn::AttentionOptions options = {
      .length = kLength, .heads = kHeads, .d_kv = kKey, .causal = true};
  const nn::Experts y = nn::ExpertsAttention(
      x, {"experts", 1}, options, {.choices = 1, .capacity_factor = 2});
  ASSERT_OK(o.graph.status());
  std::string kernel;
  for (const VariableInfo& info : o.graph.variables()) {
    if (info.name.ends_with("query_key/kernel")) kernel = info.name;
  }
  // The kernel is [experts:1, d_model, query_or_key:2, heads, d_kv].
  OracleGraph plain;
  const Tensor z = nn::SelfAttention(
      plain.Parameter("x", {kBatch, kLength, kModel}), options);
  const std::vector<double> both = o.Value(kernel);
  std::vector<double> query, key;
  for (int d = 0; d < 4; ++d) {
    query.insert(query.end(), both.begin() + d * 8, both.begin() + d * 8 + 4);
    key.insert(key.end(), both.begin() + d * 8 + 4, both.begin() + d * 8 + 8);
  }
  plain.Fill();
  plain.variables["x"].data = o.Value("x");
  plain.variables["attention/query/kernel"].data = query;
  plain.variables["attention/key/kernel"].data = key;
  plain.variables["attention/value/kernel"].data = key;
  plain.variables["attention/output/kernel"].data =
      o.Value("attention/output/kernel");
  testing::ExpectNear(o.Run(y.output), plain.Run(z), 1e-9);
  Graph graph;
  nn::ExpertsAttention(Input(graph, "x", kFloat32, {kLength, kModel}),
                       {"experts", 2}, {.length = kLength});
  EXPECT_THAT(graph.status(),
              StatusIs(kInvalid, HasSubstr(".heads is missing")));
}

}  // namespace
}  // namespace mtf
