// SPDX-License-Identifier: Apache-2.0
#include "train/data/rows/masked_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "train/data/rows/data_random.h"

namespace mtf::train {
namespace {

// Far from the streams of random numbers of a graph, which count from 0.
constexpr uint32_t kMaskStream = 0xda7a5ec;

// `count` different numbers below `size`, every set of them equally likely.
std::vector<int64_t> Choose(int64_t count, int64_t size, DataRandom& random) {
  std::vector<int64_t> numbers(size);
  std::iota(numbers.begin(), numbers.end(), 0);
  for (int64_t i = 0; i < count; ++i) {
    std::swap(numbers[i],
              numbers[i + random.Below(static_cast<uint32_t>(size - i))]);
  }
  numbers.resize(count);
  return numbers;
}

// A text in a row.
struct TextInRow {
  std::vector<int64_t> tokens;  // where they are
  int64_t second = 0;           // where the second sentence begins
  int64_t end = 0;
};

// Writes a record with its special tokens.
TextInRow WriteText(const Record& record, const MaskingOptions& options,
                    absl::Span<int32_t> row) {
  const SpecialTokens& special = options.special;
  const bool begins = special.bos != SpecialTokens::kNone,
             ends = special.eos != SpecialTokens::kNone;
  const int64_t around =
      (begins ? 1 : 0) + (ends ? (options.pairs ? 2 : 1) : 0);
  const int64_t room = options.length.size - around;
  auto of_first = static_cast<int64_t>(record.tokens.size());
  auto of_second =
      options.pairs ? static_cast<int64_t>(record.targets.size()) : 0;
  // Of two sentences that do not fit, the longer one is cut until they are of
  // one length, and then both are.
  of_first = std::min(of_first, std::max(room - of_second, (room + 1) / 2));
  of_second = std::min(of_second, room - of_first);

  TextInRow text;
  int64_t at = 0;
  const auto write = [&](const std::vector<int32_t>& tokens, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      text.tokens.push_back(at);
      row[at++] = tokens[i];
    }
    if (ends) row[at++] = special.eos;
  };
  if (begins) row[at++] = special.bos;
  write(record.tokens, of_first);
  text.second = at;
  if (options.pairs) write(record.targets, of_second);
  text.end = at;
  return text;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const MaskedRows>> MaskedRows::Create(
    MaskingOptions options) {
  const SpecialTokens& special = options.special;
  if (special.mask == SpecialTokens::kNone) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a masked language model needs a mask token",
        DetailLine("help",
                   "set .special.mask, or take a tokenizer that has "
                   "one")));
  }
  for (const int32_t token :
       {special.mask, special.bos, special.eos, special.pad}) {
    if (token < SpecialTokens::kNone || token >= options.vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the special token ", token, " is not in the vocabulary of ",
          options.vocabulary, " tokens",
          DetailLine("help", "give the vocabulary of the tokenizer")));
    }
  }
  const bool valid_rate = options.rate > 0 && options.rate < 1;
  const int64_t least = options.pairs ? 5 : 3;
  if (!valid_rate || options.length.size < least) {
    return absl::InvalidArgumentError(absl::StrCat(
        "masking with the rate ", options.rate, " in rows of length ",
        options.length.size,
        DetailLine("help",
                   absl::StrCat("give a rate between 0 and 1 and a length of "
                                "at least ",
                                least))));
  }
  return std::shared_ptr<const MaskedRows>(new MaskedRows(std::move(options)));
}

std::vector<RowInfo> MaskedRows::rows() const {
  const Shape shape = {options_.length};
  std::vector<RowInfo> rows = {
      {"tokens", shape}, {"targets", shape}, {"weights", shape, kFloat32}};
  if (options_.pairs) {
    rows.push_back({"token_types", shape});
    rows.push_back({"next_sentences", {}});
  }
  return rows;
}

absl::Status MaskedRows::Write(const Record& record, int64_t position,
                               int64_t row,
                               absl::Span<HostTensor> feeds) const {
  const SpecialTokens& special = options_.special;
  const auto tokens = RowOf<int32_t>(feeds[0], row);
  const auto targets = RowOf<int32_t>(feeds[1], row);
  const auto weights = RowOf<float>(feeds[2], row);
  std::fill(targets.begin(), targets.end(), std::max(special.pad, 0));
  TextInRow written;
  if (!record.missing) {
    written = WriteText(record, options_, targets);
    if (options_.pairs) {
      const auto types = RowOf<int32_t>(feeds[3], row);
      std::fill(types.begin() + written.second, types.begin() + written.end, 1);
      RowOf<int32_t>(feeds[4], row)[0] = record.label;
    }
  }
  const std::vector<int64_t>& text = written.tokens;
  std::copy(targets.begin(), targets.end(), tokens.begin());
  if (text.empty()) return absl::OkStatus();

  DataRandom random(options_.seed, kMaskStream, position);
  const auto count = static_cast<int64_t>(text.size());
  const auto predicted = std::max<int64_t>(
      1, static_cast<int64_t>(
             std::nearbyint(static_cast<double>(count) * options_.rate)));
  for (const int64_t i : Choose(predicted, count, random)) {
    weights[text[i]] = 1;
    const uint32_t draw = random.Below(10);
    if (draw < 8) {
      tokens[text[i]] = special.mask;
    } else if (draw == 8) {
      tokens[text[i]] = static_cast<int32_t>(
          random.Below(static_cast<uint32_t>(options_.vocabulary)));
    }
  }
  return absl::OkStatus();
}

}  // namespace mtf::train
