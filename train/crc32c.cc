// SPDX-License-Identifier: Apache-2.0
#include "train/crc32c.h"

#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

#include <array>
#include <cstring>

namespace mtf::train {
namespace {

// By byte: its checksum, in the reflected polynomial.
constexpr std::array<uint32_t, 256> Crc32cTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
    }
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrc32cTable = Crc32cTable();

#ifdef __SSE4_2__
// The instruction has a latency of three cycles and starts in every cycle, so
// three streams take the time of one. Each has this many bytes.
constexpr size_t kStreamBytes = 4096;

// What kStreamBytes zero bytes after a text do to its checksum, which is linear
// over GF(2): the exclusive or of one entry for each byte of the checksum.
using ShiftTable = std::array<std::array<uint32_t, 256>, 4>;
constexpr ShiftTable MakeShiftTable() {
  // The images of the 32 bits under one zero bit, then under 2, 4, 8, ... bits.
  std::array<uint32_t, 32> images = {};
  const auto apply = [&images](uint32_t crc) {
    uint32_t image = 0;
    for (int bit = 0; crc != 0; ++bit, crc >>= 1) {
      if ((crc & 1) != 0) image ^= images[bit];
    }
    return image;
  };
  images[0] = 0x82f63b78u;
  for (int bit = 1; bit < 32; ++bit) images[bit] = uint32_t{1} << (bit - 1);
  for (size_t bits = 1; bits < 8 * kStreamBytes; bits *= 2) {
    std::array<uint32_t, 32> twice = {};
    for (int bit = 0; bit < 32; ++bit) twice[bit] = apply(images[bit]);
    images = twice;
  }
  ShiftTable table = {};
  for (int byte = 0; byte < 4; ++byte) {
    for (uint32_t value = 0; value < 256; ++value) {
      table[byte][value] = apply(value << (8 * byte));
    }
  }
  return table;
}
constexpr ShiftTable kShift = MakeShiftTable();

uint32_t Shift(uint32_t crc) {
  return kShift[0][crc & 0xff] ^ kShift[1][crc >> 8 & 0xff] ^
         kShift[2][crc >> 16 & 0xff] ^ kShift[3][crc >> 24];
}

uint64_t AddWord(uint64_t crc, const char* data) {
  uint64_t word;
  std::memcpy(&word, data, sizeof(word));
  return _mm_crc32_u64(crc, word);
}

// The checksum, before the final inversion, of three streams one after the
// other.
uint32_t AddThreeStreams(uint32_t crc, const char* data) {
  uint64_t first = crc, second = 0, third = 0;
  for (size_t i = 0; i < kStreamBytes; i += sizeof(uint64_t)) {
    first = AddWord(first, data + i);
    second = AddWord(second, data + kStreamBytes + i);
    third = AddWord(third, data + 2 * kStreamBytes + i);
  }
  const uint32_t two =
      Shift(static_cast<uint32_t>(first)) ^ static_cast<uint32_t>(second);
  return Shift(two) ^ static_cast<uint32_t>(third);
}
#endif

}  // namespace

uint32_t Crc32c(absl::string_view bytes, uint32_t crc) {
  crc = ~crc;
  const char* data = bytes.data();
  size_t size = bytes.size();
#ifdef __SSE4_2__
  for (; size >= 3 * kStreamBytes; size -= 3 * kStreamBytes) {
    crc = AddThreeStreams(crc, data);
    data += 3 * kStreamBytes;
  }
  uint64_t wide = crc;
  for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t)) {
    wide = AddWord(wide, data);
    data += sizeof(uint64_t);
  }
  crc = static_cast<uint32_t>(wide);
#endif
  for (; size > 0; --size, ++data) {
    crc = (crc >> 8) ^ kCrc32cTable[(crc ^ static_cast<uint8_t>(*data)) & 0xff];
  }
  return ~crc;
}

}  // namespace mtf::train
