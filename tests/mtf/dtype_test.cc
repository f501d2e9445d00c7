// SPDX-License-Identifier: Apache-2.0
#include "mtf/dtype.h"

#include <cmath>
#include <limits>

#include "mtf/half.h"
#include "mtf/host_tensor.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

TEST(DType, NamesReadBack) {
  for (const DType dtype : kAllDTypes) {
    const auto parsed = ParseDType(DTypeName(dtype));
    ASSERT_OK(parsed);
    EXPECT_EQ(*parsed, dtype);
    EXPECT_EQ(IsFloat(dtype) + IsInteger(dtype) + (dtype == kBool), 1);
  }
  EXPECT_THAT(ParseDType("f64"),
              testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                ::testing::HasSubstr("f64")));
}

TEST(DType, Sizes) {
  EXPECT_EQ(DTypeSize(kFloat32), 4);
  EXPECT_EQ(DTypeSize(kBFloat16), 2);
  EXPECT_EQ(DTypeSize(kFloat16), 2);
  EXPECT_EQ(DTypeSize(kInt32), 4);
  EXPECT_EQ(DTypeSize(kInt64), 8);
  EXPECT_EQ(DTypeSize(kBool), 1);
}

TEST(BFloat16, EveryPatternReadsBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 h = {static_cast<uint16_t>(bits)};
    const float f = ToFloat(h);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(ToFloat(ToBFloat16(f))));
    } else {
      EXPECT_EQ(ToBFloat16(f).bits, h.bits);
    }
  }
}

TEST(Float16, EveryPatternReadsBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 h = {static_cast<uint16_t>(bits)};
    const float f = ToFloat(h);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(ToFloat(ToFloat16(f))));
    } else {
      EXPECT_EQ(ToFloat16(f).bits, h.bits);
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  // bf16 has 8 significant bits, f16 has 11.
  EXPECT_EQ(ToFloat(ToBFloat16(257)), 256);
  EXPECT_EQ(ToFloat(ToBFloat16(259)), 260);
  EXPECT_EQ(ToFloat(ToBFloat16(257.001f)), 258);
  EXPECT_EQ(ToFloat(ToFloat16(2049)), 2048);
  EXPECT_EQ(ToFloat(ToFloat16(2051)), 2052);
  EXPECT_EQ(ToFloat(ToFloat16(2049.001f)), 2050);
}

TEST(Half, OverflowsToInfinity) {
  EXPECT_TRUE(std::isinf(ToFloat(ToFloat16(65520))));
  EXPECT_EQ(ToFloat(ToFloat16(65519)), 65504);
  EXPECT_TRUE(
      std::isinf(ToFloat(ToBFloat16(std::numeric_limits<float>::max()))));
}

TEST(HostTensor, HoldsEveryDType) {
  const Shape shape = {{"n", 4}};
  for (const DType dtype : kAllDTypes) {
    const HostTensor x = HostTensor::FromDoubles(shape, dtype, {0, 1, 1, 0});
    EXPECT_EQ(x.dtype(), dtype);
    EXPECT_EQ(x.num_bytes(), 4u * DTypeSize(dtype));
    EXPECT_THAT(x.ToDoubles(), ::testing::ElementsAre(0, 1, 1, 0));
    EXPECT_THAT(HostTensor(shape, dtype).ToDoubles(), ::testing::Each(0));
  }
}

TEST(HostTensor, OfTypedValues) {
  const Shape shape = {{"n", 2}};
  EXPECT_EQ(*HostTensor::Of<float>(shape, {1.5f, -2}).At(1), -2);
  EXPECT_EQ(HostTensor::Of<int32_t>(shape, {7, 8}).dtype(), kInt32);
  EXPECT_EQ(*HostTensor::Of<int64_t>(shape, {int64_t{1} << 40, 8}).At(0),
            std::ldexp(1, 40));
  EXPECT_EQ(HostTensor::Of<uint8_t>(shape, {1, 0}).dtype(), kBool);
  EXPECT_EQ(HostTensor::Of<float>({{"n", 0}}, {}).num_bytes(), 0u);
}

TEST(HostTensor, ConvertsFromDoubles) {
  const Shape one;
  EXPECT_EQ(*HostTensor::FromDoubles(one, kInt32, {-2.9}).At(0), -2);
  EXPECT_EQ(*HostTensor::FromDoubles(one, kBool, {3}).At(0), 1);
  EXPECT_EQ(*HostTensor::FromDoubles(one, kBFloat16, {257}).At(0), 256);
  EXPECT_EQ(*HostTensor::FromDoubles(one, kFloat32, {0.1}).At(0), 0.1f);
}

// Conversion of any double to an integer is defined.
TEST(HostTensor, SaturatesAtTheLimitsOfIntegers) {
  const double inf = std::numeric_limits<double>::infinity();
  const double numbers[] = {inf,     0x1p63, 1e300,       -inf,
                            -0x1p63, -1e300, std::nan("")};
  int32_t narrow[7];
  int64_t wide[7];
  for (int i = 0; i < 7; ++i) {
    StoreElement(narrow, kInt32, i, numbers[i]);
    StoreElement(wide, kInt64, i, numbers[i]);
  }
  constexpr int32_t kMost32 = std::numeric_limits<int32_t>::max();
  constexpr int64_t kMost64 = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(narrow,
              ::testing::ElementsAre(kMost32, kMost32, kMost32, -kMost32 - 1,
                                     -kMost32 - 1, -kMost32 - 1, 0));
  EXPECT_THAT(wide,
              ::testing::ElementsAre(kMost64, kMost64, kMost64, -kMost64 - 1,
                                     -kMost64 - 1, -kMost64 - 1, 0));
}

TEST(RoundToDType, MatchesStoredElements) {
  EXPECT_EQ(RoundToDType(1e-8, kFloat16), 0);
  EXPECT_EQ(RoundToDType(1e-50, kFloat32), 0);
  EXPECT_EQ(RoundToDType(70000, kFloat16),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(RoundToDType(0.1, kFloat32), 0.1f);
  EXPECT_EQ(RoundToDType(0.1, kBFloat16), 0.10009765625);
  EXPECT_EQ(RoundToDType(16777217, kFloat32), 16777216);
  EXPECT_EQ(RoundToDType(16777217, kInt32), 16777217);
  EXPECT_EQ(RoundToDType(-2.9, kInt64), -2);
  EXPECT_EQ(RoundToDType(-3, kBool), 1);
  EXPECT_TRUE(std::isnan(RoundToDType(std::nan(""), kBFloat16)));
}

}  // namespace
}  // namespace mtf
