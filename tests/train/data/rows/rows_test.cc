// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "train/data/rows/data_random.h"
#include "train/data/rows/language_model_rows.h"
#include "train/data/rows/masked_rows.h"
#include "train/data/rows/pair_rows.h"
#include "train/data/rows/picture_rows.h"
#include "train/data/rows/span_corruption_rows.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What a format writes for some records, by the name of the feed.
using WrittenRows = std::map<std::string, std::vector<double>>;

absl::StatusOr<WrittenRows> Written(const RowFormat& format,
                                    const std::vector<Record>& records,
                                    int64_t position = 0) {
  std::vector<HostTensor> tensors;
  for (const RowInfo& row : format.rows()) {
    std::vector<Dimension> dims = {
        {"batch", static_cast<int64_t>(records.size())}};
    dims.insert(dims.end(), row.shape.begin(), row.shape.end());
    tensors.emplace_back(Shape(dims), row.dtype);
  }
  for (size_t i = 0; i < records.size(); ++i) {
    const absl::Status status =
        format.Write(records[i], position + static_cast<int64_t>(i),
                     static_cast<int64_t>(i), absl::MakeSpan(tensors));
    if (!status.ok()) return status;
  }
  WrittenRows written;
  for (size_t i = 0; i < tensors.size(); ++i) {
    written[format.rows()[i].name] = tensors[i].ToDoubles();
  }
  return written;
}

std::vector<int32_t> Count(int count, int first = 0) {
  std::vector<int32_t> tokens(count);
  for (int i = 0; i < count; ++i) tokens[i] = first + i;
  return tokens;
}

TEST(DataRandom, NumbersBelowABoundAreUniform) {
  for (const uint32_t bound : {1u, 2u, 3u, 10u, 37u}) {
    std::vector<int64_t> counts(bound);
    DataRandom random(1, 2, 3);
    const int64_t draws = 2000 * bound;
    for (int64_t i = 0; i < draws; ++i) ++counts[random.Below(bound)];
    // Within 6 standard deviations of 2000.
    for (const int64_t count : counts) EXPECT_NEAR(count, 2000, 6 * 45);
  }
  DataRandom a(1, 2, 3), b(1, 2, 4);
  EXPECT_NE(a.Next(), b.Next());
}

TEST(LanguageModelRows, TargetsAreTheNextTokens) {
  const LanguageModelRows rows({.length = {"length", 3}});
  const auto written =
      Written(rows, {{.tokens = {1, 2, 3, 4}}, {.tokens = {5, 6, 7, 8, 9}}});
  ASSERT_OK(written);
  EXPECT_THAT(written->at("tokens"), ElementsAre(1, 2, 3, 5, 6, 7));
  EXPECT_THAT(written->at("targets"), ElementsAre(2, 3, 4, 6, 7, 8));
  EXPECT_EQ(written->size(), 2);
}

TEST(LanguageModelRows, PaddingHasNoWeight) {
  const LanguageModelRows rows(
      {.length = {"length", 4}, .pad = 99, .weights = true, .segments = true});
  const auto written = Written(
      rows, {{.tokens = {1, 2, 3}}, {.missing = true}, {.tokens = {7}}, {}});
  ASSERT_OK(written);
  EXPECT_THAT(written->at("tokens"),
              ElementsAre(1, 2, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
                          99, 99));
  EXPECT_THAT(written->at("targets"),
              ElementsAre(2, 3, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
                          99, 99));
  EXPECT_THAT(written->at("weights"),
              ElementsAre(1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(written->at("segments"),
              ElementsAre(1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(written->at("positions"),
              ElementsAre(0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(LanguageModelRows, PackedTextsDoNotPredictOneAnother) {
  const LanguageModelRows rows(
      {.length = {"length", 6}, .weights = true, .segments = true});
  const auto written = Written(rows, {{.tokens = {1, 2, 3, 7, 8},
                                       .segments = {1, 1, 1, 2, 2},
                                       .positions = {0, 1, 2, 0, 1}}});
  ASSERT_OK(written);
  EXPECT_THAT(written->at("tokens"), ElementsAre(1, 2, 3, 7, 8, 0));
  EXPECT_THAT(written->at("targets"), ElementsAre(2, 3, 0, 8, 0, 0));
  EXPECT_THAT(written->at("weights"), ElementsAre(1, 1, 0, 1, 0, 0));
  EXPECT_THAT(written->at("segments"), ElementsAre(1, 1, 1, 2, 2, 0));
  EXPECT_THAT(written->at("positions"), ElementsAre(0, 1, 2, 0, 1, 0));
}

TEST(LanguageModelRows, PaddingWithoutWeightsIsAnError) {
  const LanguageModelRows rows({.length = {"length", 4}});
  EXPECT_THAT(Written(rows, {{.tokens = {1, 2, 3}}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a record of 3 tokens in a row of length 4 "
                                 "needs weights")));
  EXPECT_THAT(Written(rows, {{.missing = true}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("missing records needs weights")));
  EXPECT_THAT(Written(rows, {{.tokens = {1}, .segments = {1, 1}}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("1 token, 2 segment numbers")));
}

TEST(PairRows, TargetsAreShiftedForTheDecoder) {
  const PairRows rows({.inputs_length = {"inputs_length", 3},
                       .targets_length = {"targets_length", 4},
                       .pad = 0,
                       .start = 9});
  const auto written =
      Written(rows, {{.tokens = {1, 2}, .targets = {4, 5}},
                     {.tokens = {1, 2, 3, 4}, .targets = {4, 5, 6, 7, 8}},
                     {.missing = true}});
  ASSERT_OK(written);
  EXPECT_THAT(written->at("inputs"), ElementsAre(1, 2, 0, 1, 2, 3, 0, 0, 0));
  EXPECT_THAT(written->at("decoder_inputs"),
              ElementsAre(9, 4, 5, 0, 9, 4, 5, 6, 9, 0, 0, 0));
  EXPECT_THAT(written->at("targets"),
              ElementsAre(4, 5, 0, 0, 4, 5, 6, 7, 0, 0, 0, 0));
  EXPECT_THAT(written->at("weights"),
              ElementsAre(1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0));
}

// Puts the spans of the targets back into the inputs.
std::vector<int32_t> Restored(const Record& corrupted, int32_t first_sentinel,
                              int spans) {
  std::map<int32_t, std::vector<int32_t>> texts;
  int32_t sentinel = first_sentinel + 1;
  for (const int32_t token : corrupted.targets) {
    if (token == sentinel - 1) {
      sentinel = token;
    } else {
      texts[sentinel].push_back(token);
    }
  }
  EXPECT_EQ(sentinel, first_sentinel - spans + 1);
  std::vector<int32_t> restored;
  for (const int32_t token : corrupted.tokens) {
    if (token > first_sentinel - spans && token <= first_sentinel) {
      const std::vector<int32_t>& text = texts[token];
      restored.insert(restored.end(), text.begin(), text.end());
    } else {
      restored.push_back(token);
    }
  }
  return restored;
}

TEST(CorruptSpans, InputsAndTargetsRestoreTheText) {
  constexpr int32_t kFirst = 32099;
  for (const double density : {0.05, 0.15, 0.5, 0.9}) {
    for (const double mean : {1.0, 3.0, 10.0}) {
      const SpanCorruptionOptions options = {.noise_density = density,
                                             .mean_span_length = mean,
                                             .first_sentinel = kFirst};
      for (int size = 2; size < 120; ++size) {
        const std::vector<int32_t> text = Count(size, 100);
        const SpanCounts counts = CountSpans(size, options);
        const Record corrupted = CorruptSpans(text, options, size);
        ASSERT_EQ(Restored(corrupted, kFirst, static_cast<int>(counts.spans)),
                  text);
        // The counts of T5, and the lengths that follow.
        const int64_t noise = std::min<int64_t>(
            std::max<int64_t>(std::llrint(size * density), 1), size - 1);
        ASSERT_EQ(counts.noise, noise);
        ASSERT_EQ(corrupted.targets.size(), noise + counts.spans);
        ASSERT_EQ(corrupted.tokens.size(), size - noise + counts.spans);
        // Spans are apart: no sentinel follows another, none is first.
        ASSERT_LT(corrupted.tokens[0], kFirst - 100);
        for (size_t i = 1; i < corrupted.tokens.size(); ++i) {
          ASSERT_FALSE(corrupted.tokens[i] > kFirst - 100 &&
                       corrupted.tokens[i - 1] > kFirst - 100);
        }
      }
    }
  }
}

double Binomial(int n, int k) {
  if (k < 0 || k > n) return 0;
  return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) -
                  std::lgamma(n - k + 1));
}

// The probability that the first `k` of `parts` random lengths that add up to
// `items` have the sum `sum`.
double SumProbability(int items, int parts, int k, int sum) {
  if (k == 0) return sum == 0 ? 1 : 0;
  if (k == parts) return sum == items ? 1 : 0;
  return Binomial(sum - 1, k - 1) * Binomial(items - sum - 1, parts - k - 1) /
         Binomial(items - 1, parts - 1);
}

// Token i is noise if, for some k, the first k stretches and k - 1 spans end at
// or before it, and the span after them does not.
double NoiseProbability(int i) {
  constexpr int kNoise = 15, kKept = 85, kSpans = 5;
  double probability = 0;
  for (int k = 1; k <= kSpans; ++k) {
    for (int kept = 0; kept <= kKept; ++kept) {
      const double p = SumProbability(kKept, kSpans, k, kept);
      for (int noise = 0; kept + noise <= i; ++noise) {
        probability += p * (SumProbability(kNoise, kSpans, k - 1, noise) -
                            SumProbability(kNoise, kSpans, k, noise));
      }
    }
  }
  return probability;
}

TEST(CorruptSpans, NoiseIsSpreadAsTheAlgorithmSays) {
  const SpanCorruptionOptions options = {.first_sentinel = 999};
  constexpr int kSize = 100, kDraws = 3000;
  std::vector<int> noise(kSize);
  for (int draw = 0; draw < kDraws; ++draw) {
    const Record corrupted = CorruptSpans(Count(kSize), options, draw);
    for (const int32_t token : corrupted.targets) {
      if (token < kSize) ++noise[token];
    }
  }
  EXPECT_EQ(noise[0], 0);
  EXPECT_EQ(noise[kSize - 1], kDraws);
  double sum = 0;
  for (int i = 0; i < kSize; ++i) {
    const double p = NoiseProbability(i);
    sum += p;
    // Within 6 standard deviations, and one draw for rounding.
    EXPECT_NEAR(noise[i], kDraws * p,
                6 * std::sqrt(kDraws * std::max(p * (1 - p), 0.0)) + 1)
        << i;
  }
  EXPECT_NEAR(sum, 15, 1e-6);
}

// Each of the six ways to divide five tokens into three stretches, with each of
// the six for the spans, is drawn about equally often.
TEST(CorruptSpans, EveryDivisionIsEquallyLikely) {
  const SpanCorruptionOptions options = {
      .noise_density = 0.5, .mean_span_length = 5.0 / 3, .first_sentinel = 999};
  ASSERT_EQ(CountSpans(10, options).spans, 3);
  std::map<std::vector<int32_t>, int> drawn;
  constexpr int kDraws = 36 * 300;
  for (int draw = 0; draw < kDraws; ++draw) {
    ++drawn[CorruptSpans(Count(10), options, draw).tokens];
  }
  ASSERT_EQ(drawn.size(), 36);
  for (const auto& [tokens, count] : drawn) EXPECT_NEAR(count, 300, 6 * 17.3);
}

TEST(SpanCorruptionRows, TheLongestTextFillsARow) {
  const PairOptions pair = {.inputs_length = {"inputs_length", 512},
                            .targets_length = {"targets_length", 114}};
  const auto rows = SpanCorruptionRows::Create(
      pair, {.first_sentinel = 32099, .eos = 1, .seed = 3});
  ASSERT_OK(rows);
  // The lengths that T5 uses for 512 inputs.
  EXPECT_EQ((*rows)->most_tokens(), 568);
  const auto written = Written(**rows, {{.tokens = Count(700, 2)}}, 17);
  ASSERT_OK(written);
  EXPECT_EQ(written->at("inputs").back(), 1);
  EXPECT_EQ(written->at("targets").back(), 1);
  for (const double weight : written->at("weights")) EXPECT_EQ(weight, 1);
  // The draw depends on seed and position only.
  EXPECT_EQ(*Written(**rows, {{.tokens = Count(700, 2)}}, 17), *written);
  EXPECT_NE(*Written(**rows, {{.tokens = Count(700, 2)}}, 18), *written);
  // A text of one token has nothing to predict.
  const auto nothing = Written(**rows, {{.tokens = {5}}, {.missing = true}});
  ASSERT_OK(nothing);
  for (const double weight : nothing->at("weights")) EXPECT_EQ(weight, 0);
}

TEST(SpanCorruptionRows, InvalidOptionsAreErrors) {
  const PairOptions pair = {.inputs_length = {"inputs_length", 512},
                            .targets_length = {"targets_length", 114}};
  const auto is_invalid = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  for (const double density : {0.0, 1.0, -1.0, std::nan("")}) {
    EXPECT_THAT(SpanCorruptionRows::Create(
                    pair, {.noise_density = density, .first_sentinel = 32099}),
                is_invalid("span corruption with the density"));
  }
  EXPECT_THAT(SpanCorruptionRows::Create(
                  pair, {.mean_span_length = 0.5, .first_sentinel = 32099}),
              is_invalid("spans of 0.5 tokens"));
  EXPECT_THAT(SpanCorruptionRows::Create(pair, {}),
              is_invalid("but there are 100 sentinels from -1 down"));
  EXPECT_THAT(SpanCorruptionRows::Create(
                  pair, {.first_sentinel = 32099, .sentinels = 20}),
              is_invalid("28 spans, but there are 20 sentinels"));
  EXPECT_THAT(SpanCorruptionRows::Create(
                  {.inputs_length = {"i", 1}, .targets_length = {"t", 9}},
                  {.first_sentinel = 32099}),
              is_invalid("into rows of 1 inputs and 9 targets"));
}

constexpr SpecialTokens kBert = {.bos = 101, .eos = 102, .pad = 0, .mask = 103};

TEST(MaskedRows, EightInTenAreMaskedOneIsRandomOneStays) {
  const auto rows = MaskedRows::Create({.length = {"length", 128},
                                        .vocabulary = 30522,
                                        .special = kBert,
                                        .seed = 4});
  ASSERT_OK(rows);
  const std::vector<int32_t> text = Count(100, 1000);
  int64_t predicted = 0, masked = 0, kept = 0, random = 0;
  constexpr int kRecords = 400;
  const auto written =
      Written(**rows, std::vector<Record>(kRecords, {.tokens = text}));
  ASSERT_OK(written);
  for (int row = 0; row < kRecords; ++row) {
    int in_row = 0;
    for (int i = 0; i < 128; ++i) {
      const double token = written->at("tokens")[row * 128 + i];
      const double target = written->at("targets")[row * 128 + i];
      const double whole = i == 0     ? 101
                           : i == 101 ? 102
                           : i > 101  ? 0
                                      : text[i - 1];
      ASSERT_EQ(target, whole);
      if (written->at("weights")[row * 128 + i] == 0) {
        ASSERT_EQ(token, target);
        continue;
      }
      ASSERT_TRUE(i > 0 && i < 101);
      ++in_row;
      masked += token == 103;
      kept += token == target;
      random += token != 103 && token != target;
    }
    EXPECT_EQ(in_row, 15);
    predicted += in_row;
  }
  // Within 6 standard deviations, at most 29, of the parts of 6000.
  EXPECT_EQ(predicted, 6000);
  EXPECT_NEAR(masked, 4800, 186);
  EXPECT_NEAR(kept, 600, 140);
  EXPECT_NEAR(random, 600, 140);
}

TEST(MaskedRows, LongTextsAreCutAndEmptyOnesHaveNoWeight) {
  const auto rows = MaskedRows::Create(
      {.length = {"length", 5}, .vocabulary = 200, .special = kBert});
  ASSERT_OK(rows);
  const auto written =
      Written(**rows, {{.tokens = {1, 2, 3, 4}}, {}, {.missing = true}});
  ASSERT_OK(written);
  EXPECT_THAT(written->at("targets"),
              ElementsAre(101, 1, 2, 3, 102, 101, 102, 0, 0, 0, 0, 0, 0, 0, 0));
  double weights = 0;
  for (const double weight : written->at("weights")) weights += weight;
  EXPECT_EQ(weights, 1);  // at least one token of a text is predicted
  EXPECT_THAT(MaskedRows::Create({.length = {"length", 5}, .vocabulary = 200}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("needs a mask token")));
  EXPECT_THAT(
      MaskedRows::Create(
          {.length = {"length", 5}, .vocabulary = 103, .special = kBert}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("token 103 is not in the vocabulary of 103")));
  EXPECT_THAT(
      MaskedRows::Create(
          {.length = {"length", 2}, .vocabulary = 200, .special = kBert}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("rows of length 2")));
}

TEST(MaskedRows, PairsHaveTokenTypes) {
  const auto rows = MaskedRows::Create({.length = {"length", 9},
                                        .vocabulary = 200,
                                        .special = kBert,
                                        .pairs = true});
  ASSERT_OK(rows);
  const auto written =
      Written(**rows, {{.tokens = {1, 2}, .targets = {3}, .label = 1},
                       {.tokens = {1, 2, 3, 4, 5, 6}, .targets = {7, 8}},
                       {.tokens = {1}, .targets = Count(7, 20)},
                       {.tokens = Count(9, 20), .targets = Count(9, 40)},
                       {.missing = true}});
  ASSERT_OK(written);
  EXPECT_THAT(written->at("targets"),
              ElementsAre(101, 1, 2, 102, 3, 102, 0, 0, 0,        //
                          101, 1, 2, 3, 4, 102, 7, 8, 102,        //
                          101, 1, 102, 20, 21, 22, 23, 24, 102,   //
                          101, 20, 21, 22, 102, 40, 41, 42, 102,  //
                          0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(written->at("token_types"),
              ElementsAre(0, 0, 0, 0, 1, 1, 0, 0, 0,  //
                          0, 0, 0, 0, 0, 0, 1, 1, 1,  //
                          0, 0, 0, 1, 1, 1, 1, 1, 1,  //
                          0, 0, 0, 0, 0, 1, 1, 1, 1,  //
                          0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(written->at("next_sentences"), ElementsAre(1, 0, 0, 0, 0));
  // Special tokens are never predicted.
  for (int i = 0; i < 5 * 9; ++i) {
    if (written->at("weights")[i] == 0) continue;
    EXPECT_GT(written->at("targets")[i], 0) << i;
    EXPECT_LT(written->at("targets")[i], 100) << i;
  }
  EXPECT_THAT(MaskedRows::Create({.length = {"length", 4},
                                  .vocabulary = 200,
                                  .special = kBert,
                                  .pairs = true}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a length of at least 5")));
}

TEST(PictureRows, PixelsAreNormalized) {
  const auto rows = PictureRows::Create({.height = {"height", 1},
                                         .width = {"width", 2},
                                         .channels = {"channels", 3},
                                         .mean = {0.5, 0, 0.25},
                                         .stddev = {0.5},
                                         .weights = true});
  ASSERT_OK(rows);
  const auto written = Written(
      **rows,
      {{.pixels = {0, 51, 255, 255, 0, 0}, .label = 3}, {.missing = true}});
  ASSERT_OK(written);
  const std::vector<double> expected = {-1, 0.4, 1.5, 1, 0, -0.5};
  for (int i = 0; i < 6; ++i) {
    EXPECT_FLOAT_EQ(written->at("pictures")[i], expected[i]);
    EXPECT_EQ(written->at("pictures")[6 + i], 0);
  }
  EXPECT_THAT(written->at("labels"), ElementsAre(3, 0));
  EXPECT_THAT(written->at("weights"), ElementsAre(1, 0));
  EXPECT_THAT(Written(**rows, {{.pixels = {1, 2}}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has 2 values, but a row has 6")));
  EXPECT_THAT(PictureRows::Create({.mean = {1, 2}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("3 channels have 2 means")));
  EXPECT_THAT(PictureRows::Create({.stddev = {0}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("deviation of pictures is 0")));
}

}  // namespace
}  // namespace mtf::train
