// SPDX-License-Identifier: Apache-2.0
#include "train/data/text_dataset.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "layouts/text_items.h"
#include "mtf/read_file.h"
#include "mtf/status.h"
#include "train/data/random_windows.h"

namespace mtf::train {
namespace {

// Every rank creates the global batch on its host.
constexpr int64_t kMaxBatchTokens = int64_t{1} << 28;
constexpr int64_t kMaxTextBytes = int64_t{1} << 40;

constexpr char kBibleCommand[] = "bible -f gen1:1-rev22:21 2>/dev/null";

// Removes the first word of every line: "Ge1:1 In the beginning ...".
std::string WithoutReferences(absl::string_view printed) {
  std::string text;
  text.reserve(printed.size());
  for (absl::string_view line : absl::StrSplit(printed, '\n')) {
    const size_t blank = line.find(' ');
    if (blank == absl::string_view::npos) continue;
    absl::StrAppend(&text, line.substr(blank + 1), "\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<TextDataset> TextDataset::FromText(std::string text,
                                                  std::string name) {
  if (text.size() < 2) {
    return absl::OutOfRangeError(absl::StrCat(
        "text ", Quoted(name), " is ",
        text.empty() ? "empty" : "1 byte long, but needs at least 2",
        DetailLine("help", "name a text of more bytes with --text")));
  }
  return TextDataset(std::move(text), std::move(name));
}

absl::StatusOr<TextDataset> TextDataset::ReadFile(const std::string& path) {
  absl::StatusOr<std::string> text = ReadPlainFile(path, "text", kMaxTextBytes);
  if (!text.ok()) {
    return absl::Status(
        text.status().code(),
        absl::StrCat(text.status().message(),
                     DetailLine("help", "name a readable file with --text")));
  }
  return FromText(*std::move(text), path);
}

absl::StatusOr<TextDataset> TextDataset::KingJames() {
  std::string printed;
  if (FILE* pipe = popen(kBibleCommand, "r"); pipe != nullptr) {
    std::array<char, 1 << 16> buffer;
    while (const size_t read = fread(buffer.data(), 1, buffer.size(), pipe)) {
      printed.append(buffer.data(), read);
    }
    if (pclose(pipe) != 0) printed.clear();
  }
  std::string text = WithoutReferences(printed);
  if (text.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "no text: the default is the output of the program \"bible\", which "
        "is not installed",
        DetailLine("help",
                   "name any text file with --text, or install the "
                   "Debian package bible-kjv")));
  }
  return FromText(std::move(text), "King James");
}

absl::StatusOr<TextDataset> TextDataset::Open(const std::string& path) {
  return path.empty() ? KingJames() : ReadFile(path);
}

absl::StatusOr<TextDataset::Batch> TextDataset::Draw(
    uint32_t seed, uint32_t step, const Dimension& batch,
    const Dimension& length) const {
  const int64_t window = length.size + 1;
  const int64_t bytes = static_cast<int64_t>(text_.size());
  if (bytes < window) {
    return absl::OutOfRangeError(absl::StrCat(
        "text ", Quoted(name_), " is ", Plural(bytes, "byte"),
        " long, but a window of ", "dimension \"", length.name, "\" needs ",
        window,
        DetailLine("help",
                   "name a longer text with --text, or use a smaller "
                   "length")));
  }
  if (batch.size > kMaxBatchTokens / length.size) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a batch of ", Plural(batch.size, "window"), " of ",
                     Plural(length.size, "byte"), " has more than ",
                     kMaxBatchTokens, " tokens"));
  }
  MTF_ASSIGN_OR_RETURN(auto drawn,
                       RandomWindows::Draw(*this, seed, step, 0, batch.size,
                                           batch.name, length));
  return Batch{std::move(drawn.first), std::move(drawn.second)};
}

absl::Status TextDataset::Read(int64_t begin,
                               absl::Span<int32_t> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<unsigned char>(text_[begin + i]);
  }
  return absl::OkStatus();
}

std::string TextDataset::name() const {
  return absl::StrCat("text ", Quoted(name_));
}

double TextDataset::BigramEntropy() const {
  std::vector<int64_t> pairs(kVocabularySize * kVocabularySize);
  std::vector<int64_t> firsts(kVocabularySize);
  for (size_t i = 0; i + 1 < text_.size(); ++i) {
    const int first = static_cast<unsigned char>(text_[i]);
    const int second = static_cast<unsigned char>(text_[i + 1]);
    ++pairs[first * kVocabularySize + second];
    ++firsts[first];
  }
  double nats = 0;
  for (int64_t i = 0; i < kVocabularySize * kVocabularySize; ++i) {
    if (pairs[i] == 0) continue;
    nats -= pairs[i] * std::log(static_cast<double>(pairs[i]) /
                                firsts[i / kVocabularySize]);
  }
  return nats / (text_.size() - 1);
}

}  // namespace mtf::train
