// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/parsers.h"
#include "tests/train/data/data_files.h"
#include "train/data/sources/decode_png.h"
#include "train/data/sources/megatron_tokens.h"
#include "train/data/sources/picture_arrays.h"
#include "train/data/sources/text_records.h"
#include "train/data/sources/token_files.h"
#include "train/data/sources/token_windows.h"
#include "train/loop/event_file.h"
#include "train/tokenizers/byte_tokenizer.h"
#include "train/tokenizers/open_tokenizer.h"

namespace mtf::fuzzing {
namespace {

using train::TextFormat;

// Reads every record of a source; a bad record is not an error of the file.
template <class Source>
absl::Status ReadAll(
    const absl::StatusOr<std::shared_ptr<const Source>>& source) {
  if (!source.ok()) return source.status();
  for (int64_t i = 0; i < (*source)->size(); ++i) {
    (void)(*source)->Read(i);
  }
  return absl::OkStatus();
}

absl::Status ReadTokens(absl::string_view bytes) {
  const auto tokens =
      train::TokenFiles::Open({FuzzedFile("fuzzed.bin", bytes)}, {1000});
  if (!tokens.ok()) return tokens.status();
  return ReadAll(train::TokenWindows::Create(*tokens, 8));
}

absl::Status ReadMegatronIndex(absl::string_view bytes) {
  FuzzedFile("fuzzed.idx", bytes);
  const std::string data = FuzzedFile("fuzzed.bin", std::string(120, '\1'));
  return ReadAll(
      train::MegatronTokens::Open(data.substr(0, data.size() - 4), 1000));
}

absl::Status ReadText(absl::string_view bytes, TextFormat format) {
  return ReadAll(train::OpenTextRecords(
      {FuzzedFile("fuzzed.txt", bytes)},
      std::make_shared<const train::ByteTokenizer>(), {.format = format}));
}

absl::Status ReadPng(absl::string_view bytes) {
  return train::DecodePng(bytes, {4, 4, 3}).status();
}

absl::Status ReadIdx(absl::string_view bytes) {
  return ReadAll(train::OpenIdxPictures(
      FuzzedFile("fuzzed_pictures.idx", bytes),
      FuzzedFile("fuzzed_labels.idx", testing::IdxFile({2}, {0, 1})), 10));
}

absl::Status ReadEventFile(absl::string_view bytes) {
  return train::ReadEvents(FuzzedFile("fuzzed.events", bytes)).status();
}

// A file of a tokenizer with this ending, and a text encoded with it.
absl::Status ReadTokenizer(const std::string& ending, absl::string_view bytes) {
  const auto tokenizer =
      train::OpenTokenizer(FuzzedFile(absl::StrCat("fuzzed", ending), bytes));
  if (!tokenizer.ok()) return tokenizer.status();
  const auto ids = (*tokenizer)->Encode("Hello, \xc3\xa4 world  12\n");
  if (ids.ok()) (void)(*tokenizer)->Decode(*ids);
  return absl::OkStatus();
}

std::string Fixture(absl::string_view name) {
  std::ifstream file(absl::StrCat(FUZZ_FIXTURES, "/tokenizer_cases/", name),
                     std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string EventSeed() {
  const std::string folder = FuzzedFile("events_seed", "") + ".d";
  std::string path;
  {
    const auto writer = train::EventWriter::Create(folder, [] { return 7.0; });
    if (!writer.ok() || !(*writer)->AddScalars(3, {{"loss", 1.5}}).ok() ||
        !(*writer)->AddText(3, "sample", "a text").ok() ||
        !(*writer)->Flush().ok()) {
      return "";
    }
    path = (*writer)->path();
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

}  // namespace

std::vector<FuzzedParser> DataParsers() {
  std::vector<int64_t> tokens(30);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = 37 * i % 1000;
  const auto text = [](TextFormat format) {
    return
        [format](absl::string_view bytes) { return ReadText(bytes, format); };
  };
  const auto tokenizer = [](const std::string& ending) {
    return [ending](absl::string_view bytes) {
      return ReadTokenizer(ending, bytes);
    };
  };
  return {
      {"token_files",
       {testing::LlmcFile(tokens, 20240520, 1, 2),
        testing::LlmcFile(tokens, 20240801, 7, 4)},
       ReadTokens},
      {"megatron_index",
       {testing::MegatronIndex({{5, 10}, {20}, {}, {3, 3, 4}, {15}}, 8, 2)},
       ReadMegatronIndex},
      {"json_lines",
       {"{\"text\": \"a \\u00e4\\ud83d\\ude00\", \"l\": [1, {\"a\":2.5e3}]}\n"},
       text(TextFormat::kJsonLines)},
      {"pairs", {"input\ttarget\r\nb\tc\n"}, text(TextFormat::kPairs)},
      {"png",
       {testing::PngFile(4, 4, 3, std::vector<uint8_t>(48, 200))},
       ReadPng},
      {"idx",
       {testing::IdxFile({2, 3, 3}, std::vector<uint8_t>(18, 9))},
       ReadIdx},
      {"events", {EventSeed()}, ReadEventFile},
      {"tokenizer_json",
       {Fixture("gpt2.json"), Fixture("bert.json"), Fixture("llama3.json")},
       tokenizer(".json")},
      {"wordpiece",
       {"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\n##lo\n"},
       tokenizer(".txt")},
      {"sentencepiece",
       {Fixture("llama2_model.model"), Fixture("t5.model")},
       tokenizer(".model")}};
}

}  // namespace mtf::fuzzing
