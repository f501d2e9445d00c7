// SPDX-License-Identifier: Apache-2.0
#include "mtf/shape.h"

#include "tests/matchers.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;

const Dimension a{"a", 2}, b{"b", 3};

absl::Status Invalid(Shape shape) { return shape.Validate(); }

TEST(Shape, FindsByName) {
  const Shape shape = {a, b};
  EXPECT_EQ(shape.rank(), 2);
  EXPECT_EQ(shape.Find("b"), 1);
  EXPECT_EQ(shape.Find("c"), -1);
  EXPECT_TRUE(shape.Contains("a"));
  EXPECT_FALSE(shape.Contains("c"));
  EXPECT_EQ(shape.SizeOf("b"), 3);
  EXPECT_EQ(shape.num_elements(), 6);
  EXPECT_EQ(Shape().num_elements(), 1);
}

TEST(Shape, CopiesWithOneChange) {
  const Shape shape = {a, b};
  EXPECT_EQ(shape.With({"c", 4}), Shape({a, b, {"c", 4}}));
  EXPECT_EQ(shape.Without("a"), Shape({b}));
  EXPECT_EQ(shape.Without("c"), shape);
  EXPECT_EQ(shape.Renamed("a", "z"), Shape({{"z", 2}, b}));
  EXPECT_EQ(shape.Resized("a", 9), Shape({{"a", 9}, b}));
}

TEST(Shape, SameDimensionsInAnyOrder) {
  EXPECT_TRUE(Shape({a, b}).SameDimensions({b, a}));
  EXPECT_FALSE(Shape({a, b}).SameDimensions({a}));
  EXPECT_FALSE(Shape({a}).SameDimensions({a, b}));
  EXPECT_FALSE(Shape({a}).SameDimensions({{"a", 3}}));
  EXPECT_FALSE(Shape({a}).SameDimensions({{"z", 2}}));
}

TEST(Shape, Text) {
  EXPECT_EQ(Shape({a, b}).ToString(), "a=2, b=3");
  EXPECT_EQ(Shape().ToString(), "");
}

TEST(ShapeValidate, TakesGoodShapes) {
  EXPECT_OK(Shape().Validate());
  EXPECT_OK(Shape({a, b, {"d_model-2", 0}}).Validate());
  EXPECT_OK(Shape({{"huge", int64_t{1} << 62}}).Validate());
}

TEST(ShapeValidate, Names) {
  const auto code = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(Invalid({{"", 1}}),
              testing::StatusIs(code, HasSubstr("dimension name \"\"")));
  for (const char* name : {"a b", "a:b", "a,b", "a/b", "a\n", "\xc3\xa4"}) {
    EXPECT_THAT(Invalid({{name, 1}}),
                testing::StatusIs(code, HasSubstr("is not made of letters")));
  }
  EXPECT_THAT(Invalid({a, a}),
              testing::StatusIs(code, HasSubstr("\"a\" occurs twice in [a=2, "
                                                "a=2]")));
}

TEST(ShapeValidate, Sizes) {
  const auto code = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(Invalid({{"a", -1}}),
              testing::StatusIs(code, HasSubstr("negative size -1")));
  const int64_t large = int64_t{1} << 31;
  EXPECT_OK(Invalid({{"x", large}, {"y", large}}));
  EXPECT_THAT(Invalid({{"x", large}, {"y", large + 1}}),
              testing::StatusIs(code, HasSubstr("more than 2^62 elements")));
  // A dimension of size 0 does not allow the others to overflow.
  EXPECT_THAT(Invalid({{"n", 0}, {"x", INT64_MAX}, {"y", 2}}),
              testing::StatusIs(code, HasSubstr("more than 2^62 elements")));
}

}  // namespace
}  // namespace mtf
