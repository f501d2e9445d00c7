// SPDX-License-Identifier: Apache-2.0
#include "mtf/status.h"

#include "mtf/errors.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

TEST(CallSite, IsTheBaseNameAndTheLine) {
  const int line = __LINE__ + 1;
  const CallSite site = CallSite::Of(std::source_location::current());
  EXPECT_EQ(site.file, "status_test.cc");
  EXPECT_EQ(site.line, line);
  EXPECT_EQ((CallSite{"mlp.cc", 41}).ToString(), "mlp.cc:41");
}

TEST(ErrorText, BeginsWithTheCode) {
  EXPECT_EQ(ErrorText(absl::OkStatus()), "OK");
  EXPECT_EQ(ErrorText(absl::InvalidArgumentError("no\n  help  yes")),
            "INVALID_ARGUMENT no\n  help  yes");
}

TEST(EditDistance, CountsInsertsDeletesReplacesAndSwaps) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("batch", "batch"), 0);
  EXPECT_EQ(EditDistance("", "ab"), 2);
  EXPECT_EQ(EditDistance("batch", "bach"), 1);
  EXPECT_EQ(EditDistance("batch", "bautch"), 1);
  EXPECT_EQ(EditDistance("batch", "botch"), 1);
  EXPECT_EQ(EditDistance("batch", "bacth"), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(NearestName, IsWithinTwoEdits) {
  const std::vector<std::string> names = {"batch", "length", "d_model"};
  EXPECT_EQ(NearestName("bacht", names), "batch");
  EXPECT_EQ(NearestName("lenght", names), "length");
  EXPECT_EQ(NearestName("dmodl", names), "d_model");
  EXPECT_EQ(NearestName("heads", names), "");
  EXPECT_EQ(NearestName("batch", {}), "");
}

TEST(NearestName, IsWithinOneEditForShortNames) {
  EXPECT_EQ(NearestName("row", {"rows"}), "rows");
  EXPECT_EQ(NearestName("ros", {"cols"}), "");
  EXPECT_EQ(NearestName("a", {"b"}), "b");
}

TEST(NearestName, CountsCaseAsOneEdit) {
  EXPECT_EQ(NearestName("BATCH", {"beach", "batch"}), "batch");
  EXPECT_EQ(NearestName("D_KV", {"d_ff", "d_kv"}), "d_kv");
  EXPECT_EQ(NearestName("BACHT", {"batch"}), "");
}

TEST(NearestName, TakesTheNearerThenTheFirst) {
  EXPECT_EQ(NearestName("hidden", {"hiddenxx", "hiddens"}), "hiddens");
  EXPECT_EQ(NearestName("model", {"modex", "modey"}), "modex");
}

absl::StatusOr<int> Half(int x) {
  if (x % 2 != 0) return absl::InvalidArgumentError("odd");
  return x / 2;
}

absl::StatusOr<int> Quarter(int x) {
  MTF_ASSIGN_OR_RETURN(const int half, Half(x));
  MTF_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

absl::Status IsMultipleOfFour(int x) {
  MTF_RETURN_IF_ERROR(Quarter(x).status());
  return absl::OkStatus();
}

// Two assignments in one line.
#define MTF_QUARTERS(x, y)             \
  MTF_ASSIGN_OR_RETURN(x, Quarter(4)); \
  MTF_ASSIGN_OR_RETURN(y, Quarter(8))

absl::StatusOr<int> SumOfQuarters() {
  MTF_QUARTERS(const int x, const int y);
  return x + y;
}
#undef MTF_QUARTERS

TEST(StatusMacros, MayShareALine) { EXPECT_EQ(*SumOfQuarters(), 3); }

TEST(StatusMacros, ReturnTheFirstError) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_THAT(Quarter(6),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, "odd"));
  EXPECT_OK(IsMultipleOfFour(8));
  EXPECT_FALSE(IsMultipleOfFour(2).ok());
}

TEST(Describe, TensorsAndPositions) {
  const Shape shape = {{"batch", 4}, {"length", 8}};
  EXPECT_EQ(DescribeTensor(kBFloat16, shape), "bf16[batch=4, length=8]");
  EXPECT_EQ(DescribeTensor(kBool, {}), "bool[]");
  EXPECT_EQ(DescribePosition(shape, 19), "[batch=2, length=3]");
  EXPECT_EQ(DescribePosition({}, 0), "[]");
}

TEST(IndexOutOfRange, NamesEverything) {
  EXPECT_EQ(ErrorText(IndexOutOfRange(7, 19, {{"batch", 4}, {"length", 8}},
                                      "tokens", {"vocab", 5}, "gather", "embed",
                                      {"lm.cc", 12})),
            "OUT_OF_RANGE index 7 at [batch=2, length=3] of \"tokens\" is "
            "outside dimension \"vocab\" of size 5 (gather \"embed\", "
            "lm.cc:12)");
}

}  // namespace
}  // namespace mtf
