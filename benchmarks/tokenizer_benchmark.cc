// SPDX-License-Identifier: Apache-2.0
//
// The speed of a tokenizer on one thread, as a line of JSON
// (benchmarks/peers/README.md); peers/tokenizers_python.py measures the
// reference packages in between, and compares ids.
//   tokenizer_benchmark --tokenizer=models/gpt2 --input=text.txt
//   tokenizer_benchmark --tokenizer=models/gpt2 --texts=texts.json
#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "mtf/read_file.h"
#include "mtf/status.h"
#include "train/loop/flag_types.h"
#include "train/loop/run_main.h"
#include "train/tokenizers/json_value.h"
#include "train/tokenizers/open_tokenizer.h"

ABSL_FLAG(std::string, tokenizer, "bytes", "a folder, a file or \"bytes\"");
ABSL_FLAG(std::string, input, "", "the text to measure with");
ABSL_FLAG(std::string, texts, "",
          "print the ids of these texts, a JSON array, and measure nothing");
ABSL_FLAG(mtf::train::Size, repeats, 5, "timed encodings of the text");

namespace mtf::train {
namespace {

// Prints a line for each text: its ids, then those with special tokens, then
// the decoded text as hexadecimal bytes.
absl::Status PrintIds(const Tokenizer& tokenizer, const std::string& path) {
  MTF_ASSIGN_OR_RETURN(const JsonValue json, JsonValue::ReadFile(path));
  MTF_ASSIGN_OR_RETURN(const auto texts, json.Elements());
  for (const JsonValue& value : texts) {
    MTF_ASSIGN_OR_RETURN(const std::string text, value.String());
    MTF_ASSIGN_OR_RETURN(const auto ids, tokenizer.Encode(text));
    MTF_ASSIGN_OR_RETURN(
        const auto special,
        tokenizer.EncodeWith({.special_ends = true, .special_in_text = true},
                             text));
    MTF_ASSIGN_OR_RETURN(const std::string decoded, tokenizer.Decode(ids));
    std::string hex;
    for (const char c : decoded) {
      absl::StrAppendFormat(&hex, "%02x", static_cast<unsigned char>(c));
    }
    std::cout << absl::StrJoin(ids, " ") << "|" << absl::StrJoin(special, " ")
              << "|" << hex << "\n";
  }
  return absl::OkStatus();
}

absl::Status MeasureTokenizer() {
  const std::string path = absl::GetFlag(FLAGS_tokenizer);
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                       OpenTokenizer(path));
  if (!absl::GetFlag(FLAGS_texts).empty()) {
    return PrintIds(*tokenizer, absl::GetFlag(FLAGS_texts));
  }
  MTF_ASSIGN_OR_RETURN(
      const std::string text,
      ReadPlainFile(absl::GetFlag(FLAGS_input), "text", int64_t{1} << 28));
  std::vector<double> seconds;
  size_t tokens = 0;
  // The first encoding is not timed.
  for (int64_t i = 0; i <= absl::GetFlag(FLAGS_repeats).value; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    MTF_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                         tokenizer->Encode(text));
    const std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - begin;
    if (i > 0) seconds.push_back(time.count());
    tokens = ids.size();
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  std::cout << absl::StrFormat(
      "{\"schema\": 1, \"benchmark\": \"tokenizer/%s\", \"program\": \"mtf\", "
      "\"device\": \"cpu\", \"unit\": \"MB/s\", \"value\": %.4g, "
      "\"milliseconds\": %.4g, \"repeats\": %d, \"tokens\": %d}\n",
      path, 1e-6 * static_cast<double>(text.size()) / median, 1e3 * median,
      seconds.size(), tokens);
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf::train

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Measures a tokenizer.",
                             &mtf::train::MeasureTokenizer);
}
