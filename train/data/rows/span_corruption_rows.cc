// SPDX-License-Identifier: Apache-2.0
#include "train/data/rows/span_corruption_rows.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "train/data/rows/data_random.h"

namespace mtf::train {
namespace {

// Far from the streams of random numbers of a graph, which count from 0.
constexpr uint32_t kSpanStream = 0xda7a5eb;

// The lengths, at least 1, of `parts` parts of `items` items; every division is
// equally likely: which of the items - 1 borders are taken is drawn.
std::vector<int64_t> RandomLengths(int64_t items, int64_t parts,
                                   DataRandom& random) {
  std::vector<int64_t> lengths;
  int64_t length = 1, borders = parts - 1;
  for (int64_t left = items - 1; left > 0; --left) {
    // Of `left` borders, `borders` are still to be taken.
    if (random.Below(static_cast<uint32_t>(left)) < borders) {
      lengths.push_back(length);
      length = 0;
      --borders;
    }
    ++length;
  }
  lengths.push_back(length);
  return lengths;
}

struct RowLengths {
  int64_t inputs = 0, targets = 0;
};

RowLengths LengthsOf(int64_t tokens, const SpanCorruptionOptions& options) {
  const SpanCounts counts = CountSpans(tokens, options);
  const int64_t eos = options.eos != SpecialTokens::kNone ? 1 : 0;
  return {tokens - counts.noise + counts.spans + eos,
          counts.noise + counts.spans + eos};
}

}  // namespace

SpanCounts CountSpans(int64_t tokens, const SpanCorruptionOptions& options) {
  // Rounds to even, as T5 does.
  const auto rounded = [](double value) {
    return static_cast<int64_t>(std::nearbyint(value));
  };
  const int64_t noise = std::clamp<int64_t>(
      rounded(static_cast<double>(tokens) * options.noise_density), 1,
      tokens - 1);
  // Each span has a stretch before it.
  const int64_t spans = std::clamp<int64_t>(
      rounded(static_cast<double>(noise) / options.mean_span_length), 1,
      std::min(noise, tokens - noise));
  return {noise, spans};
}

Record CorruptSpans(absl::Span<const int32_t> tokens,
                    const SpanCorruptionOptions& options, int64_t position) {
  Record corrupted;
  if (tokens.size() < 2) {
    corrupted.tokens.assign(tokens.begin(), tokens.end());
    return corrupted;
  }
  const SpanCounts counts =
      CountSpans(static_cast<int64_t>(tokens.size()), options);
  DataRandom random(options.seed, kSpanStream, position);
  const std::vector<int64_t> noise =
      RandomLengths(counts.noise, counts.spans, random);
  const std::vector<int64_t> kept = RandomLengths(
      static_cast<int64_t>(tokens.size()) - counts.noise, counts.spans, random);
  auto next = tokens.begin();
  for (int64_t i = 0; i < counts.spans; ++i) {
    const int32_t sentinel = options.first_sentinel - static_cast<int32_t>(i);
    corrupted.tokens.insert(corrupted.tokens.end(), next, next + kept[i]);
    corrupted.tokens.push_back(sentinel);
    next += kept[i];
    corrupted.targets.push_back(sentinel);
    corrupted.targets.insert(corrupted.targets.end(), next, next + noise[i]);
    next += noise[i];
  }
  if (options.eos != SpecialTokens::kNone) {
    corrupted.tokens.push_back(options.eos);
    corrupted.targets.push_back(options.eos);
  }
  return corrupted;
}

absl::StatusOr<std::shared_ptr<const SpanCorruptionRows>>
SpanCorruptionRows::Create(PairOptions pair, SpanCorruptionOptions options) {
  const auto invalid = [](absl::string_view reason, absl::string_view help) {
    return absl::InvalidArgumentError(
        absl::StrCat("span corruption ", reason, DetailLine("help", help)));
  };
  if (!(options.noise_density > 0 && options.noise_density < 1) ||
      !(options.mean_span_length >= 1)) {
    return invalid(
        absl::StrCat("with the density ", options.noise_density,
                     " and spans of ", options.mean_span_length, " tokens"),
        "give a density between 0 and 1, and spans of at least 1");
  }
  const auto fits = [&](int64_t tokens) {
    const RowLengths lengths = LengthsOf(tokens, options);
    return lengths.inputs <= pair.inputs_length.size &&
           lengths.targets <= pair.targets_length.size;
  };
  if (!fits(2)) {
    return invalid(
        absl::StrCat("into rows of ", pair.inputs_length.size, " inputs and ",
                     pair.targets_length.size, " targets"),
        "give both lengths room for a token, a sentinel and the end");
  }
  int64_t most = 2;
  while (most < pair.inputs_length.size + pair.targets_length.size &&
         fits(most + 1)) {
    ++most;
  }
  const int64_t spans = CountSpans(most, options).spans;
  if (spans > options.sentinels ||
      options.first_sentinel < options.sentinels - 1) {
    return invalid(
        absl::StrCat("of ", most, " tokens has ", spans,
                     " spans, but there are ", options.sentinels,
                     " sentinels from ", options.first_sentinel, " down"),
        "give the ids of more sentinels, or use shorter rows");
  }
  return std::shared_ptr<const SpanCorruptionRows>(
      new SpanCorruptionRows(std::move(pair), options, most));
}

absl::Status SpanCorruptionRows::Write(const Record& record, int64_t position,
                                       int64_t row,
                                       absl::Span<HostTensor> feeds) const {
  if (record.missing) return pair_.Write(record, position, row, feeds);
  const auto tokens = absl::MakeConstSpan(record.tokens)
                          .subspan(0, static_cast<size_t>(most_tokens_));
  return pair_.Write(CorruptSpans(tokens, options_, position), position, row,
                     feeds);
}

}  // namespace mtf::train
