// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
//
// The contents of a dumped program show which passes it has been through. A
// line
// "# after PASS" above it must agree.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/print_program.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "tools/read_program.h"

namespace mtf::tools {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

struct Stage {
  std::string pass;
  std::string text;
};

// The texts that --dump_program writes, one after each pass.
std::vector<Stage> StagesUnder(const std::string& layout) {
  Graph graph;
  const auto model = testing::BuildTransformer(graph, {.layers = 2});
  std::vector<Stage> stages;
  LowerOptions options;
  options.after_pass = [&](absl::string_view pass, const Program& program) {
    stages.push_back({std::string(pass),
                      PrintProgram(program, ProgramDetail::kWithOrigins)});
  };
  Targets targets;
  targets.fetches = {model.loss};
  targets.updates = {model.step};
  if (layout.empty()) {
    EXPECT_OK(testing::LowerText(graph, "", "", targets, options));
  } else {
    EXPECT_OK(testing::LowerPreset(graph, layout, 4, targets, options));
  }
  return stages;
}

// Collectives and memory of a step, as text.
std::string CostOf(const Program& program) {
  return absl::StrCat(testing::Costs(program), program.buffers.arena_bytes,
                      " bytes");
}

class EveryHeading : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryHeading, ExplainsTheSameOrIsRefused) {
  if (GetParam() != "zero3") {
    SKIP_UNDER_SANITIZERS("one program is enough");
    if (GetParam() != "megatron_sequence" && !GetParam().empty())
      SKIP_UNLESS_THOROUGH("three layouts are tried");
  }
  const std::vector<Stage> stages = StagesUnder(GetParam());
  ASSERT_EQ(stages.size(), PassNames().size() + 1);
  const absl::StatusOr<Program> whole = ParseDump(stages.back().text, "p.txt");
  ASSERT_OK(whole);
  const std::string cost = CostOf(*whole);
  int refused = 0;
  for (const Stage& stage : stages) {
    const absl::StatusOr<Program> bare = ParseDump(stage.text, "p.txt");
    ASSERT_OK(bare) << stage.pass;
    EXPECT_EQ(CostOf(*bare), cost) << stage.pass;
    for (const Stage& heading : stages) {
      const absl::StatusOr<Program> program = ParseDump(
          absl::StrCat("# after ", heading.pass, "\n", stage.text), "p.txt");
      SCOPED_TRACE(absl::StrCat(stage.pass, " as ", heading.pass));
      if (program.ok()) {
        EXPECT_EQ(CostOf(*program), cost);
        continue;
      }
      ++refused;
      EXPECT_NE(stage.pass, heading.pass);
      EXPECT_THAT(
          program.status(),
          StatusIs(
              absl::StatusCode::kInvalidArgument,
              AllOf(HasSubstr(
                        absl::StrCat("line 1: the text is not the output of ",
                                     heading.pass, ": it has ")),
                    HasSubstr("\n  stages   it may be the output of "),
                    HasSubstr(stage.pass), HasSubstr("\n  file     p.txt"))));
    }
  }
  // Without sharded dimensions most passes leave no trace.
  EXPECT_GE(refused, GetParam().empty() ? 13 : 100);
}

INSTANTIATE_TEST_SUITE_P(Layouts, EveryHeading,
                         ::testing::Values("", "data", "megatron", "zero3",
                                           "data_model", "all_to_all",
                                           "megatron_sequence"),
                         [](const auto& info) {
                           return info.param.empty() ? "one_device"
                                                     : info.param;
                         });

constexpr char kCut[] =
    "mesh{data:2}\n%x : f32[b:8/data, k:4] = input x\n"
    "output(%x) x\nend{instructions:2}\n";

TEST(ProgramStages, ALateHeadingOfAnEarlyTextIsAnError) {
  EXPECT_THAT(
      ParseDump(absl::StrCat("\n# after plan_buffers\n", kCut), "p.txt"),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          HasSubstr("line 2: the text is not the output of plan_buffers: it "
                    "has dimension \"b:8\" of %x without its extent on "
                    "each device, \"=4\"\n")));
}

TEST(ProgramStages, GroupsFollowThePassThatWritesThem) {
  const std::string text =
      "mesh{}\n%x : f32[b:8, k:64] = input x\n"
      "%m : f32[b:8] = reduce(%x) max\n"
      "%e : f32[b:8, k:64] = map(%x, %m) sub\n"
      "%s : f32[b:8] = reduce(%e) sum\noutput(%s) s\n"
      "group rows(%m, %e, %s)\nend{instructions:5}\n";
  EXPECT_THAT(ParseDump("# after plan_einsums\n" + text, "p.txt"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("it has a group, that of %m\n")));
  for (const char* heading :
       {"", "# after fuse_rows\n", "# after batch_maps\n"}) {
    const absl::StatusOr<Program> program = ParseDump(heading + text, "p.txt");
    ASSERT_OK(program);
    EXPECT_EQ(program->groups.size(), 1u);
    // %m and %e have no memory.
    EXPECT_EQ(program->buffers.arena_bytes, 8 * 64 * 4 + 64);
  }
}

TEST(ProgramStages, EveryReshardIsExpanded) {
  const std::string text =
      "mesh{data:2}\n%x : f32[b:8/data] = input x\n"
      "%y : f32[b:8] = reshard(%x)\noutput(%y) y\nend{instructions:3}\n";
  const absl::StatusOr<Program> program = ParseDump(text, "p.txt");
  ASSERT_OK(program);
  EXPECT_EQ(testing::Costs(program), "all_gather data 1x 16\n");
  EXPECT_THAT(ParseDump("# after expand_reshards\n" + text, "p.txt"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("it has a reshard, %y\n")));
}

// A text written by hand may already have collectives, of several values too.
TEST(ProgramStages, ReshardsAreExpandedAlsoWithCollectives) {
  const absl::StatusOr<Program> program = ParseDump(
      "mesh{data:2}\n%x : f32[b:8/data] = input x\n"
      "%s : f32[] unreduced{data} = reduce(%x) sum\n"
      "%t : f32[] unreduced{data} = map(%s) neg\n"
      "%u : f32[], %v : f32[] = all_reduce(%s, %t) sum over{data}\n"
      "%y : f32[b:8] = reshard(%x)\noutput(%y) y\noutput(%u) u\n"
      "output(%v) v\nend{instructions:8}\n",
      "p.txt");
  ASSERT_OK(program);
  EXPECT_EQ(testing::Costs(program),
            "all_reduce data 1x 8\nall_gather data 1x 16\n");
}

// No pass leaves a reshard together with local extents.
TEST(ProgramStages, AReshardWithLocalExtentsFitsNoPass) {
  const std::string text =
      "mesh{data:2}\n%x : f32[b:8/data=4] = input x\n"
      "%y : f32[b:8] = reshard(%x)\noutput(%y) y\nend{instructions:3}\n";
  for (const char* heading :
       {"", "# after emit_program\n", "# after shard_shapes\n"}) {
    EXPECT_THAT(ParseDump(heading + text, "p.txt"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("line 1: the text fits no pass: it "
                                         "has dimension \"b:8\" of %x with "),
                               HasSubstr(", but has a reshard, %y\n"))));
  }
}

TEST(ProgramStages, OtherCommentsAreIgnored) {
  for (const char* comment :
       {"# after lunch I edited this\n", "# after\n", "# after \n",
        "# after plan_buffers, I think\n", "#after plan_buffers\n"}) {
    EXPECT_OK(ParseDump(absl::StrCat(comment, kCut), "p.txt")) << comment;
    EXPECT_OK(ParseDump(
        absl::StrCat("# after emit_program\r\n", comment, kCut, comment),
        "p.txt"))
        << comment;
  }
}

TEST(ProgramStages, ErrorsNameTheFileOnce) {
  for (const char* text : {"\x01\x02",
                           "mesh{data:2}\n%x : f32[b:8] = input x\n"
                           "end{instructions:1}\n"}) {
    EXPECT_THAT(ParseDump(text, "p.txt"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("\"p.txt\""),
                               Not(ContainsRegex("file +p.txt")))));
  }
}

}  // namespace
}  // namespace mtf::tools
