// SPDX-License-Identifier: Apache-2.0
//
// The memory plan of a device that runs groups of instructions as one kernel.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/passes/plan_buffers.h"
#include "lowering/verify/verify_program.h"
#include "tests/matchers.h"
#include "tests/program_text.h"

namespace mtf::testing {
namespace {

// Instructions 1 to 3 as one kernel: of values 1 to 3, only %p is internal.
constexpr char kProgram[] = R"(mesh{data:2}
%x : f32[b:64/data=32, c:4] = input x
%p : f32[b:64/data=32, c:4] = map(%x) exp
%s : f32[b:64/data=32] = reduce(%p) sum
%y : f32[b:64/data=32, c:4] = map(%p, %s) div
%z : f32[b:64/data=32, c:4] = map(%y, %s) mul
output(%z) z
)";

// `program` with a plan for one group of rows.
Program PlannedFor(const std::string& program, const std::vector<int>& rows) {
  auto parsed = ParseText(program);
  EXPECT_OK(parsed);
  if (!parsed.ok()) return Program();
  if (!rows.empty()) parsed->groups = {{rows, RowGroup()}};
  EXPECT_OK(PlanBuffers(*parsed));
  EXPECT_OK(VerifyProgram(*parsed));
  return *std::move(parsed);
}
std::string Planned(const std::string& program, const std::vector<int>& rows) {
  return TextOf(PlannedFor(program, rows));
}

// The kernel reads %x, which %y then overwrites.
TEST(PlanBuffersOfGroups, InternalValuesHaveNoMemory) {
  EXPECT_EQ(Planned(kProgram, {1, 2, 3}),
            R"(mesh{data:2}
buffers{arena:640, commit:6}
%x : f32[b:64/data=32, c:4] @0 = input x
%p : f32[b:64/data=32, c:4] = map(%x) exp
%s : f32[b:64/data=32] @512 = reduce(%p) sum
%y : f32[b:64/data=32, c:4] @0 = map(%p, %s) div
%z : f32[b:64/data=32, c:4] @0 = map(%y, %s) mul
output(%z) z
group rows(%p, %s, %y)
)");
}

// Rows are read before they are written: %z may overwrite %x, and %y, which is
// internal, has no memory.
TEST(PlanBuffersOfGroups, RowGroupOverwritesAnOperandOfTheSameShape) {
  EXPECT_EQ(Planned(kProgram, {1, 2, 3, 4}),
            R"(mesh{data:2}
buffers{arena:512, commit:6}
%x : f32[b:64/data=32, c:4] @0 = input x
%p : f32[b:64/data=32, c:4] = map(%x) exp
%s : f32[b:64/data=32] = reduce(%p) sum
%y : f32[b:64/data=32, c:4] = map(%p, %s) div
%z : f32[b:64/data=32, c:4] @0 = map(%y, %s) mul
output(%z) z
group rows(%p, %s, %y, %z)
)");
}

// The group of %s and %z runs before %t, which reads %x.
TEST(PlanBuffersOfGroups, OperandReadBetweenTheMembersIsNotOverwritten) {
  constexpr char kBetween[] = R"(mesh{data:2}
%x : f32[b:64/data=32, c:4] = input x
%s : f32[b:64/data=32] = reduce(%x) sum
%t : f32[c:4] unreduced{data} = reduce(%x) sum
%z : f32[b:64/data=32, c:4] = map(%x, %s) mul
output(%z) z
)";
  EXPECT_EQ(Planned(kBetween, {1, 3}),
            R"(mesh{data:2}
buffers{arena:1088, commit:5}
%x : f32[b:64/data=32, c:4] @0 = input x
%s : f32[b:64/data=32] = reduce(%x) sum
%t : f32[c:4] unreduced{data} @1024 = reduce(%x) sum
%z : f32[b:64/data=32, c:4] @512 = map(%x, %s) mul
output(%z) z
group rows(%s, %z)
)");
}

// Only one of two results can reuse the memory of %x.
TEST(PlanBuffersOfGroups, OperandIsOverwrittenOnce) {
  constexpr char kTwo[] = R"(mesh{data:2}
%x : f32[b:64/data=32, c:4] = input x
%s : f32[b:64/data=32] = reduce(%x) sum
%y : f32[b:64/data=32, c:4] = map(%x, %s) mul
%z : f32[b:64/data=32, c:4] = map(%x, %s) div
output(%y) y
output(%z) z
)";
  EXPECT_EQ(Planned(kTwo, {1, 2, 3}),
            R"(mesh{data:2}
buffers{arena:1024, commit:6}
%x : f32[b:64/data=32, c:4] @0 = input x
%s : f32[b:64/data=32] = reduce(%x) sum
%y : f32[b:64/data=32, c:4] @0 = map(%x, %s) mul
%z : f32[b:64/data=32, c:4] @512 = map(%x, %s) div
output(%y) y
output(%z) z
group rows(%s, %y, %z)
)");
}

// %t reads the old value after the position where the group would change
// it.
TEST(PlanBuffersOfGroups, GroupUpdatesAVariableInPlaceWithoutLaterReaders) {
  const auto update = [](bool read_between) {
    return absl::StrCat(R"(mesh{data:2}
%w : f32[b:64, c:4] = read_variable w
%s : f32[b:64] = reduce(%w) sum
)",
                        read_between ? "%t : f32[c:4] = reduce(%w) sum\n"
                                     : "%t : f32[b:64] = map(%s) exp\n",
                        R"(%z : f32[b:64, c:4] = map(%w, %s) mul
%w.2 : f32[b:64, c:4] = write_variable(%z) w
output(%t) t
)");
  };
  for (bool read_between : {false, true}) {
    const Program planned = PlannedFor(update(read_between), {1, 3});
    const BufferPlan& plan = planned.buffers;
    const int z = planned.instructions[3].results[0];
    EXPECT_EQ(plan.buffers[z].storage, read_between
                                           ? BufferPlan::Storage::kArena
                                           : BufferPlan::Storage::kVariable);
    EXPECT_EQ(plan.commit, read_between ? 6 : 1);
  }
}

// The second member of the group writes at the position of the first, before
// the instructions in between.
TEST(PlanBuffersOfGroups, OutputsLiveFromTheFirstMemberOn) {
  auto program = ParseText(R"(mesh{data:1}
%a : f32[b:64=64, c:4=4] = input a
%x : f32[p:256=256] = input x
%u : f32[p:256=256] = map(%x) exp
%r : f32[b:64=64] = reduce(%a) max
%s : f32[] = reduce(%u) sum
%t : f32[d:300=300] = map(%s) identity
%y : f32[b:64=64, c:4=4] = map(%a, %r) sub
%w : f32[b:64=64, c:4=4] = map(%y, %a) add
output(%w) w
output(%y) y
output(%t) t
output(%a) a
)");
  ASSERT_OK(program);
  program->groups = {{{3, 6, 7}, RowGroup()}};
  ASSERT_OK(PlanBuffers(*program));
  ASSERT_OK(VerifyProgram(*program));
  const BufferPlan& plan = program->buffers;
  const auto range = [&](int value) {
    const int64_t begin = plan.buffers[value].offset;
    return std::pair(begin, begin + program->values[value].local_bytes());
  };
  // %y and %w are written by instruction 3, %u is read by instruction 4.
  const auto [begin, end] = range(2);
  for (int value : {6, 7}) {
    EXPECT_TRUE(range(value).second <= begin || range(value).first >= end)
        << value;
  }
  EXPECT_LE(std::max({range(6).second, range(7).second, end}),
            plan.arena_bytes);
}

}  // namespace
}  // namespace mtf::testing
