// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
//
// Copies between two layouts: the width of accesses, and that every element
// arrives for any alignment of the two buffers.
#include "backends/cuda/kernels/strided_copy.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/matchers.h"

namespace mtf::cuda {
namespace {

using Loops = std::vector<StridedCopy::Loop>;

StridedCopy CopyOf(DType dtype, Loops loops) {
  return {dtype, dtype, std::move(loops)};
}

TEST(Packed, TakesSixteenBytesIfAligned) {
  const StridedCopy copy =
      Packed(CopyOf(kBFloat16, {{4, 64, 32}, {32, 1, 1}}), 1 << 10);
  EXPECT_EQ(copy.pack, 8);
  EXPECT_EQ(copy.loops, (Loops{{4, 8, 4}, {4, 1, 1}}));
}

TEST(Packed, TakesFewerBytesIfLessAligned) {
  EXPECT_EQ(Packed(CopyOf(kBFloat16, {{4, 64, 12}, {12, 1, 1}}), 0).pack, 4);
  EXPECT_EQ(Packed(CopyOf(kBFloat16, {{4, 34, 32}, {32, 1, 1}}), 0).pack, 2);
  EXPECT_EQ(Packed(CopyOf(kBFloat16, {{4, 64, 34}, {32, 1, 1}}), 0).pack, 2);
  EXPECT_EQ(Packed(CopyOf(kBFloat16, {{4, 64, 32}, {32, 1, 1}}), 8).pack, 4);
  EXPECT_EQ(Packed(CopyOf(kBFloat16, {{4, 64, 32}, {32, 1, 1}}), 6).pack, 1);
  EXPECT_EQ(Packed(CopyOf(kBFloat16, {{4, 64, 31}, {31, 1, 1}}), 0).pack, 1);
  EXPECT_EQ(Packed(CopyOf(kInt64, {{4, 64, 32}, {32, 1, 1}}), 0).pack, 2);
}

TEST(Packed, LeavesStridedAndConvertingCopies) {
  const StridedCopy turned = CopyOf(kFloat32, {{32, 1, 32}, {32, 32, 1}});
  EXPECT_EQ(Packed(turned, 0), turned);
  StridedCopy converts = CopyOf(kFloat32, {{4, 64, 32}, {32, 1, 1}});
  converts.to_dtype = kBFloat16;
  EXPECT_EQ(Packed(converts, 0), converts);
}

TEST(Packed, RunOfOneWordFoldsAway) {
  const StridedCopy copy =
      Packed(CopyOf(kBFloat16, {{16, 64, 8}, {8, 1, 1}}), 0);
  EXPECT_EQ(copy.pack, 8);
  EXPECT_EQ(copy.loops, (Loops{{16, 8, 1}}));
}

TEST(StridedCopy, OffsetsBeyondThirtyTwoBitsUseWiderIndices) {
  const auto text = [](int64_t stride) {
    return StridedCopySource(CopyOf(kFloat32, {{2, stride, 64}, {64, 1, 1}}))
        .text;
  };
  EXPECT_NE(text(1 << 20).find("typedef int Index;"), std::string::npos);
  EXPECT_NE(text(int64_t{1} << 32).find("typedef long long Index;"),
            std::string::npos);
}

struct Case {
  DType dtype;
  Loops loops;
};

void PrintTo(const Case& c, std::ostream* os) {
  *os << DTypeName(c.dtype);
  for (const auto& [extent, from, to] : c.loops) {
    *os << " " << extent << ":" << from << "->" << to;
  }
}

class StridedCopyRuns : public ::testing::TestWithParam<Case> {};

TEST_P(StridedCopyRuns, CorrectlyFromAnyAddress) {
  const Case& c = GetParam();
  const absl::StatusOr<std::shared_ptr<Runtime>> opened = OpenEmulatedGpu();
  ASSERT_OK(opened);
  Runtime& runtime = **opened;
  const int64_t size = DTypeSize(c.dtype);
  constexpr int64_t kElements = 4096;
  std::vector<char> from(kElements * size);
  for (size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<char>(i * 37 + i / 256 + 1);
  }
  for (int64_t from_at : {0, 1, 2, 4, 8}) {
    for (int64_t to_at : {0, 1, 4}) {
      std::vector<char> want(kElements * size), got(want.size());
      const auto offset = [&](int64_t i, bool reads) {
        int64_t at = reads ? from_at : to_at;
        for (auto loop = c.loops.rbegin(); loop != c.loops.rend(); ++loop) {
          at += i % loop->extent * (reads ? loop->from : loop->to);
          i /= loop->extent;
        }
        return at * size;
      };
      const StridedCopy copy = CopyOf(c.dtype, c.loops);
      for (int64_t i = 0; i < copy.elements(); ++i) {
        std::copy_n(&from[offset(i, true)], size, &want[offset(i, false)]);
      }
      const auto bytes = static_cast<int64_t>(from.size());
      auto* x = static_cast<char*>(*runtime.Allocate(bytes));
      auto* y = static_cast<char*>(*runtime.Allocate(bytes));
      runtime.CopyToDevice(x, from.data(), bytes);
      auto kernel = PrepareStridedCopy(runtime, copy, x + from_at * size,
                                       y + to_at * size);
      ASSERT_OK(kernel);
      StepContext context;
      (*kernel)->Run(context);
      runtime.CopyToHost(got.data(), y, bytes);
      ASSERT_OK(runtime.Synchronize());
      EXPECT_EQ(got, want) << "from " << from_at << " to " << to_at;
      runtime.Free(x);
      runtime.Free(y);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Copies, StridedCopyRuns,
    ::testing::Values(Case{kBFloat16, {{5, 64, 32}, {32, 1, 1}}},
                      Case{kBFloat16, {{5, 66, 36}, {36, 1, 1}}},
                      Case{kFloat32, {{3, 100, 30}, {30, 1, 1}}},
                      Case{kInt64, {{7, 10, 6}, {6, 1, 1}}},
                      Case{kBool, {{7, 48, 48}, {32, 1, 1}}},
                      // Words of 16 bytes that are transposed.
                      Case{kBFloat16, {{9, 8, 96}, {12, 72, 8}, {8, 1, 1}}},
                      Case{kFloat32, {{33, 1, 40}, {40, 33, 1}}}));

}  // namespace
}  // namespace mtf::cuda
