// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/parsers.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace mtf::fuzzing {

std::vector<FuzzedParser> AllParsers() {
  std::vector<FuzzedParser> all = TextParsers();
  for (auto parsers : {CheckpointParsers(), DataParsers()}) {
    all.insert(all.end(), std::make_move_iterator(parsers.begin()),
               std::make_move_iterator(parsers.end()));
  }
  return all;
}

void CheckSameText(absl::string_view text, absl::string_view again) {
  if (text == again) return;
  std::fprintf(stderr, "a text changes when it is read again\n%s\n---\n%s\n",
               std::string(text).c_str(), std::string(again).c_str());
  std::abort();
}

std::string FuzzedFile(const std::string& name, absl::string_view bytes) {
  namespace fs = std::filesystem;
  const char* folder = std::getenv("TEST_TMPDIR");
  const fs::path path =
      (folder != nullptr ? fs::path(folder) : fs::temp_directory_path()) /
      absl::StrCat("fuzzed_", getpid(), "_", name);
  // Some file systems wait for the disk where a file is replaced in place.
  unlink(path.c_str());
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path.string();
}

}  // namespace mtf::fuzzing
