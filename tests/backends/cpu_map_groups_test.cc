// SPDX-License-Identifier: Apache-2.0
//
// Groups of maps on the CPU: which are found, and that they compute what their
// members compute one by one.
#include <algorithm>
#include <string>
#include <vector>

#include "lowering/lower.h"
#include "lowering/parse_program.h"
#include "tests/backends/run_on_cpu.h"
#include "tests/matchers.h"

namespace mtf::cpu {
namespace {

using ::mtf::testing::FeedsOf;
using ::mtf::testing::NamedTensors;
using ::mtf::testing::RunOnCpu;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Parses instructions, one on each line.
absl::StatusOr<Program> Parse(const std::string& text) {
  return ParseProgram(absl::StrCat(
      "mesh{x:1}\n", text,
      "end{instructions:", std::count(text.begin(), text.end(), '\n'), "}\n"));
}

constexpr FusionCapabilities kFusion = {
    .maps = {.members = 100, .any_order = true}};

std::vector<std::vector<int>> GroupsOf(const std::string& text) {
  absl::StatusOr<Program> program = Parse(text);
  EXPECT_OK(program);
  EXPECT_OK(RunPass("batch_maps", *program, kFusion));
  std::vector<std::vector<int>> groups;
  for (const FusedGroup& group : program->groups) {
    groups.push_back(group.members);
  }
  return groups;
}

constexpr char kUpdate[] =
    "%w : f32[a:100, b:9] = read_variable w\n"
    "%m : f32[a:100, b:9] = read_variable m [optimizer]\n"
    "%g : f32[a:100, b:9] = input g\n"
    "%m1 : f32[a:100, b:9] = map(%m, %g) add\n"
    "%mw : f32[a:100, b:9] = write_variable(%m1) m [optimizer]\n"
    "%w1 : f32[a:100, b:9] = map(%w, %m1) sub\n"
    "%ww : f32[a:100, b:9] = write_variable(%w1) w\n";

TEST(BatchMapsOnCpu, TheUpdateOfAParameterIsAGroup) {
  EXPECT_THAT(GroupsOf(kUpdate), ElementsAre(ElementsAre(3, 5)));
}

TEST(BatchMapsOnCpu, OtherElementsAndOtherInstructionsEndAGroup) {
  EXPECT_THAT(GroupsOf("%x : f32[a:8, b:4] = input x\n"
                       "%y : f32[a:8, b:4] = map(%x) relu\n"
                       "%z : f32[b:4, a:8] = map(%y) relu\n"
                       "%r : f32[b:4] = reduce(%z) sum\n"
                       "%u : f32[b:4, a:8] = map(%z, %r) mul\n"
                       "output(%u) u\n"),
              IsEmpty());
}

TEST(BatchMapsOnCpu, MapsOfSeveralShapesAreAGroup) {
  EXPECT_THAT(GroupsOf("%x : f32[a:8] = input x\n"
                       "%y : f32[b:9] = input y\n"
                       "%s : f32[] = input s\n"
                       "%u : f32[a:8] = map(%x, %s) mul\n"
                       "%v : f32[b:9] = map(%y, %s) mul\n"
                       "%t : f32[] = map(%s) relu\n"
                       "%q : f32[] = map(%t) relu\n"
                       "output(%u) u\n"
                       "output(%v) v\n"
                       "output(%q) q\n"),
              ElementsAre(ElementsAre(3, 4), ElementsAre(5, 6)));
}

NamedTensors RunProgram(const Program& program, int threads) {
  const auto outputs = RunOnCpu(
      program,
      FeedsOf(program,
              [](const ProgramValue& value, size_t i) {
                return static_cast<double>((i * 7919 + value.name[0]) % 255) /
                           16 -
                       7;
              }),
      threads);
  EXPECT_OK(outputs);
  return outputs.ok() ? *outputs : NamedTensors();
}

// Chains whose values share memory, in every float dtype: later results take
// the buffers of operands that earlier members have read.
TEST(MapGroups, ComputeWhatTheirMembersCompute) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (int rows : {1, 3, 100, 701}) {
      SCOPED_TRACE(absl::StrCat(dtype, " ", rows));
      const std::string type =
          absl::StrCat(" : ", dtype, "[a:", rows, ", b:9]");
      const std::string row = absl::StrCat(" : ", dtype, "[b:9]");
      absl::StatusOr<Program> program = Parse(absl::StrCat(
          "%x", type, " = input x\n%y", type, " = input y\n%z", row,
          " = input z\n%x0", type, " = map(%x, %z) add\n%y0", type,
          " = map(%y, %x0) mul\n%u", type, " = map(%x0, %y0) sub\n%v", type,
          " = map(%u, %z) mul\n%w", type, " = map(%v, %y0) add\n%c : f32[a:",
          rows, ", b:9] = map(%w, %u) [mul($0, $1); cast.f32($2)]\n%d", type,
          " = map(%c) cast\noutput(%c) c\noutput(%d) d\n"));
      ASSERT_OK(program);
      ASSERT_OK(RunPass("plan_buffers", *program));
      const auto single = RunProgram(*program, 1);
      ASSERT_OK(FuseFor(kFusion, *program));
      EXPECT_FALSE(program->groups.empty());
      for (int threads : {1, 3}) {
        EXPECT_EQ(RunProgram(*program, threads), single);
      }
    }
  }
}

// Updates of parameters of several sizes, in an order in which they alternate,
// a transpose among them, and numbers that are computed from each other.
TEST(MapGroups, OfSeveralSizesComputeWhatTheirMembersCompute) {
  for (int rows : {1, 3, 100, 701}) {
    SCOPED_TRACE(rows);
    const std::string a = absl::StrCat("f32[a:", rows, ", b:9] = ");
    const std::string t = absl::StrCat("f32[b:9, a:", rows, "] = ");
    absl::StatusOr<Program> program = Parse(absl::StrCat(
        "%x : ", a, "input x\n%y : bf16[c:5000] = input y\n",
        "%n : f32[] = input n\n%e : f32[e:0] = input e\n", "%x1 : ", a,
        "map(%x, %n) mul\n%y1 : bf16[c:5000] = map(%y) square\n", "%t1 : ", t,
        "map(%x) identity\n%e1 : f32[e:0] = map(%e) relu\n", "%x2 : ", a,
        "map(%x1, %x) sub\n%y2 : f32[c:5000] = map(%y1, %n) ",
        "[cast.f32($0); mul($1, $2)]\n%n1 : f32[] = map(%n) neg\n",
        "%n2 : f32[] = map(%n1) exp\noutput(%x2) x2\noutput(%y2) y2\n",
        "output(%t1) t1\noutput(%e1) e1\noutput(%n2) n2\n"));
    ASSERT_OK(program);
    ASSERT_OK(RunPass("plan_buffers", *program));
    const auto single = RunProgram(*program, 1);
    ASSERT_OK(FuseFor(kFusion, *program));
    EXPECT_EQ(program->groups.size(), 2);
    for (int threads : {1, 3}) {
      EXPECT_EQ(RunProgram(*program, threads), single);
    }
  }
}

}  // namespace
}  // namespace mtf::cpu
