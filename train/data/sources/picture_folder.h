// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_PICTURE_FOLDER_H_
#define TRAIN_DATA_SOURCES_PICTURE_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/sources/decode_png.h"
#include "train/data/sources/record.h"

namespace mtf::train {

// A folder with one folder of PNG files for each class:
//
//   pictures/cat/0001.png
//   pictures/dog/0001.png
//
// Classes are numbered in the order of their names, and records are in the
// order of classes and file names. Files of another name than *.png and names
// that begin with a dot are left out.
class PictureFolder final : public RecordSource {
 public:
  // kNotFound if the folder cannot be read or has no classes or pictures;
  // kInvalidArgument for a size that no picture has.
  static absl::StatusOr<std::shared_ptr<const PictureFolder>> Open(
      const std::string& folder, PictureSize size);

  const std::vector<std::string>& classes() const { return classes_; }

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  // Bad records: files that are not PNG, are damaged, or have another height or
  // width. 16-bit, gray, palette and transparent pictures are converted to 8
  // bits and the channels of PictureSize, on black.
  absl::StatusOr<Record> Read(int64_t index) const override;
  std::string NameOf(int64_t index) const override;

 private:
  struct PictureFile {
    int32_t label = 0;
    std::string name;
  };
  PictureFolder(std::string folder, PictureSize size)
      : folder_(std::move(folder)), size_(size) {}

  const std::string folder_;
  const PictureSize size_;
  std::vector<std::string> classes_;
  std::vector<PictureFile> files_;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_PICTURE_FOLDER_H_
