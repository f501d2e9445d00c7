// SPDX-License-Identifier: Apache-2.0
#include "tests/train/data/data_files.h"

#include <png.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "gtest/gtest.h"

namespace mtf::testing {

std::string WriteDataFile(const std::string& name, absl::string_view bytes) {
  const std::string path =
      ::testing::TempDir() + "/data_" + std::to_string(getpid()) + "_" + name;
  // Some file systems wait for the disk where a file is replaced in place.
  unlink(path.c_str());
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

std::string LittleEndian(int64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text.push_back(static_cast<char>(value >> (8 * i) & 255));
  }
  return text;
}

std::string BigEndian(int64_t value, int bytes) {
  const std::string text = LittleEndian(value, bytes);
  return {text.rbegin(), text.rend()};
}

std::string TokenBytesOf(const std::vector<int64_t>& tokens, int bytes) {
  std::string text;
  for (const int64_t token : tokens) text += LittleEndian(token, bytes);
  return text;
}

std::string LlmcFile(const std::vector<int64_t>& tokens, int64_t magic,
                     int64_t version, int bytes, int64_t count) {
  if (count < 0) count = static_cast<int64_t>(tokens.size());
  std::string file = TokenBytesOf({magic, version, count}, 4);
  file.resize(1024, '\0');
  return file + TokenBytesOf(tokens, bytes);
}

std::string MegatronIndex(const std::vector<std::vector<int>>& documents,
                          int code, int bytes) {
  std::string sizes, pointers, begins = LittleEndian(0, 8);
  int64_t sequences = 0, at = 0;
  for (const std::vector<int>& document : documents) {
    for (const int size : document) {
      sizes += LittleEndian(size, 4);
      pointers += LittleEndian(at, 8);
      at += int64_t{size} * bytes;
      ++sequences;
    }
    begins += LittleEndian(sequences, 8);
  }
  return std::string("MMIDIDX\0\0", 9) + LittleEndian(1, 8) +
         LittleEndian(code, 1) + LittleEndian(sequences, 8) +
         LittleEndian(static_cast<int64_t>(documents.size()) + 1, 8) + sizes +
         pointers + begins;
}

std::string IdxFile(const std::vector<int64_t>& sizes,
                    const std::vector<uint8_t>& values) {
  std::string file("\0\0\x08", 3);
  file += BigEndian(static_cast<int64_t>(sizes.size()), 1);
  for (const int64_t size : sizes) file += BigEndian(size, 4);
  file.append(values.begin(), values.end());
  return file;
}

std::string PngFile(int height, int width, int channels,
                    const std::vector<uint8_t>& pixels) {
  png_image image;
  std::memset(&image, 0, sizeof(image));
  image.version = PNG_IMAGE_VERSION;
  image.height = height;
  image.width = width;
  image.format = channels == 1   ? PNG_FORMAT_GRAY
                 : channels == 3 ? PNG_FORMAT_RGB
                                 : PNG_FORMAT_RGBA;
  png_alloc_size_t bytes = 0;
  png_image_write_to_memory(&image, nullptr, &bytes, 0, pixels.data(), 0,
                            nullptr);
  std::string file(bytes, '\0');
  png_image_write_to_memory(&image, file.data(), &bytes, 0, pixels.data(), 0,
                            nullptr);
  file.resize(bytes);
  return file;
}

std::string Mutated(std::string bytes, std::mt19937& random) {
  const auto below = [&](size_t bound) {
    return bound == 0 ? 0 : static_cast<size_t>(random() % bound);
  };
  const int64_t extremes[] = {0,          -1,         1,
                              0x7fffffff, 0x80000000, 0xffffffff,
                              INT64_MAX,  INT64_MIN,  int64_t{1} << 40,
                              0x7fff,     0xffff,     256};
  for (size_t changes = 1 + below(4); changes > 0; --changes) {
    // Half of the changes hit the beginning, where headers are.
    const size_t range =
        below(2) == 0 ? std::min<size_t>(bytes.size(), 100) : bytes.size();
    const size_t at = below(range);
    const size_t count = std::min(bytes.size() - at, 1 + below(40));
    const int width = 1 << below(4);
    switch (below(6)) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.replace(at, std::min<size_t>(width, bytes.size() - at),
                      below(2) == 0 ? LittleEndian(extremes[below(12)], width)
                                    : BigEndian(extremes[below(12)], width));
        break;
      case 2:
        bytes.erase(at, count);
        break;
      case 3:
        bytes.insert(below(bytes.size()), bytes.substr(at, count));
        break;
      case 4:
        bytes.insert(at, std::string(count, static_cast<char>(random())));
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

}  // namespace mtf::testing
