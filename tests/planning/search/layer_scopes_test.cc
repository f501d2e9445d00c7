// SPDX-License-Identifier: Apache-2.0
#include "planning/search/layer_scopes.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nn/attention/attention.h"
#include "nn/layers/dense.h"
#include "nn/layers/embedding.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/layer_norm.h"
#include "nn/losses/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"

namespace mtf::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const std::vector<std::string>& Names() {
  static const auto& names = *new std::vector<std::string>{
      "batch",         "length", "vocab", "d_model",
      "memory_length", "heads",  "d_kv",  "d_ff"};
  return names;
}
int IndexOf(const std::string& name) {
  return static_cast<int>(std::find(Names().begin(), Names().end(), name) -
                          Names().begin());
}
DimSet SetOf(std::vector<std::string> names) {
  DimSet set = 0;
  for (const std::string& name : names) set |= DimSet{1} << IndexOf(name);
  return set;
}

class LayerScopesTest : public ::testing::Test {
 protected:
  LayerScopesTest() {
    const Dimension batch{"batch", 4}, length{"length", 8}, vocab{"vocab", 11},
        d_model{"d_model", 6}, heads{"heads", 2}, d_kv{"d_kv", 3},
        d_ff{"d_ff", 10};
    const Tensor tokens = Input(graph_, "tokens", kInt32, {batch, length});
    Tensor x = nn::Embedding(tokens, vocab, d_model);
    for (int i = 0; i < 2; ++i) {
      const Scope scope(graph_, absl::StrCat("layer_", i));
      x = x +
          nn::SelfAttention(nn::LayerNorm(x, d_model),
                            {.length = length, .heads = heads, .d_kv = d_kv});
      x = x + nn::FeedForward(nn::LayerNorm(x, d_model), d_ff, Gelu);
    }
    Gradients(nn::CrossEntropy(nn::LayerNorm(x, d_model), vocab, tokens), {x});
  }
  std::vector<std::string> Where(const std::string& dim,
                                 std::vector<std::string> others) {
    return LayerScopes(graph_, Names())
        .WhereTheyMeet(IndexOf(dim), SetOf(std::move(others)));
  }

  Graph graph_;
};

TEST_F(LayerScopesTest, DimensionsMeetInWholeLayers) {
  EXPECT_THAT(Where("length", {"heads"}), ElementsAre("layer_*/attention"));
  EXPECT_THAT(Where("length", {"d_ff"}), ElementsAre("layer_*/feed_forward"));
  EXPECT_THAT(Where("length", {"vocab"}),
              UnorderedElementsAre("embedding", "cross_entropy"));
  EXPECT_THAT(
      Where("length", {"heads", "d_ff", "vocab"}),
      UnorderedElementsAre("embedding", "cross_entropy", "layer_*/attention",
                           "layer_*/feed_forward"));
}

TEST_F(LayerScopesTest, DimensionsThatMeetEverywhereCannotBeKeptApart) {
  EXPECT_THAT(Where("length", {"batch"}), IsEmpty());
  EXPECT_THAT(Where("length", {"d_model"}), IsEmpty());
  EXPECT_THAT(Where("d_ff", {"length"}), IsEmpty());
}

TEST_F(LayerScopesTest, AttentionHasHeadsOfItsOwn) {
  const auto attentions = LayerScopes(graph_, Names()).Attentions();
  ASSERT_EQ(attentions.size(), 1u);
  EXPECT_EQ(attentions[0].scope, "layer_*/attention/dot_product");
  EXPECT_EQ(attentions[0].own, SetOf({"heads", "d_kv"}));
  EXPECT_EQ(attentions[0].lengths, SetOf({"length", "memory_length"}));
}

}  // namespace
}  // namespace mtf::internal
