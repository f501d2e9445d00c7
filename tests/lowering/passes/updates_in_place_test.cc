// SPDX-License-Identifier: Apache-2.0
//
// When plan_buffers lets an update overwrite its variable, and when the
// variable is written at the end of the step.
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

TEST(UpdatesInPlace, UpdateWritesItsVariableInPlace) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%w : f32[i:100] = read_variable w
%g : f32[i:100] = input g
%n : f32[i:100] = map(%w, %g) sub
%w.new : f32[i:100] = write_variable(%n) w
output(%g) g
)"),
            R"(
mesh{data:2}
buffers{arena:448, commit:2}
%w : f32[i:100] @w = read_variable w
%g : f32[i:100] @0 = input g
%n : f32[i:100] @w = map(%w, %g) sub
%w.new : f32[i:100] = write_variable(%n) w
output(%g) g
)");
}

// A step that fails before it changes nothing.
TEST(UpdatesInPlace, UpdateInPlaceCommitsAtItsMap) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%w : f32[i:100] = read_variable w
%g : f32[i:100] = input g
%v : f32[i:100] = read_variable v
%v1 : f32[i:100] = map(%v, %g) add
%v.new : f32[i:100] = write_variable(%v1) v
%n : f32[i:100] = map(%w, %v1) sub
%w.new : f32[i:100] = write_variable(%n) w
)"),
            R"(
mesh{data:2}
buffers{arena:448, commit:3}
%w : f32[i:100] @w = read_variable w
%g : f32[i:100] @0 = input g
%v : f32[i:100] @v = read_variable v
%v1 : f32[i:100] @v = map(%v, %g) add
%v.new : f32[i:100] = write_variable(%v1) v
%n : f32[i:100] @w = map(%w, %v1) sub
%w.new : f32[i:100] = write_variable(%n) w
)");
}

// The gather may be out of range: the variable is written at the end.
TEST(UpdatesInPlace, UpdateBeforeAFailingInstructionIsNotInPlace) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%w : f32[i:100] = read_variable w
%g : f32[i:100] = input g
%t : f32[v:7, d:4] = input table
%k : i32[b:5] = input k
%n : f32[i:100] = map(%w, %g) sub
%w.new : f32[i:100] = write_variable(%n) w
%r : f32[b:5, d:4] = gather(%t, %k) v
output(%r) r
)"),
            R"(
mesh{data:2}
buffers{arena:768, commit:8}
%w : f32[i:100] @w = read_variable w
%g : f32[i:100] @0 = input g
%t : f32[v:7, d:4] @448 = input table
%k : i32[b:5] @576 = input k
%n : f32[i:100] @0 = map(%w, %g) sub
%w.new : f32[i:100] = write_variable(%n) w
%r : f32[b:5, d:4] @640 = gather(%t, %k) v
output(%r) r
)");
}

TEST(UpdatesInPlace, UpdateAfterTheLastGatherIsInPlace) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%w : f32[i:100] = read_variable w
%g : f32[i:100] = input g
%t : f32[v:7, d:4] = input table
%k : i32[b:5] = input k
%r : f32[b:5, d:4] = gather(%t, %k) v
%n : f32[i:100] = map(%w, %g) sub
%w.new : f32[i:100] = write_variable(%n) w
output(%r) r
)"),
            R"(
mesh{data:2}
buffers{arena:768, commit:5}
%w : f32[i:100] @w = read_variable w
%g : f32[i:100] @0 = input g
%t : f32[v:7, d:4] @448 = input table
%k : i32[b:5] @576 = input k
%r : f32[b:5, d:4] @640 = gather(%t, %k) v
%n : f32[i:100] @w = map(%w, %g) sub
%w.new : f32[i:100] = write_variable(%n) w
output(%r) r
)");
}

// The shards that each rank has updated are gathered into the variable.
TEST(UpdatesInPlace, GatherOfUpdatedShardsIsInPlace) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%w : f32[i:128] = read_variable w
%g : f32[i:128/data=64] = input g
%shard : f32[i:128/data=64] = all_slice(%w) i over{data}
%n : f32[i:128/data=64] = map(%shard, %g) sub
%full : f32[i:128] = all_gather(%n) i over{data}
%w.new : f32[i:128] = write_variable(%full) w
)"),
            R"(
mesh{data:2}
buffers{arena:512, commit:4}
%w : f32[i:128] @w = read_variable w
%g : f32[i:128/data=64] @0 = input g
%shard : f32[i:128/data=64] @256 = all_slice(%w) i over{data}
%n : f32[i:128/data=64] @256 = map(%shard, %g) sub
%full : f32[i:128] @w = all_gather(%n) i over{data}
%w.new : f32[i:128] = write_variable(%full) w
)");
}

// It would overwrite the value that is read later.
TEST(UpdatesInPlace, GatherBeforeAReaderOfTheOldValueIsNotInPlace) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%w : f32[i:128] = read_variable w
%g : f32[i:128/data=64] = input g
%full : f32[i:128] = all_gather(%g) i over{data}
%w.new : f32[i:128] = write_variable(%full) w
output(%w) w
)"),
            R"(
mesh{data:2}
buffers{arena:768, commit:5}
%w : f32[i:128] @w = read_variable w
%g : f32[i:128/data=64] @0 = input g
%full : f32[i:128] @256 = all_gather(%g) i over{data}
%w.new : f32[i:128] = write_variable(%full) w
output(%w) w
)");
}

TEST(UpdatesInPlace, LaterReaderOfTheOldValuePreventsIt) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%w : f32[i:100] = read_variable w
%g : f32[i:100] = input g
%n : f32[i:100] = map(%w, %g) sub
%w.new : f32[i:100] = write_variable(%n) w
output(%w) old
)"),
            R"(
mesh{data:2}
buffers{arena:448, commit:5}
%w : f32[i:100] @w = read_variable w
%g : f32[i:100] @0 = input g
%n : f32[i:100] @0 = map(%w, %g) sub
%w.new : f32[i:100] = write_variable(%n) w
output(%w) old
)");
}

TEST(UpdatesInPlace, LaterReaderOfAViewOfTheOldValuePreventsIt) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%w : f32[i:100] = read_variable w
%g : f32[i:100] = input g
%w2 : f32[i:100] = read_variable w
%w3 : f32[i2:100] = reshape(%w2)
%n : f32[i:100] = map(%w, %g) sub
%w.new : f32[i:100] = write_variable(%n) w
output(%w3) old
)"),
            R"(
mesh{data:2}
buffers{arena:448, commit:7}
%w : f32[i:100] @w = read_variable w
%g : f32[i:100] @0 = input g
%w2 : f32[i:100] @w = read_variable w
%w3 : f32[i2:100] = reshape(%w2)
%n : f32[i:100] @0 = map(%w, %g) sub
%w.new : f32[i:100] = write_variable(%n) w
output(%w3) old
)");
}

TEST(UpdatesInPlace, ReshapedValueIsWrittenAtTheEnd) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%w : f32[i:10, k:10] = read_variable w
%n : f32[i:10, k:10] = map(%w) neg
%m : f32[k:10, i:10] = map(%n) identity
%r : f32[i:10, k:10] = reshape(%m)
%w.new : f32[i:10, k:10] = write_variable(%r) w
)"),
            R"(
mesh{data:2}
buffers{arena:896, commit:5}
%w : f32[i:10, k:10] @w = read_variable w
%n : f32[i:10, k:10] @0 = map(%w) neg
%m : f32[k:10, i:10] @448 = map(%n) identity
%r : f32[i:10, k:10] = reshape(%m)
%w.new : f32[i:10, k:10] = write_variable(%r) w
)");
}

// The map reads at another offset than it writes.
TEST(UpdatesInPlace, VariableReadTransposedIsNotOverwritten) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%w : f32[i:10, k:10] = read_variable w
%t : f32[k:10, i:10] = reshape(%w)
%n : f32[i:10, k:10] = map(%w, %t) add
%w.new : f32[i:10, k:10] = write_variable(%n) w
)"),
            R"(
mesh{data:2}
buffers{arena:448, commit:4}
%w : f32[i:10, k:10] @w = read_variable w
%t : f32[k:10, i:10] = reshape(%w)
%n : f32[i:10, k:10] @0 = map(%w, %t) add
%w.new : f32[i:10, k:10] = write_variable(%n) w
)");
}

TEST(UpdatesInPlace, SwappedVariablesAreWrittenAtTheEnd) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%a : f32[i:100] = read_variable a
%b : f32[i:100] = read_variable b
%a.new : f32[i:100] = write_variable(%b) a
%b.new : f32[i:100] = write_variable(%a) b
)"),
            R"(
mesh{data:2}
buffers{arena:0, commit:4}
%a : f32[i:100] @a = read_variable a
%b : f32[i:100] @b = read_variable b
%a.new : f32[i:100] = write_variable(%b) a
%b.new : f32[i:100] = write_variable(%a) b
)");
}

// a takes the old b at the end of the step, so b is not overwritten before.
TEST(UpdatesInPlace, VariableCopiedToAnotherKeepsItsOldValue) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%a : f32[i:100] = read_variable a
%b : f32[i:100] = read_variable b
%b1 : f32[i:100] = map(%b) exp
%a.new : f32[i:100] = write_variable(%b) a
%b.new : f32[i:100] = write_variable(%b1) b
)"),
            R"(
mesh{data:2}
buffers{arena:448, commit:5}
%a : f32[i:100] @a = read_variable a
%b : f32[i:100] @b = read_variable b
%b1 : f32[i:100] @0 = map(%b) exp
%a.new : f32[i:100] = write_variable(%b) a
%b.new : f32[i:100] = write_variable(%b1) b
)");
}

TEST(UpdatesInPlace, ValueOfTwoVariablesIsWrittenAtTheEnd) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%w : f32[i:100] = read_variable w
%g : f32[i:100] = input g
%n : f32[i:100] = map(%w, %g) sub
%w.new : f32[i:100] = write_variable(%n) w
%v.new : f32[i:100] = write_variable(%n) v
)"),
            R"(
mesh{data:2}
buffers{arena:448, commit:5}
%w : f32[i:100] @w = read_variable w
%g : f32[i:100] @0 = input g
%n : f32[i:100] @0 = map(%w, %g) sub
%w.new : f32[i:100] = write_variable(%n) w
%v.new : f32[i:100] = write_variable(%n) v
)");
}

TEST(UpdatesInPlace, InitialValueIsComputedInPlace) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%n : f32[i:100] = random normal stream 0
%s : f32[i:100] = map(%n) [literal.f32(0.02); mul($0, $1)]
%w.new : f32[i:100] = write_variable(%s) w
)"),
            R"(
mesh{data:2}
buffers{arena:448, commit:1}
%n : f32[i:100] @0 = random normal stream 0
%s : f32[i:100] @w = map(%n) [literal.f32(0.02); mul($0, $1)]
%w.new : f32[i:100] = write_variable(%s) w
)");
}

}  // namespace
}  // namespace mtf::testing
