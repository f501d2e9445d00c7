// SPDX-License-Identifier: Apache-2.0
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

// %u takes the place of %y, whose last reader came before.
TEST(PlanBuffers, ValuesShareMemoryWhenTheyDoNotMeet) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:64/data=32] = input x
%y : f32[b:64/data=32, c:4] = map(%x) identity
%z : f32[b:64/data=32] = reduce(%y) sum
%t : f32[c:4] unreduced{data} = reduce(%y) sum
%u : f32[b:64/data=32, c:4] = map(%z) identity
%s : f32[b:64/data=32] = reduce(%u) sum
output(%s) s
)"),
            R"(
mesh{data:2}
buffers{arena:704, commit:7}
%x : f32[b:64/data=32] @0 = input x
%y : f32[b:64/data=32, c:4] @128 = map(%x) identity
%z : f32[b:64/data=32] @0 = reduce(%y) sum
%t : f32[c:4] unreduced{data} @640 = reduce(%y) sum
%u : f32[b:64/data=32, c:4] @128 = map(%z) identity
%s : f32[b:64/data=32] @0 = reduce(%u) sum
output(%s) s
)");
}

// %y cannot: %x is read again.
TEST(PlanBuffers, AMapWritesOverAnOperandThatItReadsLast) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:64/data=32] = input x
%y : f32[b:64/data=32] = map(%x) exp
%z : f32[b:64/data=32] = map(%x, %y) add
output(%z) z
)"),
            R"(
mesh{data:2}
buffers{arena:256, commit:4}
%x : f32[b:64/data=32] @0 = input x
%y : f32[b:64/data=32] @128 = map(%x) exp
%z : f32[b:64/data=32] @0 = map(%x, %y) add
output(%z) z
)");
}

// Neither the shape nor the size of an element may change.
TEST(PlanBuffers, AMapWithAWiderResultTakesNewMemory) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:64/data=32] = input x
%y : f32[b:64/data=32, c:2] = map(%x) identity
%z : bf16[b:64/data=32, c:2] = map(%y) [cast.bf16($0)]
output(%z) z
)"),
            R"(
mesh{data:2}
buffers{arena:384, commit:4}
%x : f32[b:64/data=32] @0 = input x
%y : f32[b:64/data=32, c:2] @128 = map(%x) identity
%z : bf16[b:64/data=32, c:2] @0 = map(%y) [cast.bf16($0)]
output(%z) z
)");
}

TEST(PlanBuffers, ATransposeTakesNewMemory) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:64/data=32, c:2] = input x
%y : f32[c:2, b:64/data=32] = map(%x) identity
output(%y) z
)"),
            R"(
mesh{data:2}
buffers{arena:512, commit:3}
%x : f32[b:64/data=32, c:2] @0 = input x
%y : f32[c:2, b:64/data=32] @256 = map(%x) identity
output(%y) z
)");
}

TEST(PlanBuffers, ReductionsOverDevicesWorkInPlace) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:64/data=32, c:100] = input x
%a : f32[c:100] unreduced{data} = reduce(%x) sum
%b : f32[] unreduced{data} = reduce(%x) sum
%a.sum : f32[c:100], %b.sum : f32[] = all_reduce(%a, %b) sum over{data}
%y : f32[c:100] = map(%a.sum, %b.sum) div
output(%y) z
)"),
            R"(
mesh{data:2}
buffers{arena:13312, commit:6}
%x : f32[b:64/data=32, c:100] @0 = input x
%a : f32[c:100] unreduced{data} @12800 = reduce(%x) sum
%b : f32[] unreduced{data} @13248 = reduce(%x) sum
%a.sum : f32[c:100] @12800, %b.sum : f32[] @13248 = all_reduce(%a, %b) sum over{data}
%y : f32[c:100] @12800 = map(%a.sum, %b.sum) div
output(%y) z
)");
}

// %y is %x, and %z may write over both.
TEST(PlanBuffers, ARenameIsNoCopy) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:13/data=7] = input x
%y : f32[k:13/data=7] = reshape(%x)
%z : f32[k:13/data=7] = map(%y) exp
output(%z) z
)"),
            R"(
mesh{data:2}
buffers{arena:64, commit:4}
%x : f32[b:13/data=7] @0 = input x
%y : f32[k:13/data=7] = reshape(%x)
%z : f32[k:13/data=7] @0 = map(%y) exp
output(%z) z
)");
}

TEST(PlanBuffers, AReshapeOfPaddedShardsIsACopy) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:3, c:5=6] = input x
%c : f32[c:5/data=3] = input c
%y : f32[k:15] = reshape(%x)
output(%y) z
output(%c) c
)"),
            R"(
mesh{data:2}
buffers{arena:256, commit:5}
%x : f32[b:3, c:5=6] @0 = input x
%c : f32[c:5/data=3] @128 = input c
%y : f32[k:15] @192 = reshape(%x)
output(%y) z
output(%c) c
)");
}

TEST(PlanBuffers, AReshapeWithoutPaddingIsNoCopy) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:4/data=2, c:6] = input x
%y : f32[k:24/data=12] = reshape(%x)
output(%y) z
)"),
            R"(
mesh{data:2}
buffers{arena:64, commit:3}
%x : f32[b:4/data=2, c:6] @0 = input x
%y : f32[k:24/data=12] = reshape(%x)
output(%y) z
)");
}

TEST(PlanBuffers, AnUpdateWritesItsVariableInPlace) {
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

// A step that fails before changes nothing.
TEST(PlanBuffers, AnUpdateInPlaceCommitsAtItsMap) {
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
TEST(PlanBuffers, NothingThatCanFailComesBehindAnUpdateInPlace) {
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

TEST(PlanBuffers, AnUpdateBehindTheLastGatherIsInPlace) {
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

// What each rank has updated of its share is gathered into the variable.
TEST(PlanBuffers, AGatherOfWhatWasUpdatedIsInPlaceToo) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%w : f32[i:128] = read_variable w
%g : f32[i:128/data=64] = input g
%cut : f32[i:128/data=64] = all_slice(%w) i over{data}
%n : f32[i:128/data=64] = map(%cut, %g) sub
%whole : f32[i:128] = all_gather(%n) i over{data}
%w.new : f32[i:128] = write_variable(%whole) w
)"),
            R"(
mesh{data:2}
buffers{arena:512, commit:4}
%w : f32[i:128] @w = read_variable w
%g : f32[i:128/data=64] @0 = input g
%cut : f32[i:128/data=64] @256 = all_slice(%w) i over{data}
%n : f32[i:128/data=64] @256 = map(%cut, %g) sub
%whole : f32[i:128] @w = all_gather(%n) i over{data}
%w.new : f32[i:128] = write_variable(%whole) w
)");
}

// It would overwrite what is looked at afterwards.
TEST(PlanBuffers, AGatherBeforeALaterReaderOfTheOldValueIsNot) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%w : f32[i:128] = read_variable w
%g : f32[i:128/data=64] = input g
%whole : f32[i:128] = all_gather(%g) i over{data}
%w.new : f32[i:128] = write_variable(%whole) w
output(%w) w
)"),
            R"(
mesh{data:2}
buffers{arena:768, commit:5}
%w : f32[i:128] @w = read_variable w
%g : f32[i:128/data=64] @0 = input g
%whole : f32[i:128] @256 = all_gather(%g) i over{data}
%w.new : f32[i:128] = write_variable(%whole) w
output(%w) w
)");
}

TEST(PlanBuffers, ALaterReaderOfTheOldValueForbidsIt) {
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

TEST(PlanBuffers, AReaderOfTheOldValueUnderAnotherNameForbidsIt) {
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

TEST(PlanBuffers, WhatAReshapeGivesIsWrittenAtTheEnd) {
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

// The map reads another place than it writes.
TEST(PlanBuffers, AVariableThatIsReadTurnedIsNotOverwritten) {
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

TEST(PlanBuffers, TwoVariablesThatSwapAreWrittenAtTheEnd) {
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
TEST(PlanBuffers, AVariableThatAnotherTakesKeepsItsOldValue) {
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

TEST(PlanBuffers, AValueThatTwoVariablesTakeIsWrittenAtTheEnd) {
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

TEST(PlanBuffers, AVariableWrittenTwiceIsWrittenAtTheEnd) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%w : f32[i:100] = read_variable w
%g : f32[i:100] = input g
%n : f32[i:100] = map(%w, %g) sub
%w.new : f32[i:100] = write_variable(%n) w
%m : f32[i:100] = map(%g) neg
%w.new_1 : f32[i:100] = write_variable(%m) w
)"),
            R"(
mesh{data:2}
buffers{arena:896, commit:6}
%w : f32[i:100] @w = read_variable w
%g : f32[i:100] @0 = input g
%n : f32[i:100] @448 = map(%w, %g) sub
%w.new : f32[i:100] = write_variable(%n) w
%m : f32[i:100] @0 = map(%g) neg
%w.new_1 : f32[i:100] = write_variable(%m) w
)");
}

TEST(PlanBuffers, AnInitialValueIsMadeInItsPlace) {
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

// %late has a place of its own from the start.
TEST(PlanBuffers, InputsAreAllThereBeforeTheFirstInstruction) {
  EXPECT_EQ(AfterPass("plan_buffers", R"(
mesh{data:2}
%x : f32[b:64/data=32] = input x
%y : f32[b:64/data=32] = map(%x) exp
%z : f32[b:64/data=32] = map(%y) exp
%late : f32[b:64/data=32] = input late
%s : f32[b:64/data=32] = map(%z, %late) add
output(%s) s
)"),
            R"(
mesh{data:2}
buffers{arena:256, commit:6}
%x : f32[b:64/data=32] @0 = input x
%y : f32[b:64/data=32] @0 = map(%x) exp
%z : f32[b:64/data=32] @0 = map(%y) exp
%late : f32[b:64/data=32] @128 = input late
%s : f32[b:64/data=32] @0 = map(%z, %late) add
output(%s) s
)");
}

}  // namespace
}  // namespace mtf::testing
