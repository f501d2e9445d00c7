// SPDX-License-Identifier: Apache-2.0
//
// The plan of a device that runs some instructions as one.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/parse_program.h"
#include "lowering/plan_buffers.h"
#include "lowering/print_program.h"
#include "tests/matchers.h"

namespace mtf::testing {
namespace {

// Instructions 1 to 3 as one: of values 1 to 3, %p is nobody else's.
constexpr char kProgram[] = R"(mesh{data:2}
%x : f32[b:64/data=32, c:4] = input x
%p : f32[b:64/data=32, c:4] = map(%x) exp
%s : f32[b:64/data=32] = reduce(%p) sum
%y : f32[b:64/data=32, c:4] = map(%p, %s) div
%z : f32[b:64/data=32, c:4] = map(%y, %s) mul
output(%z) z
)";

// `program` under the plan of `groups`.
std::string Planned(const std::string& program,
                    const std::vector<FusedGroup>& groups) {
  auto parsed = ParseProgram(program);
  EXPECT_OK(parsed);
  if (!parsed.ok()) return "";
  parsed->buffers = PlanBuffersOf(*parsed, groups);
  return PrintProgram(*parsed);
}

TEST(PlanBuffersOf, WithoutGroupsItIsTheProgramsOwn) {
  auto parsed = ParseProgram(kProgram);
  ASSERT_OK(parsed);
  ASSERT_OK(PlanBuffers(*parsed));
  EXPECT_EQ(Planned(kProgram, {}), PrintProgram(*parsed));
}

// %y would be written over %p, and %p over %x, which the one kernel still
// reads.
TEST(PlanBuffersOf, WhatIsMadeInsideHasNoMemoryAndResultsDoNotMeetOperands) {
  EXPECT_EQ(Planned(kProgram, {{{1, 2, 3}, {2, 3}, {}}}),
            R"(mesh{data:2}
buffers{arena:1152, commit:6}
%x : f32[b:64/data=32, c:4] @0 = input x
%p : f32[b:64/data=32, c:4] = map(%x) exp
%s : f32[b:64/data=32] @512 = reduce(%p) sum
%y : f32[b:64/data=32, c:4] @640 = map(%p, %s) div
%z : f32[b:64/data=32, c:4] @640 = map(%y, %s) mul
output(%z) z
)");
}

// Nothing behind %m reads %y, but one kernel for %m and %z may.
TEST(PlanBuffersOf, OperandsOfAGroupOfRowsStayUntilItsEnd) {
  constexpr absl::string_view kRows = R"(
mesh{data:2}
%y : f32[b:64/data=32, c:4] = input y
%m : f32[b:64/data=32] = reduce(%y) max
%z : bf16[b:64/data=32, c:4] = map(%m) [cast.bf16($0)]
output(%z) z
)";
  EXPECT_EQ(Planned(std::string(kRows), {}), R"(mesh{data:2}
buffers{arena:896, commit:4}
%y : f32[b:64/data=32, c:4] @0 = input y
%m : f32[b:64/data=32] @512 = reduce(%y) max
%z : bf16[b:64/data=32, c:4] @640 = map(%m) [cast.bf16($0)]
output(%z) z
)");
}

TEST(PlanBuffersOf, AnOutputOfAnotherFormHasItsOwnSize) {
  const auto parsed = ParseProgram(kProgram);
  ASSERT_OK(parsed);
  const std::vector<FusedGroup> plain = {{{1, 2, 3}, {1, 2, 3}, {}}};
  std::vector<FusedGroup> larger = plain;
  larger[0].bytes[2] = 1024;  // %s takes 128
  EXPECT_EQ(PlanBuffersOf(*parsed, larger).arena_bytes -
                PlanBuffersOf(*parsed, plain).arena_bytes,
            1024 - 128);
}

}  // namespace
}  // namespace mtf::testing
