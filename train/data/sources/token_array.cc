// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/token_array.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"

namespace mtf::train {
namespace {

template <class T>
int64_t LoadAs(const char* bytes) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return static_cast<int64_t>(value);
}

}  // namespace

int TokenBytes(TokenType type) {
  switch (type) {
    case TokenType::kUint8:
    case TokenType::kInt8:
      return 1;
    case TokenType::kUint16:
    case TokenType::kInt16:
      return 2;
    case TokenType::kInt32:
    case TokenType::kUint32:
      return 4;
    case TokenType::kInt64:
      return 8;
  }
  return 0;
}

int64_t LoadToken(const char* bytes, TokenType type) {
  switch (type) {
    case TokenType::kUint8:
      return LoadAs<uint8_t>(bytes);
    case TokenType::kInt8:
      return LoadAs<int8_t>(bytes);
    case TokenType::kUint16:
      return LoadAs<uint16_t>(bytes);
    case TokenType::kInt16:
      return LoadAs<int16_t>(bytes);
    case TokenType::kInt32:
      return LoadAs<int32_t>(bytes);
    case TokenType::kUint32:
      return LoadAs<uint32_t>(bytes);
    case TokenType::kInt64:
      return LoadAs<int64_t>(bytes);
  }
  return 0;
}

absl::Status TokenArray::Read(int64_t begin, int64_t vocabulary,
                              absl::Span<int32_t> tokens) const {
  const int bytes = TokenBytes(type);
  const char* at = file->bytes().data() + first_byte + begin * bytes;
  for (int32_t& token : tokens) {
    const int64_t value = LoadToken(at, type);
    if (value < 0 || value >= vocabulary) {
      return absl::DataLossError(absl::StrCat(
          "token ", begin + (&token - tokens.data()), " of file ",
          Quoted(file->path()), " is ", value, ", but the vocabulary has ",
          vocabulary, " tokens",
          DetailLine("help", absl::StrCat("a token is a number of ", 8 * bytes,
                                          " bits, little endian"))));
    }
    token = static_cast<int32_t>(value);
    at += bytes;
  }
  return absl::OkStatus();
}

}  // namespace mtf::train
