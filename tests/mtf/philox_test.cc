// SPDX-License-Identifier: Apache-2.0
#include "mtf/philox.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "tests/matchers.h"

namespace mtf {
namespace {

using ::testing::ElementsAreArray;

// The known answers of the authors' kat_vectors for philox4x32-10. The last
// word of our counter is always 0, so only the first vector goes through
// PhiloxAt; the others are checked against the generator directly.
TEST(Philox, KnownAnswerOfZeros) {
  EXPECT_THAT(
      PhiloxAt(0, 0, 0, 0).word,
      ElementsAreArray({0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
}

TEST(Philox, KnownAnswersOfTheGenerator) {
  const r123::Philox4x32 philox;
  const auto ones = philox({{~0u, ~0u, ~0u, ~0u}}, {{~0u, ~0u}});
  EXPECT_THAT(
      std::vector<uint32_t>(ones.begin(), ones.end()),
      ElementsAreArray({0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  const auto pi = philox({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}},
                         {{0xa4093822u, 0x299f31d0u}});
  EXPECT_THAT(
      std::vector<uint32_t>(pi.begin(), pi.end()),
      ElementsAreArray({0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Philox, DependsOnSeedStreamStepAndElement) {
  const auto first = [](uint32_t seed, uint32_t stream, uint32_t step,
                        uint64_t element) {
    return PhiloxAt(seed, stream, step, element).word[0];
  };
  const uint32_t base = first(1, 2, 3, 4);
  EXPECT_NE(first(2, 2, 3, 4), base);
  EXPECT_NE(first(1, 3, 3, 4), base);
  EXPECT_NE(first(1, 2, 4, 4), base);
  EXPECT_NE(first(1, 2, 3, 5), base);
  EXPECT_NE(first(1, 2, 3, 4 + (uint64_t{1} << 32)), base);
}

TEST(UniformFromWord, IsInTheHalfOpenUnitInterval) {
  EXPECT_EQ(UniformFromWord(0), 0.0f);
  EXPECT_EQ(UniformFromWord(255), 0.0f);
  EXPECT_EQ(UniformFromWord(0x80000000u), 0.5f);
  EXPECT_LT(UniformFromWord(~0u), 1.0f);
  EXPECT_EQ(UniformFromWord(~0u), 1.0f - 0x1p-24f);
}

// Compares with the C library in double precision, at the limits of both words.
TEST(NormalFromWords, MatchesBoxAndMullerToTheLastDigit) {
  const auto check = [](uint32_t w0, uint32_t w1) {
    const double u0 = UniformFromWord(w0), u1 = UniformFromWord(w1);
    const double want =
        std::sqrt(-2 * std::log(1 - u0)) * std::cos(2 * std::numbers::pi * u1);
    const double got = NormalFromWords(w0, w1);
    // Half a unit in the last place of a float, plus the error of doubles near
    // the zeros of the cosine.
    ASSERT_NEAR(got, want, 6.0e-8 * std::abs(want) + 1e-15) << w0 << " " << w1;
  };
  for (uint32_t i = 0; i < 3000; ++i) {
    const PhiloxWords words = PhiloxAt(1, 2, 3, i);
    check(words.word[0], words.word[1]);
    check(i << 8, words.word[1]);
    check(~(i << 8), words.word[1]);
    check(words.word[0], (i % 16 << 28) + (i / 16 << 8));
    check(words.word[0], (i % 16 << 28) - (i / 16 << 8));
  }
}

// The same bits on every machine and compiler.
TEST(NormalFromWords, KnownAnswers) {
  uint32_t hash = 0;
  for (uint32_t i = 0; i < 100000; ++i) {
    const auto bits = std::bit_cast<uint32_t>(
        NormalFromWords(i * 2654435761u, i * 2246822519u));
    hash = (hash ^ bits) * 16777619u;
  }
  EXPECT_EQ(hash, 1595598395u);
}

}  // namespace
}  // namespace mtf
