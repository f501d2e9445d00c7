// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_CRC32C_H_
#define TRAIN_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace mtf::train {

// The CRC-32C checksum (Castagnoli polynomial, RFC 3720) of `bytes`. `crc` is
// the checksum of the bytes before them, so that a long text may be summed in
// pieces:
//
//   Crc32c("123456789") == Crc32c("6789", Crc32c("12345")) == 0xe3069283
uint32_t Crc32c(absl::string_view bytes, uint32_t crc = 0);

// The checksum as TFRecord files store it: rotated and shifted by a constant,
// so that the checksum of bytes that contain a checksum is not degenerate.
inline uint32_t MaskedCrc32c(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace mtf::train

#endif  // TRAIN_CRC32C_H_
