// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/picture_arrays.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/data/sources/mapped_file.h"

namespace mtf::train {
namespace {

constexpr int64_t kCifarSide = 32, kCifarClasses = 10;
constexpr int64_t kCifarPlane = kCifarSide * kCifarSide;
constexpr int64_t kCifarRecord = 1 + 3 * kCifarPlane;

absl::Status BadLabel(absl::string_view name, int64_t label, int64_t classes) {
  return absl::DataLossError(absl::StrCat(
      "bad record ", name, ": the class is ", label, ", but there are ",
      classes,
      DetailLine("help", "name the file of classes that belongs to it")));
}

class Cifar10Pictures final : public PictureArrays {
 public:
  explicit Cifar10Pictures(std::vector<std::shared_ptr<const MappedFile>> files)
      : files_(std::move(files)), begins_{0} {
    for (const std::shared_ptr<const MappedFile>& file : files_) {
      const auto bytes = static_cast<int64_t>(file->bytes().size());
      begins_.push_back(begins_.back() + bytes / kCifarRecord);
    }
  }

  PictureSize picture_size() const override {
    return {kCifarSide, kCifarSide, 3};
  }
  int64_t size() const override { return begins_.back(); }

  std::string NameOf(int64_t index) const override {
    const size_t file = FileOf(index);
    return absl::StrCat(files_[file]->path(), ": picture ",
                        index - begins_[file]);
  }

  absl::StatusOr<Record> Read(int64_t index) const override {
    const size_t file = FileOf(index);
    const char* bytes =
        files_[file]->bytes().data() + (index - begins_[file]) * kCifarRecord;
    Record record;
    record.label = static_cast<uint8_t>(bytes[0]);
    if (record.label >= kCifarClasses) {
      return BadLabel(NameOf(index), record.label, kCifarClasses);
    }
    record.pixels.resize(3 * kCifarPlane);
    for (int64_t i = 0; i < kCifarPlane; ++i) {
      for (int64_t channel = 0; channel < 3; ++channel) {
        record.pixels[3 * i + channel] =
            static_cast<uint8_t>(bytes[1 + channel * kCifarPlane + i]);
      }
    }
    return record;
  }

 private:
  size_t FileOf(int64_t index) const {
    return std::upper_bound(begins_.begin(), begins_.end(), index) -
           begins_.begin() - 1;
  }

  const std::vector<std::shared_ptr<const MappedFile>> files_;
  std::vector<int64_t> begins_;  // the first picture of each file, and the end
};

// An IDX file of unsigned bytes.
struct IdxBytes {
  std::shared_ptr<const MappedFile> file;
  std::vector<int64_t> sizes;  // of its dimensions
  absl::string_view values;
};

absl::StatusOr<IdxBytes> OpenIdx(const std::string& path,
                                 absl::string_view what) {
  IdxBytes idx;
  MTF_ASSIGN_OR_RETURN(idx.file, MappedFile::Open(path, what));
  const absl::string_view bytes = idx.file->bytes();
  const auto bad_idx = [&](absl::string_view reason,
                           absl::string_view help =
                               "the file may be incomplete") {
    return absl::DataLossError(absl::StrCat("IDX file ", Quoted(path), " ",
                                            reason, DetailLine("help", help)));
  };
  if (absl::StartsWith(bytes, "\x1f\x8b")) {
    return bad_idx("is compressed", "decompress it with gunzip");
  }
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  if (bytes.size() < 4 || byte(0) != 0 || byte(1) != 0 || byte(2) != 8) {
    return bad_idx("does not begin with the header of unsigned bytes",
                   "name a file of the MNIST format");
  }
  const size_t dims = byte(3), header = 4 + 4 * dims;
  if (bytes.size() < header) return bad_idx("ends in its header");
  idx.values = bytes.substr(header);
  const auto most = static_cast<int64_t>(idx.values.size());
  int64_t elements = 1;
  for (size_t i = 0; i < dims; ++i) {
    int64_t size = 0;
    for (size_t j = 0; j < 4; ++j) size = size << 8 | byte(4 + 4 * i + j);
    idx.sizes.push_back(size);
    // Stays below 2^63: both factors do so after a division.
    if (size != 0 && elements > most / size) {
      return bad_idx(
          absl::StrCat("has more elements than its ", most, " bytes"));
    }
    elements *= size;
  }
  if (elements != most) {
    return bad_idx(absl::StrCat("has ", Plural(elements, "element"), ", but ",
                                most, " bytes after its header"));
  }
  return idx;
}

class IdxPictures final : public PictureArrays {
 public:
  IdxPictures(IdxBytes pictures, IdxBytes labels, int64_t classes)
      : pictures_(std::move(pictures)),
        labels_(std::move(labels)),
        classes_(classes),
        size_{pictures_.sizes[1], pictures_.sizes[2],
              pictures_.sizes.size() == 4 ? pictures_.sizes[3] : 1} {}

  PictureSize picture_size() const override { return size_; }
  int64_t size() const override { return pictures_.sizes[0]; }
  std::string NameOf(int64_t index) const override {
    return absl::StrCat(pictures_.file->path(), ": picture ", index);
  }

  absl::StatusOr<Record> Read(int64_t index) const override {
    Record record;
    record.label = static_cast<uint8_t>(labels_.values[index]);
    if (record.label >= classes_) {
      return BadLabel(NameOf(index), record.label, classes_);
    }
    const int64_t bytes = size_.height * size_.width * size_.channels;
    const absl::string_view pixels =
        pictures_.values.substr(index * bytes, bytes);
    record.pixels.assign(pixels.begin(), pixels.end());
    return record;
  }

 private:
  const IdxBytes pictures_, labels_;
  const int64_t classes_;
  const PictureSize size_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const PictureArrays>> OpenCifar10(
    const std::vector<std::string>& paths) {
  std::vector<std::shared_ptr<const MappedFile>> files;
  for (const std::string& path : paths) {
    MTF_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file,
                         MappedFile::Open(path, "pictures"));
    if (file->bytes().size() % kCifarRecord != 0) {
      return absl::DataLossError(absl::StrCat(
          "CIFAR-10 file ", Quoted(path), " has ", file->bytes().size(),
          " bytes, not a multiple of the ", kCifarRecord, " of a picture",
          DetailLine("help", "name files of the binary version")));
    }
    files.push_back(std::move(file));
  }
  return std::make_shared<const Cifar10Pictures>(std::move(files));
}

absl::StatusOr<std::shared_ptr<const PictureArrays>> OpenIdxPictures(
    const std::string& pictures, const std::string& labels, int64_t classes) {
  MTF_ASSIGN_OR_RETURN(IdxBytes pixels, OpenIdx(pictures, "pictures"));
  MTF_ASSIGN_OR_RETURN(IdxBytes label, OpenIdx(labels, "classes of pictures"));
  const size_t dims = pixels.sizes.size();
  if (dims < 3 || dims > 4 || label.sizes.size() != 1) {
    return absl::DataLossError(absl::StrCat(
        "IDX files ", Quoted(pictures), " and ", Quoted(labels), " have ", dims,
        " and ", Plural(label.sizes.size(), "dimension"),
        DetailLine("help",
                   "give the pictures first, with 3 or 4 dimensions, "
                   "and their classes, with 1")));
  }
  if (pixels.sizes[0] != label.sizes[0]) {
    return absl::DataLossError(absl::StrCat(
        "IDX file ", Quoted(pictures), " has ", pixels.sizes[0],
        " pictures, but ", Quoted(labels), " has ", label.sizes[0], " classes",
        DetailLine("help", "name two files of one data set")));
  }
  return std::make_shared<const IdxPictures>(std::move(pixels),
                                             std::move(label), classes);
}

}  // namespace mtf::train
