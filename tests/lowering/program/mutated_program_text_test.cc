// SPDX-License-Identifier: Apache-2.0
//
// No text crashes the parser of programs, whatever has been done to it.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/lowering/pass_test.h"
#include "tests/lowering/program/every_instruction.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(MutatedProgramText, BytesThatAreNoTextAreEscaped) {
  const std::string text("mesh{}\n%a\0\xff : f32[] = input a\n", 31);
  EXPECT_THAT(ParseProgram(text),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "line 2, column 3: expected \":\" at "
                       "\"\\x00\\xff : f32[] = input a\""));
}

TEST(MutatedProgramText, NoPrefixOfAProgramCrashes) {
  const std::string text = kEveryInstruction;
  int valid = 0;
  for (size_t size = 0; size <= text.size(); ++size) {
    const absl::StatusOr<Program> program = ParseText(text.substr(0, size));
    if (program.ok()) {
      ++valid;
    } else {
      EXPECT_THAT(program, StatusIs(absl::StatusCode::kInvalidArgument,
                                    StartsWith("line ")));
    }
  }
  EXPECT_GT(valid, 30);
}

// A mutated text is a program or an error, never a crash. If it is a program,
// it reads back as itself.
TEST(MutatedProgramText, NoMutationOfAProgramCrashes) {
  const std::string planned =
      AfterPasses({"delay_all_reduces", "narrow_reshards", "expand_reshards",
                   "fuse_reduce_scatters", "remove_trivial_collectives",
                   "bucket_all_reduces", "shard_shapes", "fuse_maps",
                   "rematerialize_maps", "plan_einsums", "plan_buffers"},
                  kEveryInstruction);
  ASSERT_THAT(planned, HasSubstr("buffers{"));
  std::vector<std::string> snippets;  // to insert: substrings and words
  for (const std::string& text : {std::string(kEveryInstruction), planned}) {
    for (size_t begin = 0; begin + 12 < text.size(); begin += 7) {
      snippets.push_back(text.substr(begin, 1 + begin % 11));
    }
  }
  for (const char* snippet : {"",
                              "%",
                              "/",
                              "/data",
                              "/data+model",
                              "=",
                              "=7",
                              "@",
                              "@-8",
                              "@w",
                              "9223372036854775807",
                              "-9223372036854775808",
                              "4611686018427387904",
                              "99999999999999999999999",
                              "-1",
                              "0",
                              "1e999",
                              "nan",
                              "{",
                              "}",
                              "[",
                              "]",
                              "(",
                              ")",
                              "\n",
                              "\n    ",
                              "\t",
                              "\r\n",
                              "\xff",
                              "over{data}",
                              "unreduced{data}",
                              "unreduced{model} max",
                              "mesh{data:1}",
                              "mesh{data:2, model:2}\n",
                              "grains{d:data+model}\n",
                              "buffers{arena:64, commit:0}\n",
                              "by{m 1}",
                              "$99",
                              "literal.f32(1)"}) {
    snippets.push_back(snippet);
  }
  std::mt19937_64 random(20240229);
  int valid = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = random() % 2 == 0 ? kEveryInstruction : planned;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int k = 0; k < changes; ++k) {
      const size_t at = random() % text.size();
      const size_t length = std::min<size_t>(random() % 12, text.size() - at);
      switch (random() % 4) {
        case 0:  // one byte
          text[at] = static_cast<char>(random());
          break;
        case 1:  // a snippet
          text.replace(at, length, snippets[random() % snippets.size()]);
          break;
        case 2:  // nothing
          text.erase(at, length);
          break;
        default: {  // a line is moved or doubled
          const size_t line = text.find('\n', at);
          if (line == std::string::npos) break;
          const size_t end = text.find('\n', line + 1);
          if (end == std::string::npos) break;
          const std::string moved = text.substr(line, end - line);
          if (random() % 2 == 0) text.erase(line, end - line);
          const size_t to = text.find('\n', random() % text.size());
          if (to != std::string::npos) text.insert(to, moved);
          break;
        }
      }
    }
    const absl::StatusOr<Program> program = ParseText(text);
    if (!program.ok()) {
      ASSERT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument)
          << text;
      continue;
    }
    ++valid;
    const std::string printed = PrintProgram(*program);
    const absl::StatusOr<Program> again = ParseProgram(printed);
    ASSERT_OK(again) << text << "\n" << printed;
    ASSERT_EQ(PrintProgram(*again), printed) << text;
  }
  EXPECT_GT(valid, 300);
}

}  // namespace
}  // namespace mtf::testing
