// SPDX-License-Identifier: Apache-2.0
//
// Texts that are compared with the files of tests/golden/, or replace them
// under MTF_UPDATE_GOLDENS=1.
#ifndef TESTS_GOLDEN_FILES_H_
#define TESTS_GOLDEN_FILES_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace mtf::testing {

inline bool UpdatesGoldens() {
  const char* update = std::getenv("MTF_UPDATE_GOLDENS");
  return update != nullptr && std::string(update) == "1";
}

// Whether programs and explanations under a preset have golden files. The texts
// of the other presets are checked by statements alone.
inline bool HasGoldens(const std::string& preset) {
  return preset == "data_model" || preset == "megatron_sequence" ||
         preset == "zero3";
}

// Reports the first line that differs: two long texts are hard to compare.
inline void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(GOLDEN_DIR, "/", name);
  if (UpdatesGoldens()) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file.good()) << path << " does not exist; write it with "
                           << "MTF_UPDATE_GOLDENS=1";
  std::stringstream content;
  content << file.rdbuf();
  if (content.str() == text) return;
  const std::vector<std::string> wanted = absl::StrSplit(content.str(), '\n'),
                                 got = absl::StrSplit(text, '\n');
  size_t line = 0;
  while (line < wanted.size() && line < got.size() &&
         wanted[line] == got[line]) {
    ++line;
  }
  const auto at = [line](const std::vector<std::string>& lines) {
    return line < lines.size() ? lines[line] : std::string("<the end>");
  };
  ADD_FAILURE()
      << name << " line " << line + 1 << " is\n  " << at(got) << "\nand was\n  "
      << at(wanted) << "\n(" << got.size() << " lines, and were "
      << wanted.size()
      << "). If this is intended, run again with MTF_UPDATE_GOLDENS=1 "
         "and review the difference.";
}

}  // namespace mtf::testing

#endif  // TESTS_GOLDEN_FILES_H_
