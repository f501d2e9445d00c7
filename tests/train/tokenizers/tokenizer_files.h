// SPDX-License-Identifier: Apache-2.0
//
// The tokenizers of tests/fixtures/tokenizer_cases and what the reference
// packages make of their texts.
#ifndef TESTS_TRAIN_TOKENIZERS_TOKENIZER_FILES_H_
#define TESTS_TRAIN_TOKENIZERS_TOKENIZER_FILES_H_

#include <cstdint>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "train/tokenizers/json_value.h"
#include "train/tokenizers/open_tokenizer.h"

namespace mtf::testing {

inline std::string TokenizerPath(absl::string_view name) {
  return absl::StrCat(GOLDEN_DIR, "/../fixtures/tokenizer_cases/", name);
}

inline std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::unique_ptr<train::Tokenizer> OpenFixture(absl::string_view name) {
  auto tokenizer = train::OpenTokenizer(TokenizerPath(name));
  EXPECT_OK(tokenizer);
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

// The texts of all cases.
inline std::vector<std::string> CaseTexts() {
  const auto json = train::JsonValue::ReadFile(TokenizerPath("lines.json"));
  EXPECT_OK(json);
  std::vector<std::string> texts;
  const auto lines = json->Elements();
  EXPECT_OK(lines);
  for (const train::JsonValue& line : *lines) {
    texts.push_back(*line.String());
  }
  EXPECT_GT(texts.size(), 20u);
  return texts;
}

}  // namespace mtf::testing

#endif  // TESTS_TRAIN_TOKENIZERS_TOKENIZER_FILES_H_
