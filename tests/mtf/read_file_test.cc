// SPDX-License-Identifier: Apache-2.0
#include "mtf/read_file.h"

#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Path(const std::string& name) {
  return ::testing::TempDir() + "/" + name;
}

std::string Write(const std::string& name, const std::string& text) {
  std::ofstream(Path(name), std::ios::binary) << text;
  return Path(name);
}

TEST(ReadPlainFile, ReadsEveryByte) {
  std::string text("a\0b\n\xff", 5);
  for (int i = 0; i < 20; ++i) text += text;  // several blocks
  const auto read = ReadPlainFile(Write("bytes", text), "text", 1 << 24);
  ASSERT_OK(read);
  EXPECT_TRUE(*read == text);
}

TEST(ReadPlainFile, AnEmptyFileIsNoError) {
  const auto read = ReadPlainFile(Write("empty", ""), "text", 10);
  ASSERT_OK(read);
  EXPECT_EQ(*read, "");
}

TEST(ReadTextFile, LeavesOutAByteOrderMark) {
  for (const char* text : {"", "batch:data\n", "a\xEF\xBB\xBF"}) {
    const std::string marked = std::string("\xEF\xBB\xBF") + text;
    const auto read = ReadTextFile(Write("marked", marked), "text", 100);
    ASSERT_OK(read);
    EXPECT_EQ(*read, text);
    EXPECT_EQ(*ReadTextFile(Write("plain", text), "text", 100), text);
  }
}

TEST(ReadTextFile, ReportsTheFirstZeroByte) {
  EXPECT_THAT(ReadTextFile(Write("bytes", std::string("ab\0c\0", 5)),
                           "layout file", 100),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("cannot read layout file"),
                             HasSubstr("not a text file: byte 2 is zero"))));
}

// Files in /proc report the size 0.
TEST(ReadPlainFile, ReadsFilesInProc) {
  const auto read = ReadPlainFile("/proc/self/status", "text", 1 << 20);
  ASSERT_OK(read);
  EXPECT_THAT(*read, HasSubstr("Pid:"));
}

TEST(ReadPlainFile, NamesWhatIsMissing) {
  EXPECT_THAT(
      ReadPlainFile("/no/such", "layout file", 10),
      StatusIs(absl::StatusCode::kNotFound,
               HasSubstr("cannot read layout file \"/no/such\": No such file "
                         "or directory")));
}

TEST(ReadPlainFile, RejectsPipesAndDevices) {
  const std::string pipe = Path("pipe");
  std::remove(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero"), Path("")}) {
    EXPECT_THAT(ReadPlainFile(path, "text", 10),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("not a regular file")));
  }
}

TEST(ReadPlainFile, ReportsTheSizeLimit) {
  EXPECT_OK(ReadPlainFile(Write("ten", "0123456789"), "text", 10));
  EXPECT_THAT(ReadPlainFile(Path("ten"), "text", 9),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("10 bytes"), HasSubstr("limit is 9"))));
  EXPECT_THAT(ReadPlainFile("/proc/self/status", "text", 9),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("more than 9 bytes")));
}

// Reading /proc/self/mem fails: the first page of a process is not mapped.
TEST(ReadPlainFile, ReadErrorIsNotEndOfFile) {
  EXPECT_THAT(ReadPlainFile("/proc/self/mem", "text", 1 << 20),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("reading stopped after byte 0")));
}

}  // namespace
}  // namespace mtf
