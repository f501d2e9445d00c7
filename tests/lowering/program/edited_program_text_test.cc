// SPDX-License-Identifier: Apache-2.0
//
// The text of a complete step, truncated or edited at one position: an error
// says what is wrong and where, and the text never parses as another step.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/variable.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/program_text.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A step with collectives, rules for a scope, a padded dimension and an update
// in place, planned and with origins.
std::string CompleteStep() {
  Graph graph;
  const Dimension batch{"batch", 6}, length{"length", 7}, in{"in", 4},
      out{"out", 5};
  const Tensor x = Input(graph, "x", kFloat32, {batch, length, in});
  const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {in, out}));
  const Tensor v = Variable(graph, "v", Ones(graph, kFloat32, {out, in}));
  Tensor z;
  {
    const Scope scope(graph, "inner");
    const Tensor y = Tanh(Einsum({x, w}, {batch, length, out}));
    z = Einsum({y, v}, {batch, length, in});
  }
  const Tensor loss = ReduceSum(z * z, {});
  const Tensor step = Assign(w, w - Gradients(loss, {w})[0]);
  const auto program =
      LowerText(graph, "a:2,b:3",
                "batch:a, length:b, [in inner] length:replicated, out:b",
                {.fetches = {loss}, .updates = {step}});
  EXPECT_OK(program) << ErrorText(program.status());
  return program.ok() ? PrintProgram(*program, ProgramDetail::kWithOrigins)
                      : "\n";
}

// The text in lines, each with those that continue it.
std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, " ")) {
      absl::StrAppend(&lines.back(), "\n", line);
    } else if (!line.empty()) {
      lines.emplace_back(line);
    }
  }
  return lines;
}

TEST(EditedProgramText, CompleteStepReadsBack) {
  const std::string text = CompleteStep();
  const absl::StatusOr<Program> program = ParseProgram(text);
  ASSERT_OK(program) << text;
  EXPECT_EQ(PrintProgram(*program, ProgramDetail::kWithOrigins), text);
  for (const char* part : {"buffers{", "rule [in inner] out:b", " by{",
                           "for{length/b", "=", "write_variable"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(EditedProgramText, NoLineMayBeMissing) {
  const std::vector<std::string> lines = LinesOf(CompleteStep());
  for (size_t gone = 0; gone < lines.size(); ++gone) {
    std::vector<std::string> edited = lines;
    edited.erase(edited.begin() + gone);
    EXPECT_THAT(
        ParseProgram(absl::StrJoin(edited, "\n")),
        StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("line ")))
        << lines[gone];
  }
}

TEST(EditedProgramText, NoLineMayBeThereTwice) {
  const std::vector<std::string> lines = LinesOf(CompleteStep());
  for (size_t twice = 0; twice < lines.size(); ++twice) {
    std::vector<std::string> edited = lines;
    edited.insert(edited.begin() + twice, lines[twice]);
    const absl::StatusOr<Program> program =
        ParseProgram(absl::StrJoin(edited, "\n"));
    // A rule that causes nothing may be there.
    if (absl::StartsWith(lines[twice], "rule ")) continue;
    EXPECT_THAT(program, StatusIs(absl::StatusCode::kInvalidArgument,
                                  StartsWith("line ")))
        << lines[twice];
  }
}

TEST(EditedProgramText, TruncatedTextIsReportedWhereItEnds) {
  const std::vector<std::string> lines =
      absl::StrSplit(CompleteStep(), '\n', absl::SkipEmpty());
  std::string text;
  for (size_t kept = 0; kept + 1 < lines.size(); ++kept) {
    // Truncated in the middle of the line, and after it.
    EXPECT_THAT(ErrorText(ParseProgram(text + lines[kept].substr(
                                                  0, lines[kept].size() / 2))
                              .status()),
                HasSubstr(kept == 0 ? "line 1" : "truncated"))
        << lines[kept];
    absl::StrAppend(&text, lines[kept], "\n");
    const std::string message = ErrorText(ParseProgram(text).status());
    EXPECT_THAT(message, HasSubstr("truncated"));
    if (absl::StartsWith(lines[kept + 1], " ")) continue;
    EXPECT_THAT(
        message,
        StartsWith(absl::StrCat(
            "INVALID_ARGUMENT line ", kept + 1, ", column ",
            lines[kept].size() + 1,
            ": the text is truncated: it ends without end{...}\n  help")));
  }
  EXPECT_OK(ParseProgram(absl::StrCat(text, lines.back())));
}

struct Edit {
  const char* name;
  std::string from, to;
  std::string message;  // a substring, after the position
  friend std::ostream& operator<<(std::ostream& out, const Edit& edit) {
    return out << edit.name;
  }
};

class Edited : public ::testing::TestWithParam<Edit> {};

// Each edit is made where `from` is first; the error is in that line.
TEST_P(Edited, IsReportedAtItsLine) {
  const Edit& edit = GetParam();
  std::string text = CompleteStep();
  const size_t at = text.find(edit.from);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, edit.from.size(), edit.to);
  const int64_t line = 1 + std::count(text.begin(), text.begin() + at, '\n');
  const std::string message = ErrorText(ParseProgram(text).status());
  EXPECT_THAT(message, HasSubstr(absl::StrCat("line ", line, ", column ")));
  EXPECT_THAT(message, HasSubstr(edit.message));
}

INSTANTIATE_TEST_SUITE_P(
    Steps, Edited,
    ::testing::Values(
        Edit{"ArenaBeyondAllMemory", "arena:", "arena:900000000000000",
             "the number is not from 0 to 1152921504606846976"},
        Edit{"ArenaTooLarge", "arena:", "arena:1",
             "bytes, but its last buffer ends at"},
        Edit{"AnotherCommit", "commit:", "commit:1", "the commit is 1"},
        Edit{"BuffersTwice", "rule ", "buffers{arena:0, commit:0}\nrule ",
             "buffers is given twice"},
        Edit{"AnotherPlan", "by{m ", "by{m 1",
             "the plan of this einsum is not by{m 1"},
        Edit{"NoBuffer", "] @", "] = input x\n# ", "%x has no buffer"},
        Edit{"RuleOfAnotherDimension", "for{length/b rule 0}",
             "for{length/b rule 1}", "which shards another dimension"},
        Edit{"NoSuchRule", "for{length/b rule 0}", "for{length/b rule 3}",
             "the text has 3 rules, counted from 0"},
        Edit{"MoreInstructions", "end{instructions:", "end{instructions:1",
             "lines are missing"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mtf::testing
