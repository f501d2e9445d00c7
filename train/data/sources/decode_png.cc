// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/decode_png.h"

#include <png.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace mtf::train {

absl::StatusOr<std::vector<uint8_t>> DecodePng(absl::string_view png,
                                               const PictureSize& size) {
  png_image image;
  std::memset(&image, 0, sizeof(image));
  image.version = PNG_IMAGE_VERSION;
  // Reads up to the pixels.
  if (png_image_begin_read_from_memory(&image, png.data(), png.size()) == 0) {
    return absl::DataLossError(absl::StrCat("not a PNG file: ", image.message));
  }
  if (image.height != size.height || image.width != size.width) {
    const absl::Status status = absl::DataLossError(absl::StrCat(
        "the picture has ", image.height, " rows of ", image.width,
        " pixels, but the data set has ", size.height, " of ", size.width));
    png_image_free(&image);
    return status;
  }
  image.format = size.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::vector<uint8_t> pixels(size.height * size.width * size.channels);
  const png_color black = {0, 0, 0};
  // Also frees what `image` holds. Warnings, such as of a colour profile, are
  // no errors: wrong checksums of pixels are.
  if (png_image_finish_read(&image, &black, pixels.data(),
                            /*row_stride=*/0, /*colormap=*/nullptr) == 0) {
    return absl::DataLossError(
        absl::StrCat("the PNG file is damaged: ", image.message));
  }
  return pixels;
}

}  // namespace mtf::train
