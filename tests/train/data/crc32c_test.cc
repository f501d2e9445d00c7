// SPDX-License-Identifier: Apache-2.0
#include "train/crc32c.h"

#include <string>

#include "gtest/gtest.h"

namespace mtf::train {
namespace {

// The test vectors of RFC 3720, B.4.
TEST(Crc32c, AgreesWithTheVectorsOfTheStandard) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) {
    rising += static_cast<char>(i);
    falling += static_cast<char>(31 - i);
  }
  EXPECT_EQ(Crc32c(rising), 0x46dd794eu);
  EXPECT_EQ(Crc32c(falling), 0x113fdb5cu);
}

// The definition, one bit at a time.
uint32_t Crc32cByBits(const std::string& bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
    }
  }
  return ~crc;
}

TEST(Crc32c, IsTheSameInPiecesOfAnyLengthAtAnyOffset) {
  std::string bytes;
  for (int i = 0; i < 67; ++i) bytes += static_cast<char>(i * i + 13 * i);
  for (size_t begin = 0; begin < 9; ++begin) {
    const absl::string_view text = absl::string_view(bytes).substr(begin);
    const uint32_t whole = Crc32cByBits(std::string(text));
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      EXPECT_EQ(Crc32c(text.substr(cut), Crc32c(text.substr(0, cut))), whole);
    }
  }
}

// Long texts are summed in several streams at once.
TEST(Crc32c, IsTheSameForLongTexts) {
  std::string bytes;
  for (uint32_t i = 0; i < 40000; ++i) {
    bytes += static_cast<char>(i * 2654435761u >> 24);
  }
  for (const size_t size : {4096, 12287, 12288, 12289, 12296, 24576, 39999}) {
    for (const size_t begin : {0, 1}) {
      const std::string text = bytes.substr(begin, size);
      const uint32_t whole = Crc32cByBits(text);
      EXPECT_EQ(Crc32c(text), whole) << size;
      for (const size_t cut : {1, 12288, 12300}) {
        if (cut > size) continue;
        EXPECT_EQ(Crc32c(text.substr(cut), Crc32c(text.substr(0, cut))), whole);
      }
    }
  }
}

TEST(Crc32c, IsMaskedAsInRecordFiles) {
  // The frame of a length of 24 in a file that TensorFlow wrote.
  EXPECT_EQ(MaskedCrc32c(std::string("\x18\0\0\0\0\0\0\0", 8)), 0x224b7fa3u);
}

}  // namespace
}  // namespace mtf::train
