// SPDX-License-Identifier: Apache-2.0
#include "train/data/random_windows.h"

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/philox.h"
#include "mtf/status.h"
#include "train/data/sources/token_windows.h"

namespace mtf::train {
namespace {

// Far from the streams of random numbers of a graph, which count from 0.
constexpr uint32_t kRandomWindowStream = 0xda7a5e7;

// The first token of the window of a row, if there are `windows` of them.
int64_t WindowBegin(uint32_t seed, int64_t step, int64_t row, int64_t windows) {
  const PhiloxWords words =
      PhiloxAt(seed, kRandomWindowStream, static_cast<uint32_t>(step), row);
  const uint64_t number =
      static_cast<uint64_t>(words.word[0]) << 32 | words.word[1];
  return static_cast<int64_t>(number % windows);
}

}  // namespace

RandomWindows::RandomWindows(std::shared_ptr<const TokenStream> stream,
                             Dimension batch, Dimension length, uint32_t seed)
    : stream_(std::move(stream)),
      batch_(std::move(batch)),
      length_(std::move(length)),
      seed_(seed) {}

absl::StatusOr<std::shared_ptr<const RandomWindows>> RandomWindows::Create(
    std::shared_ptr<const TokenStream> stream, Dimension batch,
    Dimension length, uint32_t seed) {
  MTF_RETURN_IF_ERROR(CheckWindow(*stream, length.size));
  MTF_RETURN_IF_ERROR((Shape{batch, length}.Validate()));
  return std::shared_ptr<const RandomWindows>(new RandomWindows(
      std::move(stream), std::move(batch), std::move(length), seed));
}

absl::StatusOr<std::pair<HostTensor, HostTensor>> RandomWindows::Draw(
    const TokenStream& stream, uint32_t seed, int64_t step, int64_t first,
    int64_t last, const std::string& batch, const Dimension& length) {
  const Shape shape = {{batch, last - first}, length};
  std::pair<HostTensor, HostTensor> drawn = {HostTensor(shape, kInt32),
                                             HostTensor(shape, kInt32)};
  MTF_ASSIGN_OR_RETURN(const auto tokens,
                       drawn.first.mutable_values<int32_t>());
  MTF_ASSIGN_OR_RETURN(const auto targets,
                       drawn.second.mutable_values<int32_t>());
  std::vector<int32_t> window(length.size + 1);
  for (int64_t row = first; row < last; ++row) {
    const int64_t begin =
        WindowBegin(seed, step, row, stream.size() - length.size);
    MTF_RETURN_IF_ERROR(stream.Read(begin, absl::MakeSpan(window)));
    const int64_t at = (row - first) * length.size;
    std::copy(window.begin(), window.end() - 1, tokens.begin() + at);
    std::copy(window.begin() + 1, window.end(), targets.begin() + at);
  }
  return drawn;
}

std::vector<FeedInfo> RandomWindows::feeds() const {
  const Shape shape = {batch_, length_};
  return {{"tokens", shape}, {"targets", shape}};
}

absl::StatusOr<std::map<std::string, HostTensor>> RandomWindows::Rows(
    int64_t step, int64_t first, int64_t last) const {
  MTF_RETURN_IF_ERROR(CheckRows(first, last));
  MTF_ASSIGN_OR_RETURN(auto drawn, Draw(*stream_, seed_, step, first, last,
                                        batch_.name, length_));
  return std::map<std::string, HostTensor>{
      {"tokens", std::move(drawn.first)}, {"targets", std::move(drawn.second)}};
}

}  // namespace mtf::train
