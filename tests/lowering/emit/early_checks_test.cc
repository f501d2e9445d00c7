// SPDX-License-Identifier: Apache-2.0
#include "lowering/emit/early_checks.h"

#include <string>

#include "lowering/verify/verify_program.h"
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

std::string AfterMoving(absl::string_view text) {
  absl::StatusOr<Program> program = ParseText(text);
  if (!program.ok()) return ErrorText(program.status());
  MoveChecksForward(*program);
  EXPECT_OK(VerifyProgram(*program));
  return absl::StrCat("\n", TextOf(*program));
}

// Together with the computation of the index.
TEST(EarlyChecks, PrecedeUpdates) {
  EXPECT_EQ(AfterMoving(R"(
mesh{data:2}
%x : f32[n:8] = input x
%u : f32[] = input u
%i : i32[] = input i
%i_1 : i32[] = check_index(%i) 1 of n:8
%a : f32[n:8] = update_slice(%x, %u, %i_1) n
%j : i32[] = map(%i) [literal.i32(1); add($0, $1)]
%j_1 : i32[] = check_index(%j) 1 of n:8
%b : f32[n:8] = update_slice(%a, %u, %j_1) n
output(%b) b
)"),
            R"(
mesh{data:2}
%i : i32[] = input i
%i_1 : i32[] = check_index(%i) 1 of n:8
%j : i32[] = map(%i) [literal.i32(1); add($0, $1)]
%j_1 : i32[] = check_index(%j) 1 of n:8
%x : f32[n:8] = input x
%u : f32[] = input u
%a : f32[n:8] = update_slice(%x, %u, %i_1) n
%b : f32[n:8] = update_slice(%a, %u, %j_1) n
output(%b) b
)");
}

// The index is the position of the greatest element.
TEST(EarlyChecks, StayWhereMuchIsComputedForThem) {
  constexpr char kText[] = R"(
mesh{data:2}
%x : f32[n:8] = input x
%u : f32[k:1] = input u
%s : f32[n:8] = map(%x) exp
%i : i32[k:1] = top_k(%s) n
%j : i32[] = reshape(%i)
%j_1 : i32[] = check_index(%j) 1 of n:8
%a : f32[n:8] = update_slice(%x, %u, %j_1) n
output(%a) a
)";
  EXPECT_EQ(AfterMoving(kText), kText);
}

}  // namespace
}  // namespace mtf::testing
