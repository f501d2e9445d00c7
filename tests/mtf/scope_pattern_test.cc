// SPDX-License-Identifier: Apache-2.0
#include "mtf/scope_pattern.h"

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

TEST(ScopeMatches, ComponentsFromTheFirst) {
  const auto in = [](const char* name, const char* scope) {
    return ScopeMatches(scope, name);
  };
  EXPECT_TRUE(in("layer_7/attention/query", ""));
  EXPECT_TRUE(in("layer_7/attention/query", "layer_7"));
  EXPECT_TRUE(in("layer_7/attention/query", "layer_*/attention"));
  EXPECT_TRUE(in("layer_7/attention/query", "*/attention/que*"));
  EXPECT_TRUE(in("layer_7/attention", "l*y*_*/*"));
  EXPECT_TRUE(in("abab", "*ab"));
  EXPECT_TRUE(in("abcbc", "a*bc"));
  EXPECT_FALSE(in("layer_7/attention", "attention"));
  EXPECT_FALSE(in("layer_7/attention_2", "layer_*/attention"));
  EXPECT_FALSE(in("layer_7", "layer_*/attention"));
  EXPECT_FALSE(in("layer_7/attention", "layer_*/*/*"));
  EXPECT_FALSE(in("layer_7/attention", "layer"));
  EXPECT_FALSE(in("aba", "a*ba*a"));
  // "*" does not match "/".
  EXPECT_FALSE(in("decoder/layer_7", "*layer_7"));
}

TEST(PatternOfName, StandsForAllNumbers) {
  EXPECT_EQ(PatternOfName("layer_12"), "layer_*");
  EXPECT_EQ(PatternOfName("block3"), "block*");
  EXPECT_EQ(PatternOfName("attention"), "attention");
  EXPECT_EQ(PatternOfName("12"), "12");
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
