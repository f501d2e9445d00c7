// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (most of the time is spent in the reference device)
//
// Attention and its gradient on every device that has them, against the plain
// loops of the reference device.
#include <cmath>
#include <string>
#include <vector>

#include "tests/backends/conformance/attention_cases.h"
#include "tests/backends/conformance/device_case.h"
#include "tests/matchers.h"

namespace mtf::testing {
namespace {

// Whether an element is data.
bool IsValid(const LocalTensor& tensor, const Coordinates& here) {
  for (int i = 0; i < tensor.shape.rank(); ++i) {
    if (here.at(tensor.shape[i].name) >= tensor.dims[i].valid) return false;
  }
  return true;
}

// Expects close data; padding may differ.
void ExpectCloseData(const LocalTensor& got, const LocalTensor& want,
                     DType dtype) {
  double largest = 0;
  ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
    if (IsValid(want, here) && std::isfinite(want.At(here))) {
      largest = std::max(largest, std::abs(want.At(here)));
    }
  });
  // Weights and gradients of logits are rounded to the dtype on the way.
  const double relative = dtype == kFloat32   ? 2e-5
                          : dtype == kFloat16 ? 4e-3
                                              : 2e-2;
  ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
    if (!IsValid(want, here)) return;
    const double x = want.At(here), y = got.At(here);
    if (!std::isfinite(x)) {
      EXPECT_EQ(x, y);
    } else {
      EXPECT_NEAR(x, y, relative * (largest + 1e-3));
    }
  });
}

class AttentionTest : public DeviceTest {
 protected:
  bool HasAttention() const {
    const auto device = CreateDevice(GetParam(), {});
    return device.ok() && (*device)->attention() == AttentionSupport::kAll;
  }
  void Compare(bool gradient) const {
    for (const AttentionCase& made : AttentionCases()) {
      SCOPED_TRACE(made.name);
      DeviceCase on_device = MakeAttentionCase(made, gradient);
      DeviceCase reference = on_device;
      const LocalTensor got = on_device.Run(GetParam(), 2);
      const LocalTensor want = reference.Run("reference");
      ExpectCloseData(got, want, made.dtype);
      for (size_t i = 0; i < reference.more_results.size(); ++i) {
        SCOPED_TRACE(absl::StrCat("result ", i + 1));
        ExpectCloseData(on_device.more_results[i], reference.more_results[i],
                        made.dtype);
      }
    }
  }
};

TEST_P(AttentionTest, ForwardIsClose) {
  if (!HasAttention())
    GTEST_SKIP() << "the device does not have every attention";
  Compare(false);
}

TEST_P(AttentionTest, GradientIsClose) {
  if (!HasAttention())
    GTEST_SKIP() << "the device does not have every attention";
  Compare(true);
}

TEST_P(AttentionTest, BitsDoNotDependOnThreads) {
  if (!HasAttention())
    GTEST_SKIP() << "the device does not have every attention";
  for (const AttentionCase& made : AttentionCases()) {
    SCOPED_TRACE(made.name);
    for (bool gradient : {false, true}) {
      DeviceCase one = MakeAttentionCase(made, gradient);
      DeviceCase three = one;
      const LocalTensor first = one.Run(GetParam(), 1);
      ExpectSame(three.Run(GetParam(), 3), first);
      for (size_t i = 0; i < one.more_results.size(); ++i) {
        ExpectSame(three.more_results[i], one.more_results[i]);
      }
    }
  }
}

MTF_INSTANTIATE_FOR_ALL_DEVICES(AttentionTest);

}  // namespace
}  // namespace mtf::testing
