// SPDX-License-Identifier: Apache-2.0
#include "train/data/token_dataset.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/philox.h"
#include "mtf/read_file.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

// Far from the streams of random numbers of a graph, which count from 0.
constexpr uint32_t kWindowStream = 0xda7a5e8;
constexpr uint32_t kTokenStream = 0xda7a5e9;
constexpr int64_t kMaxBytes = int64_t{1} << 40;

// The header of llm.c: 256 numbers of 32 bits, the first of which is 20240520.
constexpr absl::string_view kMagic("\x88\xd8\x34\x01", 4);
constexpr size_t kHeaderBytes = 1024;

}  // namespace

absl::StatusOr<TokenDataset> TokenDataset::ReadFile(const std::string& path,
                                                    int64_t vocabulary) {
  MTF_ASSIGN_OR_RETURN(std::string bytes,
                       ReadPlainFile(path, "tokens", kMaxBytes));
  return FromBytes(std::move(bytes), path, vocabulary);
}

absl::StatusOr<TokenDataset> TokenDataset::FromBytes(std::string bytes,
                                                     std::string name,
                                                     int64_t vocabulary) {
  if (bytes.size() >= kHeaderBytes && absl::StartsWith(bytes, kMagic)) {
    bytes.erase(0, kHeaderBytes);
  }
  TokenDataset text(std::move(bytes), std::move(name));
  if (text.size() < 2) {
    return absl::OutOfRangeError(absl::StrCat(
        "file ", Quoted(text.name_), " has ", text.size(),
        text.size() == 1 ? " token" : " tokens", ", but needs at least 2",
        DetailLine("help", "a token is a number of 16 bits")));
  }
  for (int64_t i = 0; i < text.size(); ++i) {
    if (text.At(i) < vocabulary) continue;
    return absl::OutOfRangeError(absl::StrCat(
        "token ", i, " of file ", Quoted(text.name_), " is ", text.At(i),
        ", but the vocabulary has ", vocabulary, " tokens",
        DetailLine("help", "a token is a number of 16 bits, little endian")));
  }
  return text;
}

absl::StatusOr<TokenDataset> TokenDataset::Synthetic(int64_t size,
                                                     int64_t vocabulary,
                                                     uint32_t seed) {
  if (size < 2 || vocabulary < 1 || vocabulary > 1 << 16) {
    return absl::OutOfRangeError(absl::StrCat(
        "cannot generate ", size, " tokens of 16 bits from a vocabulary of ",
        vocabulary,
        DetailLine(
            "help",
            "give at least 2 tokens and a vocabulary of at most 65536")));
  }
  std::string bytes;
  bytes.reserve(2 * size);
  for (int64_t i = 0; i < size; ++i) {
    const double u =
        UniformFromWord(PhiloxAt(seed, kTokenStream, 0, i / 2).word[0]);
    auto token =
        static_cast<int64_t>(u * u * u * static_cast<double>(vocabulary));
    if (i % 2 == 1) token = vocabulary - 1 - token;
    bytes.push_back(static_cast<char>(token & 255));
    bytes.push_back(static_cast<char>(token >> 8));
  }
  return TokenDataset(std::move(bytes), "synthetic");
}

absl::StatusOr<TextDataset::Batch> TokenDataset::Draw(
    uint32_t seed, uint32_t step, const Dimension& batch,
    const Dimension& length) const {
  if (size() <= length.size) {
    return absl::OutOfRangeError(absl::StrCat(
        "file ", Quoted(name_), " has ", size(), " tokens, but a window of ",
        "dimension \"", length.name, "\" needs ", length.size + 1,
        DetailLine("help", "name a longer file, or use a smaller length")));
  }
  const uint64_t windows = size() - length.size;
  std::vector<int32_t> tokens, targets;
  tokens.reserve(batch.size * length.size);
  targets.reserve(batch.size * length.size);
  for (int64_t row = 0; row < batch.size; ++row) {
    const PhiloxWords words = PhiloxAt(seed, kWindowStream, step, row);
    const uint64_t number =
        static_cast<uint64_t>(words.word[0]) << 32 | words.word[1];
    const auto begin = static_cast<int64_t>(number % windows);
    for (int64_t i = begin; i < begin + length.size; ++i) {
      tokens.push_back(At(i));
      targets.push_back(At(i + 1));
    }
  }
  return TextDataset::Batch{HostTensor::Of<int32_t>({batch, length}, tokens),
                            HostTensor::Of<int32_t>({batch, length}, targets)};
}

}  // namespace mtf::train
