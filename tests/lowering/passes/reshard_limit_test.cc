// SPDX-License-Identifier: Apache-2.0
//
// ExpandReshards on meshes of many axes: a program whose searches reach their
// limit is planned with the paths that they have found, and says so.
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/lower.h"
#include "tests/matchers.h"
#include "tests/program_text.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

Program Expanded(const std::string& text) {
  auto program = testing::ParseText(text);
  EXPECT_OK(program);
  if (!program.ok()) return {};
  EXPECT_OK(RunPass("expand_reshards", *program));
  return *std::move(program);
}

constexpr char kEightAxes[] =
    "mesh{p:2, q:2, r:2, s:2, t:3, u:3, v:2, w:2}\n"
    "%x : f32[a:576/r+t+s+v, b:576, c:576/q, d:576] = input x\n"
    "%y : f32[a:576, b:576/r+t+p+q+u, c:576/w+s, d:576] = reshard(%x)\n"
    "output(%y) y\n";

TEST(ExpandReshards, ASearchThatReachesItsLimitIsReported) {
  const Program program = Expanded(kEightAxes);
  ASSERT_THAT(program.notices, SizeIs(1));
  EXPECT_EQ(program.notices[0],
            "1 reshard may send more bytes than necessary: on mesh "
            "\"p:2,q:2,r:2,s:2,t:3,u:3,v:2,w:2\" the search for the cheapest "
            "collectives stopped at its limit\n"
            "  reshard  %x a:576/r+t+s+v, b:576, c:576/q, d:576 to a:576, "
            "b:576/r+t+p+q+u, c:576/w+s, d:576\n"
            "  help     give the mesh fewer axes, or a dimension the same axes "
            "in every section of the layout");
}

TEST(ExpandReshards, ThePathOfALimitedSearchIsTheSameEveryTime) {
  const Program first = Expanded(kEightAxes), second = Expanded(kEightAxes);
  ASSERT_EQ(first.instructions.size(), second.instructions.size());
  for (size_t i = 0; i < first.values.size(); ++i) {
    EXPECT_EQ(first.values[i].layout, second.values[i].layout);
  }
}

TEST(ExpandReshards, ASearchThatEndsIsNotReported) {
  EXPECT_THAT(Expanded("mesh{p:2, q:2, r:2}\n"
                       "%x : f32[a:8/p+q, b:8/r] = input x\n"
                       "%y : f32[a:8/r, b:8/q+p] = reshard(%x)\n"
                       "output(%y) y\n")
                  .notices,
              IsEmpty());
}

// Equal reshards share a search, others share the limit.
TEST(ExpandReshards, ManyLimitedSearchesAreOneNotice) {
  std::string text = "mesh{p:2, q:2, r:2, s:2, t:3, u:3, v:2, w:2}\n";
  for (int i = 0; i < 6; ++i) {
    const int size = 576 * (i / 2 * 2 + 1);
    absl::StrAppend(&text, "%x", i, " : f32[a:", size,
                    "/r+t+s+v, b:576, c:576/q, d:576] = input x", i, "\n");
    absl::StrAppend(&text, "%y", i, " : f32[a:", size,
                    ", b:576/r+t+p+q+u, c:576/w+s, d:576] = reshard(%x", i,
                    ")\n");
  }
  for (int i = 0; i < 6; ++i) {
    absl::StrAppend(&text, "output(%y", i, ") y", i, "\n");
  }
  const Program program = Expanded(text);
  ASSERT_THAT(program.notices, SizeIs(1));
  EXPECT_THAT(program.notices[0],
              StartsWith("3 reshards may send more bytes than necessary"));
  EXPECT_THAT(program.notices[0], HasSubstr("%x4 a:2880/r+t+s+v"));
}

// The search of one alone ends below its limit, which is a part of the limit of
// the program if there are many.
TEST(ExpandReshards, ManySearchesShareTheLimitOfAProgram) {
  const auto reshards = [](int count) {
    std::string text = "mesh{p:2, q:2, r:2, s:2, t:2, u:2}\n";
    for (int i = 0; i < count; ++i) {
      const int size = 64 * (2 * i + 1);
      absl::StrAppend(&text, "%x", i, " : f32[a:", size,
                      "/s+u, b:64/q+p+t, c:64] = input x", i, "\n%y", i,
                      " : f32[a:", size,
                      ", b:64/r+s+u, c:64/q+t+p] = reshard(%x", i,
                      ")\noutput(%y", i, ") y", i, "\n");
    }
    return text;
  };
  EXPECT_THAT(Expanded(reshards(1)).notices, IsEmpty());
  const Program program = Expanded(reshards(60));
  ASSERT_THAT(program.notices, SizeIs(1));
  EXPECT_THAT(program.notices[0],
              StartsWith("60 reshards may send more bytes than necessary"));
}

}  // namespace
}  // namespace mtf
