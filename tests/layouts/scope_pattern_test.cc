// SPDX-License-Identifier: Apache-2.0
#include "layouts/scope_pattern.h"

#include "gtest/gtest.h"

namespace mtf {
namespace {

TEST(ScopeMatches, AScopeAndWhatItContains) {
  EXPECT_TRUE(ScopeMatches("encoder", "encoder"));
  EXPECT_TRUE(ScopeMatches("encoder", "encoder/layer_0/attention"));
  EXPECT_TRUE(ScopeMatches("encoder/layer_0", "encoder/layer_0/attention"));
  EXPECT_FALSE(ScopeMatches("encoder", "decoder"));
  EXPECT_FALSE(ScopeMatches("encoder", "encoder_1"));
  EXPECT_FALSE(ScopeMatches("encoder", "model/encoder"));
  EXPECT_FALSE(ScopeMatches("encoder/layer_0", "encoder"));
  EXPECT_FALSE(ScopeMatches("encoder", ""));
}

TEST(ScopeMatches, AStarIsAnyCharactersOfAComponent) {
  EXPECT_TRUE(ScopeMatches("layer_*", "layer_12"));
  EXPECT_TRUE(ScopeMatches("layer_*", "layer_"));
  EXPECT_TRUE(ScopeMatches("*_norm*", "layer_norm_1"));
  EXPECT_TRUE(ScopeMatches("a*b*c", "a_b_bc"));
  EXPECT_FALSE(ScopeMatches("a*b*c", "a_b_b"));
  EXPECT_TRUE(ScopeMatches("*/attention", "layer_0/attention/query"));
  EXPECT_FALSE(ScopeMatches("*/attention", "model/layer_0/attention"));
  EXPECT_FALSE(ScopeMatches("*", ""));
}

TEST(ScopeMatches, TwoStarsAreAnyNumberOfComponents) {
  EXPECT_TRUE(ScopeMatches("**/attention", "attention"));
  EXPECT_TRUE(ScopeMatches("**/attention", "model/layer_0/attention/query"));
  EXPECT_TRUE(ScopeMatches("model/**/query", "model/layer_0/attention/query"));
  EXPECT_TRUE(ScopeMatches("model/**/query", "model/query"));
  EXPECT_FALSE(ScopeMatches("model/**/query", "layer_0/query"));
  EXPECT_TRUE(ScopeMatches("**", ""));
  EXPECT_TRUE(ScopeMatches("**", "any/scope"));
  EXPECT_TRUE(ScopeMatches("**/**", "any"));
}

TEST(IsScopePattern, HasComponentsOfNameCharactersAndStars) {
  for (const char* pattern : {"a", "layer_*/attention", "**/x-1", "*", "**"}) {
    EXPECT_TRUE(IsScopePattern(pattern)) << pattern;
  }
  for (const char* pattern :
       {"", "/", "a/", "/a", "a//b", "a b", "a:b", "a?"}) {
    EXPECT_FALSE(IsScopePattern(pattern)) << pattern;
  }
}

}  // namespace
}  // namespace mtf
