// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "backends/executor/fed_indices.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/program_text.h"

namespace mtf::testing {
namespace {

// The limits by name, or "computed".
std::string LimitsOf(const std::string& text) {
  const absl::StatusOr<Program> program = ParseText(text);
  if (!program.ok()) return ErrorText(program.status());
  const auto limits = FindFedIndices(*program);
  if (!limits.has_value()) return "computed";
  std::string found;
  for (const auto& [value, limit] : *limits) {
    absl::StrAppend(&found, program->values[value].name, " < ", limit, "; ");
  }
  return found;
}

TEST(FedIndices, TheLimitOfAnInputIsItsSmallestTable) {
  EXPECT_EQ(LimitsOf(R"(
mesh{x:2}
%i : i32[batch:8/x] = input i
%all : i32[batch:8] = all_gather(%i) batch over{x}
%t : f32[vocab:10, d:4] = read_variable t
%u : f32[row:7, d:4] = read_variable u
%a : f32[batch:8, d:4] = gather(%t, %all) vocab
%b : f32[batch:8/x, d:4] = gather(%u, %i) row
)"),
            "i < 7; ");
}

TEST(FedIndices, RowsThatMoveBetweenRanksKeepTheLimit) {
  const std::string moved = R"(
mesh{x:2}
%i : i32[batch:8/x] = input i
%u : i32[halo-x:2/x] = take_rows(%i) batch from{8 at 1} to 8 round 0 over{x}
%v : i32[halo-x:2/x] = collective_permute(%u) shift 1 over{x}
%j : i32[batch:8/x] = place_rows(%i, %v) batch from{8 at 1} to 8 FILLover{x}
%t : f32[vocab:10, d:4] = read_variable t
%a : f32[batch:8/x, d:4] = gather(%t, %j) vocab
)";
  EXPECT_EQ(LimitsOf(absl::StrReplaceAll(moved, {{"FILL", ""}})), "i < 10; ");
  EXPECT_EQ(LimitsOf(absl::StrReplaceAll(moved, {{"FILL", "fill 12 "}})),
            "computed");
}

TEST(FedIndices, ComputedIndicesHaveNoLimits) {
  EXPECT_EQ(LimitsOf(R"(
mesh{x:2}
%i : i32[batch:8/x] = input i
%j : i32[batch:8/x] = map(%i) neg
%t : f32[vocab:10, d:4] = read_variable t
%a : f32[batch:8/x, d:4] = gather(%t, %j) vocab
)"),
            "computed");
}

TEST(FedIndices, IndicesOfTopKAreInRange) {
  const std::string ranked = R"(
mesh{x:2}
%x : f32[batch:8, expert:12/x] = input x
%v : f32[batch:8, expert:2/x, k:3], %p : i32[batch:8, expert:2/x, k:3] = top_k(%x) expert
%v.all : f32[batch:8, expert:2, k:3] = all_gather(%v) expert over{x}
%p.all : i32[batch:8, expert:2, k:3] = all_gather(%p) expert over{x}
%v.row : f32[batch:8, expert:6] = reshape(%v.all)
%p.row : i32[batch:8, expert:6] = reshape(%p.all)
%i : i32[batch:8, k:3] = top_k(%v.row, %p.row) expert
)";
  EXPECT_EQ(
      LimitsOf(ranked + "%y : f32[batch:8, k:3] unreduced{x} = gather(%x, %i) "
                        "expert\n"),
      "");
  // In a dimension of twelve, but not of eleven.
  EXPECT_EQ(
      LimitsOf(ranked + "%t : f32[expert:11] = read_variable t\n"
                        "%y : f32[batch:8, k:3] = gather(%t, %i) expert\n"),
      "computed");
  EXPECT_EQ(LimitsOf(R"(
mesh{x:2}
%x : f32[batch:8, expert:12] = input x
%i : i32[batch:8, k:3] = top_k(%x) expert
%y : f32[batch:8, k:3] = gather(%x, %i) expert
)"),
            "");
}

}  // namespace
}  // namespace mtf::testing
