// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/synthetic_tokens.h"

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/philox.h"

namespace mtf::train {
namespace {

// Far from the streams of random numbers of a graph, which count from 0.
constexpr uint32_t kSyntheticStream = 0xda7a5e9;

}  // namespace

absl::StatusOr<std::shared_ptr<const SyntheticTokens>> SyntheticTokens::Create(
    int64_t size, int64_t vocabulary, uint32_t seed) {
  if (size < 2 || vocabulary < 1 || vocabulary > int64_t{1} << 31) {
    return absl::OutOfRangeError(absl::StrCat(
        "cannot generate ", size, " tokens from a vocabulary of ", vocabulary,
        DetailLine("help",
                   "give at least 2 tokens and a vocabulary of at most 2^31")));
  }
  return std::shared_ptr<const SyntheticTokens>(
      new SyntheticTokens(size, vocabulary, seed));
}

absl::Status SyntheticTokens::Read(int64_t begin,
                                   absl::Span<int32_t> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int64_t index = begin + static_cast<int64_t>(i);
    const double u = UniformFromWord(
        PhiloxAt(seed_, kSyntheticStream, 0, index / 2).word[0]);
    const auto token =
        static_cast<int64_t>(u * u * u * static_cast<double>(vocabulary_));
    tokens[i] =
        static_cast<int32_t>(index % 2 == 0 ? token : vocabulary_ - 1 - token);
  }
  return absl::OkStatus();
}

}  // namespace mtf::train
