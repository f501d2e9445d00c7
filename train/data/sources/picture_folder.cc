// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/picture_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/data/sources/mapped_file.h"

namespace mtf::train {
namespace {

constexpr int64_t kMostPictureSide = 1 << 14;

// The names in `folder` in their order, without hidden ones.
absl::StatusOr<std::vector<std::string>> NamesIn(
    const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(folder, error), end;
  while (!error && entry != end) {
    names.push_back(entry->path().filename().string());
    entry.increment(error);
  }
  if (error) {
    return absl::NotFoundError(absl::StrCat(
        "cannot read the folder of pictures ", Quoted(folder.string()), ": ",
        error.message(),
        DetailLine("help", "name a folder with one folder for each class")));
  }
  std::sort(names.begin(), names.end());
  std::erase_if(names, [](const std::string& name) {
    return absl::StartsWith(name, ".");
  });
  return names;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PictureFolder>> PictureFolder::Open(
    const std::string& folder, PictureSize size) {
  if (size.height < 1 || size.height > kMostPictureSide || size.width < 1 ||
      size.width > kMostPictureSide ||
      (size.channels != 1 && size.channels != 3)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pictures of ", size.height, " rows of ", size.width, " pixels with ",
        Plural(size.channels, "channel"),
        DetailLine("help",
                   absl::StrCat("give 1 or 3 channels and at most ",
                                kMostPictureSide, " rows and pixels"))));
  }
  std::shared_ptr<PictureFolder> pictures(new PictureFolder(folder, size));
  const std::filesystem::path root(folder);
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(root));
  for (const std::string& name : names) {
    std::error_code error;
    if (!std::filesystem::is_directory(root / name, error)) continue;
    const auto label = static_cast<int32_t>(pictures->classes_.size());
    pictures->classes_.push_back(name);
    MTF_ASSIGN_OR_RETURN(std::vector<std::string> files, NamesIn(root / name));
    for (std::string& file : files) {
      if (!absl::EndsWithIgnoreCase(file, ".png")) continue;
      pictures->files_.push_back({label, std::move(file)});
    }
  }
  if (pictures->files_.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "the folder ", Quoted(folder), " has ",
        Plural(pictures->classes_.size(), "folder"),
        " and no PNG files in them",
        DetailLine("help", "put them into one folder for each class")));
  }
  return pictures;
}

std::string PictureFolder::NameOf(int64_t index) const {
  const PictureFile& file = files_[index];
  return absl::StrCat(folder_, "/", classes_[file.label], "/", file.name);
}

absl::StatusOr<Record> PictureFolder::Read(int64_t index) const {
  const std::string path = NameOf(index);
  MTF_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file,
                       MappedFile::Open(path, "a picture"));
  absl::StatusOr<std::vector<uint8_t>> pixels = DecodePng(file->bytes(), size_);
  if (!pixels.ok()) {
    return absl::Status(
        pixels.status().code(),
        absl::StrCat("bad record ", path, ": ", pixels.status().message()));
  }
  return Record{.pixels = *std::move(pixels), .label = files_[index].label};
}

}  // namespace mtf::train
