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
  if (!valid_rate || options.length.size < 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "masking with the rate ", options.rate, " in rows of length ",
        options.length.size,
        DetailLine("help",
                   "give a rate between 0 and 1 and a length of at "
                   "least 3")));
  }
  return std::shared_ptr<const MaskedRows>(new MaskedRows(std::move(options)));
}

std::vector<RowInfo> MaskedRows::rows() const {
  const Shape shape = {options_.length};
  return {{"tokens", shape}, {"targets", shape}, {"weights", shape, kFloat32}};
}

absl::Status MaskedRows::Write(const Record& record, int64_t position,
                               int64_t row,
                               absl::Span<HostTensor> feeds) const {
  const SpecialTokens& special = options_.special;
  const auto tokens = RowOf<int32_t>(feeds[0], row);
  const auto targets = RowOf<int32_t>(feeds[1], row);
  const auto weights = RowOf<float>(feeds[2], row);
  std::fill(targets.begin(), targets.end(), std::max(special.pad, 0));
  const int64_t begin = special.bos != SpecialTokens::kNone ? 1 : 0;
  const int64_t around = begin + (special.eos != SpecialTokens::kNone ? 1 : 0);
  const int64_t count = std::min(static_cast<int64_t>(record.tokens.size()),
                                 options_.length.size - around);
  if (!record.missing) {
    if (begin == 1) targets[0] = special.bos;
    std::copy_n(record.tokens.begin(), count, targets.begin() + begin);
    if (around > begin) targets[begin + count] = special.eos;
  }
  std::copy(targets.begin(), targets.end(), tokens.begin());
  if (record.missing || count == 0) return absl::OkStatus();

  DataRandom random(options_.seed, kMaskStream, position);
  const auto predicted = std::max<int64_t>(
      1, static_cast<int64_t>(
             std::nearbyint(static_cast<double>(count) * options_.rate)));
  for (const int64_t i : Choose(predicted, count, random)) {
    weights[begin + i] = 1;
    const uint32_t draw = random.Below(10);
    if (draw < 8) {
      tokens[begin + i] = special.mask;
    } else if (draw == 8) {
      tokens[begin + i] = static_cast<int32_t>(
          random.Below(static_cast<uint32_t>(options_.vocabulary)));
    }
  }
  return absl::OkStatus();
}

}  // namespace mtf::train
