// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
//
// Damaged files of every format: each is an error, or has bad records; none
// crashes, hangs, or takes more memory than a few of these small files have.
#include <sys/resource.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "tests/train/data/data_files.h"
#include "train/data/sources/decode_png.h"
#include "train/data/sources/megatron_tokens.h"
#include "train/data/sources/packed_records.h"
#include "train/data/sources/picture_arrays.h"
#include "train/data/sources/text_records.h"
#include "train/data/sources/token_files.h"
#include "train/data/sources/token_windows.h"
#include "train/tokenizers/byte_tokenizer.h"

namespace mtf::train {
namespace {

using ::mtf::testing::WriteDataFile;

int64_t PeakKilobytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Reads every record; counts good and bad ones.
struct ReadCounts {
  int64_t errors = 0, good = 0, bad = 0;

  template <class Source>
  void Add(const absl::StatusOr<std::shared_ptr<const Source>>& source,
           size_t file_bytes) {
    if (!source.ok()) {
      EXPECT_FALSE(source.status().message().empty());
      ++errors;
      return;
    }
    const RecordSource& records = **source;
    ASSERT_LE(records.size(), static_cast<int64_t>(file_bytes));
    for (int64_t i = 0; i < records.size(); ++i) {
      const auto record = records.Read(i);
      if (record.ok()) {
        ASSERT_LE(record->tokens.size() + record->pixels.size(), file_bytes);
        ++good;
      } else {
        ASSERT_EQ(record.status().code(), absl::StatusCode::kDataLoss);
        ++bad;
      }
    }
  }
};

// Reads mutations of `bytes`. Some must be errors, some must be read.
void ReadMutations(
    const std::string& bytes,
    const std::function<void(const std::string& mutated, ReadCounts&)>& read) {
  const int files = testing::ThoroughTests() ? 5000 : 300;
  std::mt19937 random(17);
  ReadCounts counts;
  read(bytes, counts);
  ASSERT_EQ(counts.errors, 0);
  const int64_t before = PeakKilobytes();
  for (int i = 0; i < files && !::testing::Test::HasFatalFailure(); ++i) {
    read(testing::Mutated(bytes, random), counts);
  }
  EXPECT_GT(counts.errors + counts.bad, files / 10);
  EXPECT_GT(counts.good, 1);
  if (!testing::kSanitized) {
    EXPECT_LT(PeakKilobytes() - before, 32 << 10);
  }
}

TEST(MutatedFiles, TokenFiles) {
  for (const bool wide : {false, true}) {
    std::vector<int64_t> tokens;
    for (int i = 0; i < 200; ++i) tokens.push_back(i * 37 % 1000);
    const std::string file = wide ? testing::LlmcFile(tokens, 20240801, 7, 4)
                                  : testing::LlmcFile(tokens, 20240520, 1, 2);
    ReadMutations(file, [](const std::string& bytes, ReadCounts& counts) {
      const auto tokens =
          TokenFiles::Open({WriteDataFile("m.bin", bytes)}, {1000});
      if (!tokens.ok()) {
        ++counts.errors;
        return;
      }
      counts.Add(TokenWindows::Create(*tokens, 8), bytes.size());
    });
  }
}

TEST(MutatedFiles, MegatronIndex) {
  std::vector<int64_t> tokens;
  for (int i = 0; i < 60; ++i) tokens.push_back(i);
  const std::string data = testing::TokenBytesOf(tokens, 2);
  const std::string path = WriteDataFile("mm.bin", data);
  const std::string prefix = path.substr(0, path.size() - 4);
  ReadMutations(
      testing::MegatronIndex({{5, 10}, {20}, {}, {3, 3, 4}, {15}}, 8, 2),
      [&](const std::string& bytes, ReadCounts& counts) {
        WriteDataFile("mm.idx", bytes);
        counts.Add(MegatronTokens::Open(prefix, 60),
                   bytes.size() + data.size());
      });
}

TEST(MutatedFiles, JsonLines) {
  std::string file;
  for (int i = 0; i < 6; ++i) {
    file +=
        R"({"id": 12, "text": "a \u00e4\ud83d\ude00\n", "l": [1, {"a":2.5e3}]})";
    file += '\n';
  }
  ReadMutations(file, [](const std::string& bytes, ReadCounts& counts) {
    counts.Add(OpenTextRecords({WriteDataFile("m.jsonl", bytes)},
                               std::make_shared<const ByteTokenizer>(),
                               {.format = TextFormat::kJsonLines}),
               bytes.size());
  });
}

TEST(MutatedFiles, LinesAndPairs) {
  std::string file;
  for (int i = 0; i < 20; ++i) file += "input \xc3\xa4\ttarget\r\n";
  ReadMutations(file, [](const std::string& bytes, ReadCounts& counts) {
    counts.Add(OpenTextRecords({WriteDataFile("m.tsv", bytes)},
                               std::make_shared<const ByteTokenizer>(),
                               {.format = TextFormat::kPairs}),
               bytes.size());
  });
}

TEST(MutatedFiles, Idx) {
  std::vector<uint8_t> pixels(10 * 4 * 4);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = i % 251;
  const std::string pictures = testing::IdxFile({10, 4, 4}, pixels);
  const std::string labels =
      testing::IdxFile({10}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  ReadMutations(pictures, [&](const std::string& bytes, ReadCounts& counts) {
    counts.Add(OpenIdxPictures(WriteDataFile("m.idx", bytes),
                               WriteDataFile("ml.idx", labels), 10),
               bytes.size());
  });
  ReadMutations(labels, [&](const std::string& bytes, ReadCounts& counts) {
    counts.Add(OpenIdxPictures(WriteDataFile("m.idx", pictures),
                               WriteDataFile("ml.idx", bytes), 10),
               bytes.size() + pictures.size());
  });
}

TEST(MutatedFiles, Png) {
  std::vector<uint8_t> pixels(16 * 16 * 3);
  std::mt19937 random(3);
  for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(random());
  ReadMutations(testing::PngFile(16, 16, 3, pixels),
                [](const std::string& bytes, ReadCounts& counts) {
                  const auto decoded = DecodePng(bytes, {16, 16, 3});
                  if (decoded.ok()) {
                    ++counts.good;
                  } else {
                    ASSERT_EQ(decoded.status().code(),
                              absl::StatusCode::kDataLoss);
                    ++counts.bad;
                  }
                });
}

}  // namespace
}  // namespace mtf::train
