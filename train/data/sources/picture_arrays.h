// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_PICTURE_ARRAYS_H_
#define TRAIN_DATA_SOURCES_PICTURE_ARRAYS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/sources/decode_png.h"
#include "train/data/sources/record.h"

namespace mtf::train {

// Pictures of one size, stored one after the other in mapped files. Those of
// several channels have the order [height, width, channels] in a record.
class PictureArrays : public RecordSource {
 public:
  virtual PictureSize picture_size() const = 0;
};

// The binary files of CIFAR-10: records of a byte for the class, 0 to 9, and
// the red, green and blue planes of 32 x 32 bytes. kDataLoss for a file whose
// size is not a multiple of a record; a class above 9 is a bad record.
absl::StatusOr<std::shared_ptr<const PictureArrays>> OpenCifar10(
    const std::vector<std::string>& paths);

// The IDX files of MNIST and its successors: bytes of shape [pictures, height,
// width] or [pictures, height, width, channels], and the class of each. The
// header is two zero bytes, 8 for unsigned bytes, the number of dimensions, and
// their sizes, big endian. kDataLoss for a header that does not match its file,
// or if the files have different numbers of pictures; a class of at least
// `classes` is a bad record.
absl::StatusOr<std::shared_ptr<const PictureArrays>> OpenIdxPictures(
    const std::string& pictures, const std::string& labels, int64_t classes);

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_PICTURE_ARRAYS_H_
