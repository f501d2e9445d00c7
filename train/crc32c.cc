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

}  // namespace

uint32_t Crc32c(absl::string_view bytes, uint32_t crc) {
  crc = ~crc;
  const char* data = bytes.data();
  size_t size = bytes.size();
#ifdef __SSE4_2__
  // Eight bytes take one instruction, with a latency of three cycles.
  uint64_t wide = crc;
  for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, data, sizeof(word));
    wide = _mm_crc32_u64(wide, word);
    data += sizeof(word);
  }
  crc = static_cast<uint32_t>(wide);
#endif
  for (; size > 0; --size, ++data) {
    crc = (crc >> 8) ^ kCrc32cTable[(crc ^ static_cast<uint8_t>(*data)) & 0xff];
  }
  return ~crc;
}

}  // namespace mtf::train
