// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_TOKEN_ARRAY_H_
#define TRAIN_DATA_SOURCES_TOKEN_ARRAY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "train/data/sources/mapped_file.h"

namespace mtf::train {

// How a token is stored in a file, little endian.
enum class TokenType : uint8_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kInt32,
  kUint32,
  kInt64
};

int TokenBytes(TokenType type);

// An unsigned or signed integer of any alignment.
int64_t LoadToken(const char* bytes, TokenType type);

// The tokens of a mapped file from a byte on.
struct TokenArray {
  std::shared_ptr<const MappedFile> file;
  int64_t first_byte = 0;
  int64_t size = 0;  // in tokens; they are within the file
  TokenType type = TokenType::kUint16;

  // Copies tokens [begin, begin + tokens.size()). kDataLoss if one is negative
  // or at least `vocabulary`.
  absl::Status Read(int64_t begin, int64_t vocabulary,
                    absl::Span<int32_t> tokens) const;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_TOKEN_ARRAY_H_
