// SPDX-License-Identifier: Apache-2.0
#include "train/session/plan_check.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layouts/mesh.h"
#include "tests/matchers.h"
#include "tests/program_text.h"
#include "train/loop/flags.h"

ABSL_DECLARE_FLAG(std::string, machine);
ABSL_DECLARE_FLAG(std::string, budget);

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Fields = std::vector<PlanField>;

// Runs the check on `count` ranks as threads, with the fields `fields(rank)`.
// Every rank must return the same status.
absl::Status Check(int count, const std::function<Fields(int64_t)>& fields) {
  LocalRanks ranks(*Mesh::Parse(absl::StrCat("ranks:", count)));
  std::vector<absl::Status> found(count);
  EXPECT_OK(ranks.Run([&](Communicator& communicator) {
    found[communicator.rank()] =
        CheckSamePlan(communicator, fields(communicator.rank()));
    return absl::OkStatus();
  }));
  for (const absl::Status& status : found) EXPECT_EQ(status, found[0]);
  return found[0];
}

constexpr absl::string_view kHelp =
    "\n  help     start every rank with the same flags, environment and files";

TEST(PlanCheck, EqualFieldsAreOk) {
  for (int ranks : {1, 2, 3, 8}) {
    EXPECT_OK(Check(ranks, [](int64_t) {
      return Fields{{"--layout", "zero3"}, {"the program", "a\nb\nc"}};
    }));
    EXPECT_OK(Check(ranks, [](int64_t) { return Fields{}; }));
  }
}

TEST(PlanCheck, TheDifferingRankAndBothValuesAreNamed) {
  for (int64_t odd : {0, 1, 3}) {
    const std::string rest = odd == 0   ? "ranks 1-3"
                             : odd == 1 ? "ranks 0, 2-3"
                                        : "ranks 0-2";
    EXPECT_EQ(std::string(Check(4,
                                [odd](int64_t rank) {
                                  return Fields{
                                      {"--seed", "1"},
                                      {"--layout",
                                       rank == odd ? "zero3" : "megatron"}};
                                })
                              .message()),
              absl::StrCat("rank ", odd, " has --layout \"zero3\", ", rest,
                           " have \"megatron\"", kHelp));
  }
}

TEST(PlanCheck, OfTwoRanksRank0ComesLast) {
  EXPECT_THAT(Check(2,
                    [](int64_t rank) {
                      return Fields{{"backend", rank == 0 ? "cpu" : "gpu"}};
                    }),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       StartsWith("rank 1 has backend \"gpu\", rank 0 has "
                                  "\"cpu\"\n")));
}

TEST(PlanCheck, EveryDifferingFieldIsReported) {
  EXPECT_THAT(std::string(Check(3,
                                [](int64_t rank) {
                                  return Fields{
                                      {"a", rank == 2 ? "1" : "0"},
                                      {"b", "same"},
                                      {"c", absl::StrCat(rank)},
                                  };
                                })
                              .message()),
              absl::StrCat(
                  "rank 2 has a \"1\", ranks 0-1 have \"0\"\n"
                  "  also     rank 2 has c \"2\", rank 1 has \"1\", rank 0 has "
                  "\"0\"",
                  kHelp));
}

TEST(PlanCheck, AFieldThatSomeRanksLackIsReported) {
  const auto fields = [](int64_t rank) {
    Fields fields = {{"z", "1"}};
    if (rank == 1) fields.push_back({"MTF_X", ""});
    return fields;
  };
  EXPECT_THAT(std::string(Check(3, fields).message()),
              StartsWith("rank 1 has MTF_X \"\", ranks 0, 2 have no MTF_X\n"));
}

TEST(PlanCheck, OfManyLinesTheFirstThatDiffersIsReported) {
  const auto program = [](int64_t lines, int64_t other) {
    std::string text;
    for (int64_t i = 0; i < lines; ++i) {
      absl::StrAppend(&text, "line ", i, i == other ? " differs" : "", "\n");
    }
    return text;
  };
  for (int64_t other : {0, 1, 17, 998, 999}) {
    EXPECT_THAT(
        std::string(Check(3,
                          [&](int64_t rank) {
                            return Fields{
                                {"the program",
                                 program(1000, rank == 1 ? other : -1)}};
                          })
                        .message()),
        StartsWith(absl::StrCat(
            "rank 1 has line ", other + 1, " of the program \"line ", other,
            " differs\", ranks 0, 2 have \"line ", other, "\"\n")));
  }
  // A text that ends early; texts that differ on all ranks at different lines.
  EXPECT_THAT(
      std::string(Check(2,
                        [&](int64_t rank) {
                          return Fields{{"x", rank == 0 ? "a\nb\nc" : "a\nb"}};
                        })
                      .message()),
      StartsWith("rank 1 has no line 3 of x, rank 0 has \"c\"\n"));
  EXPECT_THAT(std::string(Check(4,
                                [&](int64_t rank) {
                                  return Fields{{"x", program(50, 10 + rank)}};
                                })
                              .message()),
              StartsWith("rank 0 has line 11 of x \"line 10 differs\", ranks "
                         "1-3 have \"line 10\"\n"));
}

TEST(PlanCheck, LongValuesAreAbbreviatedToTheDifference) {
  const std::string begin(5000, 'x');
  const std::string message(
      Check(2, [&](int64_t rank) {
        return Fields{{"--layout", begin + (rank == 1 ? "a:b" : "a:c")}};
      }).message());
  EXPECT_LT(message.size(), 400u);
  EXPECT_THAT(message, AllOf(HasSubstr("xxa:b\""), HasSubstr("xxa:c\"")));
}

TEST(PlanCheck, ControlCharactersInValuesAreEscaped) {
  const std::string message(
      Check(2, [&](int64_t rank) {
        return Fields{{"--text", rank == 1 ? "\x1b[2J\r\xff" : "t"}};
      }).message());
  EXPECT_THAT(message, HasSubstr(R"(rank 1 has --text "\x1b[2J\r\xff")"));
}

TEST(PlanCheck, ManyRanksAreAbbreviated) {
  const std::string message(
      Check(64, [&](int64_t rank) {
        return Fields{{"seed", rank % 2 == 0 ? "0" : "1"}};
      }).message());
  EXPECT_THAT(message,
              StartsWith("ranks 1, 3, 5, 7, 9, 11 and 26 more have seed "
                         "\"1\", ranks 0, 2, 4, 6, 8, 10 and 26 more have "
                         "\"0\"\n"));
  EXPECT_THAT(std::string(Check(16,
                                [&](int64_t rank) {
                                  return Fields{{"seed", absl::StrCat(rank)}};
                                })
                              .message()),
              HasSubstr("and other ranks have 12 more values"));
}

TEST(PlanCheck, ALargeProgramIsComparedToo) {
  std::string text;
  for (int i = 0; i < 100000; ++i) {
    absl::StrAppend(&text, "%v", i, " : f32[batch:8/data] = map(%v) relu\n");
  }
  std::string other = text;
  other[other.size() / 3] ^= 1;
  EXPECT_THAT(Check(4,
                    [&](int64_t rank) {
                      return Fields{{"the program", rank == 3 ? other : text}};
                    }),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       StartsWith("rank 3 has line 3")));
}

TEST(PlanFields, OfProcessAreFlagsAndEnvironment) {
  ASSERT_EQ(setenv("MTF_SOMETHING", "7", 1), 0);
  ASSERT_EQ(absl::GetFlag(FLAGS_seed), 0u);  // links the flags
  ASSERT_EQ(setenv("MTF_TERMINAL", "1", 1), 0);
  const char* const threads = getenv("OMP_NUM_THREADS");
  const std::string threads_before = threads == nullptr ? "" : threads;
  ASSERT_EQ(setenv("OMP_NUM_THREADS", "7", 1), 0);
  std::string text;
  for (const PlanField& field : FieldsOfProcess()) {
    absl::StrAppend(&text, field.name, "=", field.value, "\n");
  }
  ASSERT_EQ(unsetenv("MTF_SOMETHING"), 0);
  ASSERT_EQ(unsetenv("MTF_TERMINAL"), 0);
  if (threads == nullptr) {
    ASSERT_EQ(unsetenv("OMP_NUM_THREADS"), 0);
  } else {
    ASSERT_EQ(setenv("OMP_NUM_THREADS", threads_before.c_str(), 1), 0);
  }
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("version of the library=0."), HasSubstr("\n--seed=0\n"),
            HasSubstr("\n--layout=\n"), HasSubstr("\nMTF_SOMETHING=7\n"),
            HasSubstr("\nOMP_NUM_THREADS=7\n"),
            // Distinguishes two builds of one version.
            ::testing::ContainsRegex("build of the program=[0-9a-f]{16}"),
            Not(HasSubstr("MTF_TERMINAL")), Not(HasSubstr("log_json"))));
}

// The field of the file given by --text.
std::string FieldOfText(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary) << contents;
  const std::string before = absl::GetFlag(FLAGS_text);
  absl::SetFlag(&FLAGS_text, path);
  const Fields fields = FieldsOfInputFiles();
  absl::SetFlag(&FLAGS_text, before);
  std::remove(path.c_str());
  if (fields.size() != 1) return absl::StrCat(fields.size(), " fields");
  EXPECT_EQ(fields[0].name, absl::StrCat("file ", path, " (--text)"));
  return fields[0].value;
}

TEST(PlanFields, OfInputFilesDependOnTheirContents) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/plan_text");
  const std::string text(200'000, 'x');
  const std::string field = FieldOfText(path, text);
  EXPECT_THAT(field, StartsWith("200000 bytes of checksum "));
  EXPECT_EQ(FieldOfText(path, text), field);
  // A change of one byte in any chunk.
  for (size_t offset : {0, 65535, 65536, 131071, 199'999}) {
    std::string other = text;
    other[offset] = 'y';
    EXPECT_NE(FieldOfText(path, other), field) << offset;
  }
  // A permutation of chunks.
  EXPECT_NE(
      FieldOfText(path, std::string(65536, 'a') + std::string(65536, 'b')),
      FieldOfText(path, std::string(65536, 'b') + std::string(65536, 'a')));
  EXPECT_THAT(FieldOfText(path, ""), StartsWith("0 bytes of checksum "));
  // Too large to be read completely: the beginning and the end are read.
  std::string large(70 << 20, 'x');
  const std::string of_large = FieldOfText(path, large);
  large.back() = 'y';
  EXPECT_NE(FieldOfText(path, large), of_large);
  large.back() = 'x';
  large.front() = 'y';
  EXPECT_NE(FieldOfText(path, large), of_large);
}

TEST(PlanFields, OfFilesThatAreNotRegularAreSkipped) {
  const std::string before = absl::GetFlag(FLAGS_text);
  for (const char* path : {"", "/no/such/file", "/dev/zero", "/tmp"}) {
    absl::SetFlag(&FLAGS_text, path);
    EXPECT_TRUE(FieldsOfInputFiles().empty()) << path;
  }
  absl::SetFlag(&FLAGS_text, before);
}

TEST(PlanFields, OfMachineAndBudgetAreTheirFiles) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/plan_file");
  std::ofstream(path) << "x";
  absl::SetFlag(&FLAGS_machine, path);
  absl::SetFlag(&FLAGS_budget, absl::StrCat("@", path));
  const Fields fields = FieldsOfInputFiles();
  absl::SetFlag(&FLAGS_machine, "h100_nvlink_ib");
  absl::SetFlag(&FLAGS_budget, "nothing over x");
  EXPECT_TRUE(FieldsOfInputFiles().empty());
  absl::SetFlag(&FLAGS_budget, "");
  std::remove(path.c_str());
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(fields[0].name, absl::StrCat("file ", path, " (--machine)"));
  EXPECT_EQ(fields[1].name, absl::StrCat("file ", path, " (--budget)"));
}

TEST(PlanFields, OfSessionHaveEachRuleAndBudgetLine) {
  const auto check = [](const char* layout_of_1, const char* mesh_of_1,
                        bool strict_of_1, uint32_t seed_of_1,
                        const char* backend_of_1) {
    return Check(2, [=](int64_t rank) {
      const LayoutRules rules = *LayoutRules::Parse(
          rank == 1 ? layout_of_1 : "a:x, b:y [budget] nothing over y", "f");
      const Mesh mesh = *Mesh::Parse(rank == 1 ? mesh_of_1 : "x:2");
      return FieldsOfSession(mesh, rules, rank == 1 && strict_of_1,
                             rank == 1 ? backend_of_1 : "cpu",
                             rank == 1 ? seed_of_1 : 0);
    });
  };
  constexpr const char* kSame = "a:x b:y\n[budget]\nnothing over y";
  EXPECT_OK(check(kSame, "x:2", false, 0, "cpu"));
  EXPECT_THAT(check("a:x b:x [budget] nothing over y", "x:2", false, 0, "cpu"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("rank 1 has line 2 of the layout \"[default] "
                                 "b:x\", rank 0 has \"[default] b:y\"")));
  EXPECT_THAT(check("a:x b:y", "x:2", false, 0, "cpu"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("rank 0 has \"[budget] nothing over y\"")));
  EXPECT_THAT(check(kSame, "y:2", false, 0, "cpu"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("rank 1 has mesh \"y:2\"")));
  EXPECT_THAT(check(kSame, "x:2", true, 0, "cpu"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("rank 1 has strict layout \"yes\"")));
  EXPECT_THAT(check(kSame, "x:2", false, 5, "cpu"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("rank 1 has seed \"5\"")));
  EXPECT_THAT(check(kSame, "x:2", false, 0, "reference"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("rank 1 has backend \"reference\"")));
}

TEST(PlanFields, OfProgramNameTheInstruction) {
  const auto check = [](const std::string& function) {
    return Check(2, [&](int64_t rank) {
      const auto program = testing::ParseText(absl::StrCat(
          "mesh{x:2}\n%a : f32[b:16/x] = input a\n%r : f32[b:16/x] = map(%a) ",
          rank == 1 ? function : "relu", "\noutput(%r) r\n"));
      EXPECT_OK(program);
      return FieldsOfProgram(*program);
    });
  };
  EXPECT_OK(check("relu"));
  EXPECT_THAT(check("tanh"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("line 3 of the program \"%r : f32[b:16/x] = "
                                 "map(%a) tanh\", rank 0 has \"%r : "
                                 "f32[b:16/x] = map(%a) relu\"")));
}

TEST(PlanFields, OfFeedsDependOnTheirContents) {
  const auto check = [](float of_rank_1) {
    return Check(2, [=](int64_t rank) {
      const HostTensor x = HostTensor::Of<float>(
          {{"batch", 3}}, {1, 2, rank == 1 ? of_rank_1 : 3.0f});
      return FieldsOfFeeds({{"x", x}});
    });
  };
  EXPECT_OK(check(3));
  EXPECT_THAT(check(4),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       StartsWith("rank 1 has feed \"x\" \"f32[batch=3] of "
                                  "checksum ")));
}

}  // namespace
}  // namespace mtf::train
