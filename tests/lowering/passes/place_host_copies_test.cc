// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/place_host_copies.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kPass[] = "place_host_copies";

TEST(PlaceHostCopies, CopiesAreNextToReadersAndWrites) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{data:2}
%g : f32[io:4] = input g
%m : f32[io:4] = read_variable m [optimizer offload]
%w : f32[io:4] = read_variable w
%m_1 : f32[io:4] = map(%m, %g) add
%m_2 : f32[io:4] = write_variable(%m_1) m [optimizer offload]
%w_1 : f32[io:4] = map(%w, %m_2) sub
%w_2 : f32[io:4] = write_variable(%w_1) w
)"),
            R"(
mesh{data:2}
%g : f32[io:4] = input g
%m : f32[io:4] = read_variable m [optimizer offload]
%w : f32[io:4] = read_variable w
%m_3 : f32[io:4] = copy_to_device(%m)
%m_1 : f32[io:4] = map(%m_3, %g) add
%m_1_1 : f32[io:4] = copy_to_host(%m_1)
%m_2 : f32[io:4] = write_variable(%m_1_1) m [optimizer offload]
%w_1 : f32[io:4] = map(%w, %m_1) sub
%w_2 : f32[io:4] = write_variable(%w_1) w
)");
}

TEST(PlaceHostCopies, TheNewValueWaitsForReadersOfTheOldAndForFailures) {
  EXPECT_EQ(AfterPass(kPass, R"(
mesh{data:2}
%at : i32[] = input at
%w : f32[io:4] = read_variable w [offload]
%new : f32[io:4] = map(%w) neg
%w_1 : f32[io:4] = write_variable(%new) w [offload]
%y : f32[io:4] = map(%w) exp
output(%y) y
%at_1 : i32[] = check_index(%at) 1 of length:64
output(%at_1) at
)"),
            R"(
mesh{data:2}
%at : i32[] = input at
%w : f32[io:4] = read_variable w [offload]
%w_2 : f32[io:4] = copy_to_device(%w)
%new : f32[io:4] = map(%w_2) neg
%y : f32[io:4] = map(%w_2) exp
output(%y) y
%at_1 : i32[] = check_index(%at) 1 of length:64
%new_1 : f32[io:4] = copy_to_host(%new)
%w_1 : f32[io:4] = write_variable(%new_1) w [offload]
output(%at_1) at
)");
}

// As in an initialization: one value at a time is in device memory.
TEST(PlaceHostCopies, WritesAtTheEndAreCopiedWhereTheirValuesAreComputed) {
  EXPECT_EQ(AfterPasses({kPass, "plan_buffers"}, R"(
mesh{data:2}
%x : f32[io:4] = random uniform stream 0
%y : f32[io:4] = random uniform stream 1
%a : f32[io:4] = write_variable(%x) a [offload]
%b : f32[io:4] = write_variable(%y) b [offload]
)"),
            R"(
mesh{data:2}
buffers{arena:64, commit:1}
%x : f32[io:4] @0 = random uniform stream 0
%x_1 : f32[io:4] @a = copy_to_host(%x)
%a : f32[io:4] = write_variable(%x_1) a [offload]
%y : f32[io:4] @0 = random uniform stream 1
%y_1 : f32[io:4] @b = copy_to_host(%y)
%b : f32[io:4] = write_variable(%y_1) b [offload]
)");
}

// The map may become the epilogue of the einsum, which runs where the einsum
// is.
TEST(PlaceHostCopies, ABiasIsCopiedBeforeItsEinsum) {
  EXPECT_THAT(AfterPass(kPass, R"(
mesh{data:2}
%x : f32[batch:8, io:4] = input x
%w : f32[io:4, hidden:6] = read_variable w
%b : f32[hidden:6] = read_variable b [offload]
%y : f32[batch:8, hidden:6] = einsum(%x, %w) sum{io}
%z : f32[batch:8, hidden:6] = map(%y, %b) add
output(%z) z
)"),
              HasSubstr("%b_1 : f32[hidden:6] = copy_to_device(%b)\n"
                        "%y : f32[batch:8, hidden:6] = einsum(%x, %w) sum{io}\n"
                        "%z : f32[batch:8, hidden:6] = map(%y, %b_1) add\n"));
}

// A reader far behind gets a copy of its own.
TEST(PlaceHostCopies, ADistantReaderCopiesAgain) {
  std::string between;
  for (int i = 0; i < 9; ++i) {
    absl::StrAppend(&between, "%y_", i + 1, " : f32[io:4] = map(%y",
                    i == 0 ? "" : absl::StrCat("_", i), ") exp\n");
  }
  const std::string text = AfterPass(
      kPass, absl::StrCat("\nmesh{data:2}\n"
                          "%w : f32[io:4] = read_variable w [offload]\n"
                          "%y : f32[io:4] = map(%w) exp\n",
                          between, "%z : f32[io:4] = map(%w, %y_9) add\n",
                          "output(%z) z\n"));
  EXPECT_THAT(text, HasSubstr("%w_1 : f32[io:4] = copy_to_device(%w)\n"
                              "%y : f32[io:4] = map(%w_1) exp\n"));
  EXPECT_THAT(text, HasSubstr("%w_2 : f32[io:4] = copy_to_device(%w)\n"
                              "%z : f32[io:4] = map(%w_2, %y_9) add\n"));
}

TEST(PlaceHostCopies, TwoVariablesMayBeSwapped) {
  EXPECT_EQ(AfterPasses({kPass, "plan_buffers"}, R"(
mesh{data:2}
%a : f32[io:4] = read_variable a [offload]
%b : f32[io:4] = read_variable b [state offload]
%a_1 : f32[io:4] = write_variable(%b) a [offload]
%b_1 : f32[io:4] = write_variable(%a) b [state offload]
)"),
            R"(
mesh{data:2}
buffers{arena:128, commit:4}
%a : f32[io:4] @a = read_variable a [offload]
%b : f32[io:4] @b = read_variable b [state offload]
%b_2 : f32[io:4] @0 = copy_to_device(%b)
%a_2 : f32[io:4] @64 = copy_to_device(%a)
%b_2_1 : f32[io:4] @a = copy_to_host(%b_2)
%a_1 : f32[io:4] = write_variable(%b_2_1) a [offload]
%a_2_1 : f32[io:4] @b = copy_to_host(%a_2)
%b_1 : f32[io:4] = write_variable(%a_2_1) b [state offload]
)");
}

TEST(PlaceHostCopies, IsIdempotentAndLeavesOtherVariables) {
  const std::string text = AfterPass(kPass, R"(
mesh{data:2}
%w : f32[io:4] = read_variable w [offload]
%y : f32[io:4] = map(%w) exp
output(%y) y
)");
  ExpectUnchanged(kPass, text);
  ExpectUnchanged(kPass, R"(
mesh{data:2}
%w : f32[io:4] = read_variable w
%y : f32[io:4] = map(%w) exp
output(%y) y
)");
}

// Without the pass, an instruction would read host memory.
TEST(PlaceHostCopies, TheVerifierRejectsAccessToHostMemory) {
  EXPECT_THAT(AfterPass("plan_buffers", R"(
mesh{data:2}
%w : f32[io:4] = read_variable w [offload]
%y : f32[io:4] = map(%w) exp
output(%y) y
)"),
              HasSubstr("map reads %w, which is in host memory"));
}

}  // namespace
}  // namespace mtf::testing
