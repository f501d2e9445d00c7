// SPDX-License-Identifier: Apache-2.0
//
// The licence of this repository as a text to train models on.
#ifndef TESTS_TRAIN_MODELS_CHARACTERS_H_
#define TESTS_TRAIN_MODELS_CHARACTERS_H_

#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tests/train/weights/model_fixture.h"

namespace mtf::testing {

// The numbers of characters: of a blank, of other characters, and of "a", which
// the other letters follow.
inline constexpr int kBlank = 2, kOtherCharacter = 3, kFirstLetter = 4;
inline constexpr int kCharacters = kFirstLetter + 26;

// Character number `at` of the text, which begins again at its end.
inline int CharacterOfText(int64_t at) {
  static const std::string& text = *new std::string(
      train::FileText(absl::StrCat(MODELS_DIR, "/../../../LICENSE")));
  if (text.empty()) return kOtherCharacter;
  const char c =
      absl::ascii_tolower(text[at % static_cast<int64_t>(text.size())]);
  if (absl::ascii_isspace(c)) return kBlank;
  return absl::ascii_islower(c) ? kFirstLetter + (c - 'a') : kOtherCharacter;
}

}  // namespace mtf::testing

#endif  // TESTS_TRAIN_MODELS_CHARACTERS_H_
