// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_TOKEN_STREAM_H_
#define TRAIN_DATA_SOURCES_TOKEN_STREAM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace mtf::train {

// A long sequence of tokens, of which windows are read. Thread-safe.
class TokenStream {
 public:
  virtual ~TokenStream() = default;

  virtual int64_t size() const = 0;

  // Copies tokens [begin, begin + tokens.size()), which must be within the
  // stream, to `tokens`. kDataLoss, with the file and the index of the token,
  // if one is outside of the vocabulary.
  virtual absl::Status Read(int64_t begin,
                            absl::Span<int32_t> tokens) const = 0;

  // What errors call the stream: file "train.bin".
  virtual std::string name() const = 0;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_TOKEN_STREAM_H_
