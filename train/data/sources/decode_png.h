// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_DECODE_PNG_H_
#define TRAIN_DATA_SOURCES_DECODE_PNG_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtf::train {

struct PictureSize {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;  // 3: red, green and blue; 1: gray
};

// The pixels of the PNG file `png`, [height, width, channels]. Checks the size
// before it allocates. kDataLoss, without a name, if the file is damaged or has
// another size.
absl::StatusOr<std::vector<uint8_t>> DecodePng(absl::string_view png,
                                               const PictureSize& size);

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_DECODE_PNG_H_
