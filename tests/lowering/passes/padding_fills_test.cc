// SPDX-License-Identifier: Apache-2.0
//
// What padding is known to contain. A fill is trusted only if every kernel
// computes the same bits; otherwise a mask is inserted.
#include <string>

#include "absl/strings/match.h"
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

// Whether the sum over the padded dimension of a map with `expression`, of
// dtype `dtype`, needs its operand masked. Operand $0 is an input of `input`
// dtype, whose padding contains zeros.
bool SumIsMasked(const std::string& dtype, const std::string& expression,
                 const std::string& input = "f32",
                 const std::string& kind = "sum") {
  const std::string pending =
      kind == "sum" ? "unreduced{x}" : absl::StrCat("unreduced{x} ", kind);
  const std::string text = AfterPass(
      "shard_shapes",
      absl::StrCat("mesh{x:2}\n%x : ", input, "[a:5/x] = input x\n%y : ", dtype,
                   "[a:5/x] = map(%x) [", expression, "]\n%s : ", dtype, "[] ",
                   pending, " = reduce(%y) ", kind, "\n%t : ", dtype,
                   "[] = all_reduce(%s) ", kind, " over{x}\noutput(%t) t\n"));
  EXPECT_TRUE(absl::StrContains(text, "reduce(")) << text;
  return absl::StrContains(text, "mask(%y)");
}

TEST(PaddingFills, LiteralsAreRoundedToTheirDType) {
  // 1e-8 rounds to 0 in f16, so the zeros of the padding are counted.
  EXPECT_TRUE(SumIsMasked(
      "f32", "literal.f16(1e-8); greater_equal($0, $1); cast.f32($2)", "f16"));
  EXPECT_FALSE(SumIsMasked(
      "f32", "literal.f32(1e-8); greater_equal($0, $1); cast.f32($2)"));
  EXPECT_TRUE(SumIsMasked(
      "f32", "literal.f32(1e-50); greater_equal($0, $1); cast.f32($2)"));
}

TEST(PaddingFills, CastsRound) {
  const std::string above = "; greater($2, $3); cast.f32($4)";
  // bf16 0.3 is 0.30078125, and f16 0.1 below f32 0.1.
  EXPECT_TRUE(SumIsMasked("f32",
                          "literal.bf16(0.3); cast.f32($1); "
                          "literal.f32(0.3)" +
                              above));
  EXPECT_FALSE(SumIsMasked("f32",
                           "literal.f16(0.1); cast.f32($1); "
                           "literal.f32(0.1)" +
                               above));
  // f32 cannot represent 2^24 + 1.
  EXPECT_TRUE(SumIsMasked("f32",
                          "literal.i32(16777217); cast.f32($1); "
                          "literal.f32(16777216); equal($2, $3); "
                          "cast.f32($4)"));
  // One half is not an integer.
  EXPECT_FALSE(SumIsMasked("i32", "literal.f32(0.75); cast.i32($1)"));
  EXPECT_TRUE(SumIsMasked("i32", "literal.f32(1.75); cast.i32($1)"));
  // 1, the identity of a minimum of bools.
  EXPECT_FALSE(
      SumIsMasked("bool", "literal.f32(1.75); cast.bool($1)", "f32", "min"));
}

TEST(PaddingFills, DifferenceOfRoundedNumbersIsUnknown) {
  EXPECT_TRUE(SumIsMasked("f32",
                          "literal.bf16(0.1); cast.f32($1); "
                          "literal.f32(0.1); sub($2, $3)"));
  EXPECT_FALSE(SumIsMasked("f32",
                           "literal.f32(0.1); literal.f32(0.1); "
                           "sub($1, $2)"));
}

// Sums of zeros lose their signs, so 1 / 0 is either infinity.
TEST(PaddingFills, ResultsThatDependOnTheSignOfZeroAreUnknown) {
  const std::string divide = "literal.f32(1); div($1, $0)";
  EXPECT_TRUE(SumIsMasked("f32", divide, "f32", "min"));
  EXPECT_TRUE(SumIsMasked("f32", divide, "f32", "max"));
  EXPECT_FALSE(SumIsMasked("f32", "log($0)", "f32", "max"));
  EXPECT_TRUE(SumIsMasked("f32", "log($0)", "f32", "min"));
}

// Division of integers by zero is 0 in every kernel, not infinite.
TEST(PaddingFills, IntegersHaveNoInfinity) {
  EXPECT_TRUE(SumIsMasked("f32",
                          "literal.i32(1); floordiv($1, $0); literal.i32(5); "
                          "less($2, $3); cast.f32($4)",
                          "i32"));
}

// Beyond 2^53 a double represents an i64 only approximately.
TEST(PaddingFills, LargeIntegersAreUnknown) {
  EXPECT_TRUE(SumIsMasked("f32",
                          "literal.i64(4611686018427387904); "
                          "literal.i64(1); add($1, $2); "
                          "equal($1, $3); cast.f32($4)"));
  EXPECT_FALSE(SumIsMasked("f32",
                           "literal.i64(4294967296); literal.i64(1); "
                           "less($1, $2); cast.f32($3)"));
  // A number out of the range of i32 wraps from i64 and saturates from f32.
  EXPECT_TRUE(SumIsMasked("i32", "literal.i64(4294967296); cast.i32($1)"));
}

TEST(PaddingFills, IdentityOfAnInt64IsItsLowestOrHighestNumber) {
  EXPECT_EQ(AfterPass("shard_shapes", R"(
mesh{x:2}
%x : i64[a:5/x] = input x
%s : i64[] unreduced{x} min = reduce(%x) min
%t : i64[] = all_reduce(%s) min over{x}
output(%t) t
)"),
            R"(
mesh{x:2}
%x : i64[a:5/x=3] = input x
%x_1 : i64[a:5/x=3] = mask(%x) a fill inf
%s : i64[] unreduced{x} min = reduce(%x_1) min
%t : i64[] = all_reduce(%s) min over{x}
output(%t) t
)");
}

// Kernels of windows write zeros after the last window, and rows that are
// placed end in zeros.
TEST(PaddingFills, OfWindowsAndRowsAreZeros) {
  const auto masks = [](absl::string_view fill) {
    const std::string after = AfterPass("shard_shapes", absl::StrCat(R"(
mesh{x:2}
%x : f32[a:4, b:3/x] = input x
%p : f32[halo:6, b:3/x] = place_rows(%x) a from{4 at 1} to 4 span 3)",
                                                                     fill, R"(
%w : f32[a:4, b:3/x, k:3] = windows(%p) a, k of halo
%f : f32[halo:6, b:3/x] = fold_windows(%w) a, k of halo
%s : f32[halo:6] unreduced{x} = reduce(%f) sum
%t : f32[halo:6] = all_reduce(%s) sum over{x}
output(%t) t
)"));
    EXPECT_THAT(after, ::testing::HasSubstr("reduce("));
    return absl::StrContains(after, "mask(%f)");
  };
  EXPECT_FALSE(masks(""));
  // The fill value is also in the padding of the other dimensions.
  EXPECT_TRUE(masks(" fill 1"));
}

}  // namespace
}  // namespace mtf::testing
