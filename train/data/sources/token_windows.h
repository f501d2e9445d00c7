// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_TOKEN_WINDOWS_H_
#define TRAIN_DATA_SOURCES_TOKEN_WINDOWS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "train/data/sources/record.h"
#include "train/data/sources/token_stream.h"

namespace mtf::train {

// The windows of a stream, one after the other, as records: window i has the
// length + 1 tokens from i * length on, so each token but the first of the
// stream is the target of one window. Tokens after the last whole window are
// not read.
class TokenWindows final : public RecordSource {
 public:
  // kOutOfRange if the stream is shorter than a window.
  static absl::StatusOr<std::shared_ptr<const TokenWindows>> Create(
      std::shared_ptr<const TokenStream> stream, int64_t length);

  int64_t size() const override { return (stream_->size() - 1) / length_; }
  absl::StatusOr<Record> Read(int64_t index) const override;
  std::string NameOf(int64_t index) const override;

 private:
  TokenWindows(std::shared_ptr<const TokenStream> stream, int64_t length)
      : stream_(std::move(stream)), length_(length) {}

  const std::shared_ptr<const TokenStream> stream_;
  const int64_t length_;
};

// The error of a stream that is shorter than a window of `length` + 1 tokens,
// or OK.
absl::Status CheckWindow(const TokenStream& stream, int64_t length);

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_TOKEN_WINDOWS_H_
