// SPDX-License-Identifier: Apache-2.0
#include "mtf/host_tensor.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mtf/half.h"
#include "mtf/status.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
const Dimension kBatch{"batch", 4}, kIo{"io", 2};

// Line `line` of this file, as errors print it.
std::string Line(int line) {
  return absl::StrCat("(host_tensor_test.cc:", line, ")");
}

TEST(HostTensor, WrongCountIsAnErrorOfTheTensor) {
  for (const std::vector<float>& values :
       {std::vector<float>{1, 2, 3}, std::vector<float>(9, 1.0f), {}}) {
    const int line = __LINE__ + 1;
    const HostTensor x = HostTensor::Of({kBatch, kIo}, values);
    EXPECT_THAT(
        x.status(),
        StatusIs(kInvalid,
                 AllOf(HasSubstr(absl::StrCat(values.size(),
                                              " values for the 8 elements "
                                              "of f32[batch=4, io=2]")),
                       HasSubstr(Line(line)), HasSubstr("help"))));
    // The tensor is safe to use, and whoever reads it gets the error.
    EXPECT_EQ(x.shape(), Shape({kBatch, kIo}));
    EXPECT_EQ(x.ToDoubles().size(), 8u);
    EXPECT_THAT(x.ToDoubles(), Each(0));
    EXPECT_EQ(x.At(0).status(), x.status());
    EXPECT_EQ(x.values<float>().status(), x.status());
  }
}

TEST(HostTensor, WrongCountOfDoublesIsAnErrorOfTheTensor) {
  const int line = __LINE__ + 1;
  const HostTensor x = HostTensor::FromDoubles({kIo}, kInt64, {1, 2, 3});
  EXPECT_THAT(
      x.status(),
      StatusIs(kInvalid,
               AllOf(HasSubstr("3 values for the 2 elements of i64[io=2]"),
                     HasSubstr(Line(line)))));
}

TEST(HostTensor, InvalidShapesAreErrorsOfTheTensor) {
  const HostTensor negative({{"n", -3}}, kFloat32);
  EXPECT_THAT(negative.status(), StatusIs(kInvalid, HasSubstr("\"n\"")));
  EXPECT_THAT(HostTensor({kIo, kIo}, kFloat32).status(),
              StatusIs(kInvalid, HasSubstr("\"io\"")));
  EXPECT_THAT(HostTensor::Of<float>({{"n", -1}}, {1.0f}).status(),
              StatusIs(kInvalid, HasSubstr("\"n\"")));
  EXPECT_THAT(negative.At(0), StatusIs(kInvalid, HasSubstr("\"n\"")));
}

TEST(HostTensor, DefaultIsTheScalarZero) {
  const HostTensor x;
  EXPECT_EQ(x, HostTensor(Shape(), kFloat32));
  EXPECT_THAT(x.ToDoubles(), ElementsAre(0));
  EXPECT_EQ(x.At(0).value(), 0);
  EXPECT_THAT(x.values<float>().value(), ElementsAre(0));
}

TEST(HostTensor, AtChecksItsIndex) {
  const HostTensor x =
      HostTensor::Of<float>({kBatch, kIo}, {0, 1, 2, 3, 4, 5, 6, 7});
  ASSERT_OK(x.status());
  EXPECT_EQ(*x.At(0), 0);
  EXPECT_EQ(*x.At(7), 7);
  for (int64_t i : {int64_t{-1}, int64_t{8}, int64_t{100}, int64_t{1} << 60}) {
    const int line = __LINE__ + 1;
    const absl::StatusOr<double> element = x.At(i);
    EXPECT_THAT(element,
                StatusIs(absl::StatusCode::kOutOfRange,
                         AllOf(HasSubstr(absl::StrCat("element ", i,
                                                      " of the 8 elements of "
                                                      "f32[batch=4, io=2]")),
                               HasSubstr(Line(line)))));
  }
  EXPECT_THAT(HostTensor({{"n", 0}}, kInt32).At(0),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("0 elements")));
}

TEST(HostTensor, TypedValues) {
  HostTensor x = HostTensor::Of<int32_t>({kBatch}, {5, 6, 7, 8});
  ASSERT_OK(x.values<int32_t>());
  EXPECT_THAT(*x.values<int32_t>(), ElementsAre(5, 6, 7, 8));
  const absl::StatusOr<absl::Span<int32_t>> values =
      x.mutable_values<int32_t>();
  ASSERT_OK(values);
  (*values)[2] = -7;
  EXPECT_THAT(x.ToDoubles(), ElementsAre(5, 6, -7, 8));
  const HostTensor flags = HostTensor::Of<uint8_t>({kIo}, {1, 0});
  EXPECT_THAT(*flags.values<uint8_t>(), ElementsAre(1, 0));
  const HostTensor half =
      HostTensor::Of<BFloat16>({kIo}, {ToBFloat16(1.5f), ToBFloat16(-2.0f)});
  EXPECT_EQ(half.dtype(), kBFloat16);
  EXPECT_THAT(half.ToDoubles(), ElementsAre(1.5, -2));
  EXPECT_EQ(ToFloat((*half.values<BFloat16>())[1]), -2.0f);
  EXPECT_TRUE(HostTensor({{"n", 0}}, kFloat32).values<float>()->empty());
}

TEST(HostTensor, ValuesOfAnotherTypeAreAnError) {
  HostTensor x = HostTensor::Of<int32_t>({kBatch}, {5, 6, 7, 8});
  const int line = __LINE__ + 1;
  const auto values = x.values<float>();
  EXPECT_THAT(
      values,
      StatusIs(kInvalid, AllOf(HasSubstr("values<float> of i32[batch=4]"),
                               HasSubstr(Line(line)),
                               HasSubstr("values<int32_t>, or ToDoubles()"))));
  EXPECT_THAT(x.mutable_values<int64_t>(),
              StatusIs(kInvalid, HasSubstr("values<int64_t> of i32")));
}

}  // namespace
}  // namespace mtf
