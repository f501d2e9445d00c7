// SPDX-License-Identifier: Apache-2.0
//
// Files of data for tests, written by functions of their own.
#ifndef TESTS_TRAIN_DATA_DATA_FILES_H_
#define TESTS_TRAIN_DATA_DATA_FILES_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "train/data/sources/record.h"
#include "train/data/sources/token_stream.h"

namespace mtf::testing {

// Writes a file of this test and returns its path.
std::string WriteDataFile(const std::string& name, absl::string_view bytes);

// `value` in `bytes` bytes, little or big endian.
std::string LittleEndian(int64_t value, int bytes);
std::string BigEndian(int64_t value, int bytes);

std::string TokenBytesOf(const std::vector<int64_t>& tokens, int bytes);

// A file of llm.c. `count` below 0 is the number of tokens.
std::string LlmcFile(const std::vector<int64_t>& tokens, int64_t magic,
                     int64_t version, int bytes, int64_t count = -1);

// The index of Megatron for documents of sequences of these sizes, whose tokens
// of `bytes` bytes follow one another.
std::string MegatronIndex(const std::vector<std::vector<int>>& documents,
                          int code, int bytes);

std::string IdxFile(const std::vector<int64_t>& sizes,
                    const std::vector<uint8_t>& values);

// A PNG file with these pixels.
std::string PngFile(int height, int width, int channels,
                    const std::vector<uint8_t>& pixels);

// One to four changes of a file: a byte, a number, a piece cut out, repeated or
// put in, the end cut off.
std::string Mutated(std::string bytes, std::mt19937& random);

// Records from memory.
class RecordList final : public train::RecordSource {
 public:
  explicit RecordList(std::vector<train::Record> records)
      : records_(std::move(records)) {}
  int64_t size() const override {
    return static_cast<int64_t>(records_.size());
  }
  absl::StatusOr<train::Record> Read(int64_t index) const override {
    return records_[index];
  }
  std::string NameOf(int64_t index) const override {
    return "list:" + std::to_string(index);
  }

 private:
  const std::vector<train::Record> records_;
};

// The tokens 0, 1, 2, ...
class CountingStream final : public train::TokenStream {
 public:
  explicit CountingStream(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  absl::Status Read(int64_t begin, absl::Span<int32_t> tokens) const override {
    for (int32_t& token : tokens) token = static_cast<int32_t>(begin++);
    return absl::OkStatus();
  }
  std::string name() const override { return "numbers"; }

 private:
  const int64_t size_;
};

}  // namespace mtf::testing

#endif  // TESTS_TRAIN_DATA_DATA_FILES_H_
