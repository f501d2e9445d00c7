// SPDX-License-Identifier: Apache-2.0
#include "mtf/write_file.h"

#include <cstdio>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mtf/read_file.h"
#include "tests/matchers.h"

namespace mtf::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(WriteFile, ReplacesAnExistingFile) {
  const std::string path = ::testing::TempDir() + "/write_file_test.txt";
  ASSERT_OK(WritePlainFile(path, "a longer text", "the text", ""));
  ASSERT_OK(WritePlainFile(path, std::string("a\0b", 3), "the text", ""));
  const auto text = ReadPlainFile(path, "text", 100);
  ASSERT_OK(text);
  EXPECT_EQ(*text, std::string("a\0b", 3));
  std::remove(path.c_str());
}

TEST(WriteFile, FullDiskIsResourceExhausted) {
  EXPECT_THAT(
      WritePlainFile("/dev/full", "text", "the text", "name a folder"),
      StatusIs(
          absl::StatusCode::kResourceExhausted,
          AllOf(HasSubstr("cannot write the text to \"/dev/full\": No "
                          "space left on device"),
                HasSubstr("\n  help     make room there, or name a file on "
                          "another disk"))));
}

TEST(WriteFile, MissingFolderIsReported) {
  EXPECT_THAT(WritePlainFile("/no/such/folder/a", "text", "the text", ""),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("No such file or directory")));
}

}  // namespace
}  // namespace mtf::testing
