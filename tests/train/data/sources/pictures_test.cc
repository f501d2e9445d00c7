// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/train/data/data_files.h"
#include "train/data/sources/decode_png.h"
#include "train/data/sources/picture_arrays.h"
#include "train/data/sources/picture_folder.h"

namespace mtf::train {
namespace {

using ::mtf::testing::IdxFile;
using ::mtf::testing::PngFile;
using ::mtf::testing::StatusIs;
using ::mtf::testing::WriteDataFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<uint8_t> Ramp(int count, int first = 0) {
  std::vector<uint8_t> values(count);
  for (int i = 0; i < count; ++i) values[i] = static_cast<uint8_t>(first + i);
  return values;
}

TEST(DecodePng, ReturnsThePixels) {
  for (const int channels : {1, 3}) {
    const std::vector<uint8_t> pixels = Ramp(4 * 5 * channels);
    const auto decoded =
        DecodePng(PngFile(4, 5, channels, pixels),
                  {.height = 4, .width = 5, .channels = channels});
    ASSERT_OK(decoded);
    EXPECT_EQ(*decoded, pixels);
  }
  // Gray as color: three equal channels.
  EXPECT_THAT(*DecodePng(PngFile(1, 2, 1, {7, 9}), {1, 2, 3}),
              ElementsAre(7, 7, 7, 9, 9, 9));
  // What is transparent is black.
  EXPECT_THAT(
      *DecodePng(PngFile(1, 2, 4, {9, 9, 9, 0, 1, 2, 3, 255}), {1, 2, 3}),
      ElementsAre(0, 0, 0, 1, 2, 3));
}

TEST(DecodePng, DamageAndOtherSizesAreErrors) {
  const std::string png = PngFile(4, 5, 3, Ramp(60));
  EXPECT_THAT(DecodePng(png, {5, 4, 3}),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("has 4 rows of 5 pixels, but the data set "
                                 "has 5 of 4")));
  EXPECT_THAT(DecodePng("", {4, 5, 3}), StatusIs(absl::StatusCode::kDataLoss,
                                                 HasSubstr("not a PNG file")));
  EXPECT_THAT(
      DecodePng("GIF89a", {4, 5, 3}),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("not a PNG file")));
  // The file ends with 12 bytes that hold no pixels.
  for (size_t size = 0; size + 12 < png.size(); ++size) {
    EXPECT_FALSE(DecodePng(png.substr(0, size), {4, 5, 3}).ok()) << size;
  }
  // A header that asks for 2^31 - 1 rows is rejected before any allocation.
  std::string large = png;
  large.replace(16, 4, "\x7f\xff\xff\xff");
  EXPECT_FALSE(DecodePng(large, {4, 5, 3}).ok());
}

TEST(PictureFolder, ClassesAreFolders) {
  namespace fs = std::filesystem;
  const fs::path root =
      fs::path(::testing::TempDir()) / ("pictures_" + std::to_string(getpid()));
  fs::remove_all(root);
  const auto write = [&](const std::string& folder, const std::string& name,
                         const std::string& bytes) {
    fs::create_directories(root / folder);
    std::ofstream(root / folder / name, std::ios::binary) << bytes;
  };
  write("dog", "2.PNG", PngFile(2, 2, 3, Ramp(12, 20)));
  write("dog", "1.png", PngFile(2, 2, 3, Ramp(12, 10)));
  write("dog", "notes.txt", "no picture");
  write("cat", "a.png", PngFile(2, 2, 3, Ramp(12)));
  write("cat", "b.png", "torn");
  write("cat", "c.png", PngFile(3, 2, 3, Ramp(18)));
  write("cat", ".hidden.png", "");
  write(".git", "x.png", "");
  std::ofstream(root / "README") << "no class";

  const auto pictures = PictureFolder::Open(root.string(), {2, 2, 3});
  ASSERT_OK(pictures);
  EXPECT_THAT((*pictures)->classes(), ElementsAre("cat", "dog"));
  ASSERT_EQ((*pictures)->size(), 5);
  EXPECT_EQ((*pictures)->Read(0)->pixels, Ramp(12));
  EXPECT_EQ((*pictures)->Read(0)->label, 0);
  EXPECT_EQ((*pictures)->Read(3)->pixels, Ramp(12, 10));
  EXPECT_EQ((*pictures)->Read(3)->label, 1);
  EXPECT_EQ((*pictures)->Read(4)->pixels, Ramp(12, 20));
  EXPECT_THAT((*pictures)->Read(1),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("cat/b.png: not a PNG file")));
  EXPECT_THAT((*pictures)->Read(2),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("cat/c.png: the picture has 3 rows")));

  EXPECT_THAT(PictureFolder::Open((root / "dog").string(), {2, 2, 3}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("has 0 folders and no PNG files")));
  EXPECT_THAT(PictureFolder::Open("/no/such", {2, 2, 3}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("cannot read the folder of pictures")));
  EXPECT_THAT(
      PictureFolder::Open(root.string(), {2, 2, 4}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4 channels")));
  fs::remove_all(root);
}

TEST(PictureArrays, CifarPlanesBecomeChannels) {
  std::string file;
  for (int picture = 0; picture < 2; ++picture) {
    file.push_back(static_cast<char>(picture == 0 ? 9 : 10));
    for (int i = 0; i < 3 * 1024; ++i) {
      file.push_back(static_cast<char>(i / 1024 * 100 + i % 90 + picture));
    }
  }
  const std::string path = WriteDataFile("cifar.bin", file);
  const auto pictures = OpenCifar10(
      {path, WriteDataFile("none.bin", ""), WriteDataFile("again.bin", file)});
  ASSERT_OK(pictures);
  ASSERT_EQ((*pictures)->size(), 4);
  const auto first = (*pictures)->Read(2);
  ASSERT_OK(first);
  EXPECT_EQ(first->label, 9);
  ASSERT_EQ(first->pixels.size(), 3072);
  for (int pixel = 0; pixel < 1024; ++pixel) {
    for (int channel = 0; channel < 3; ++channel) {
      const int i = channel * 1024 + pixel;
      ASSERT_EQ(first->pixels[3 * pixel + channel],
                (channel * 100 + i % 90) % 256);
    }
  }
  EXPECT_THAT((*pictures)->Read(1),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("cifar.bin: picture 1: the class is 10")));
  EXPECT_THAT(OpenCifar10({WriteDataFile("odd.bin", file.substr(1))}),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("6145 bytes, not a multiple of the 3073")));
}

TEST(PictureArrays, IdxFilesHoldPicturesAndClasses) {
  const std::string labels = WriteDataFile("l.idx", IdxFile({3}, {1, 0, 7}));
  const auto pictures = OpenIdxPictures(
      WriteDataFile("p.idx", IdxFile({3, 2, 2}, Ramp(12))), labels, 5);
  ASSERT_OK(pictures);
  EXPECT_EQ((*pictures)->size(), 3);
  EXPECT_EQ((*pictures)->picture_size().channels, 1);
  EXPECT_EQ((*pictures)->Read(1)->pixels, Ramp(4, 4));
  EXPECT_EQ((*pictures)->Read(0)->label, 1);
  EXPECT_THAT(
      (*pictures)->Read(2),
      StatusIs(absl::StatusCode::kDataLoss,
               HasSubstr("picture 2: the class is 7, but there are 5")));
  const auto color = OpenIdxPictures(
      WriteDataFile("c.idx", IdxFile({3, 1, 2, 3}, Ramp(18))), labels, 10);
  ASSERT_OK(color);
  EXPECT_EQ((*color)->picture_size().channels, 3);
  EXPECT_EQ((*color)->Read(2)->pixels, Ramp(6, 12));
}

TEST(PictureArrays, IdxHeadersAreChecked) {
  const std::string labels = WriteDataFile("l.idx", IdxFile({3}, {1, 0, 7}));
  const auto opened = [&](const std::string& bytes) {
    return OpenIdxPictures(WriteDataFile("bad.idx", bytes), labels, 10);
  };
  const auto is_bad = [](const char* text) {
    return StatusIs(absl::StatusCode::kDataLoss, HasSubstr(text));
  };
  EXPECT_THAT(opened("\x1f\x8b\x08"), is_bad("is compressed"));
  EXPECT_THAT(opened("abcd"), is_bad("does not begin with the header"));
  EXPECT_THAT(opened(IdxFile({3, 2, 2}, Ramp(12)).substr(0, 9)),
              is_bad("ends in its header"));
  EXPECT_THAT(opened(IdxFile({3, 2, 2}, Ramp(11))),
              is_bad("has more elements than its 11 bytes"));
  EXPECT_THAT(opened(IdxFile({3, 2, 2}, Ramp(13))),
              is_bad("has 12 elements, but 13 bytes"));
  const int64_t most = 0xffffffff;
  EXPECT_THAT(opened(IdxFile({most, most, most, most}, Ramp(1))),
              is_bad("has more elements"));
  EXPECT_THAT(opened(IdxFile({3}, Ramp(3))), is_bad("have 1 and 1 dimension"));
  EXPECT_THAT(opened(IdxFile({2, 2, 2}, Ramp(8))),
              is_bad("has 2 pictures, but"));
}

}  // namespace
}  // namespace mtf::train
