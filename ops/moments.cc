// SPDX-License-Identifier: Apache-2.0
#include "ops/moments.h"

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace mtf {
namespace {

absl::Status Check(Tensor x, const Shape& dims) {
  MTF_RETURN_IF_ERROR(internal::CheckSubset(x, dims));
  if (IsFloat(x.dtype())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("moments take a float dtype, not ", DTypeName(x.dtype()),
                   DescribeInputs({x}), "\n  help     Cast() the input"));
}

}  // namespace

MomentsResult Moments(Tensor x, Shape dims, std::source_location location) {
  if (!x.valid()) return {};
  const absl::Status status = Check(x, dims);
  if (!status.ok()) {
    Shape kept = x.shape();
    for (const Dimension& dim : dims) kept = kept.Without(dim.name);
    const Tensor failed =
        x.graph().Fail(status, "moments", location, kept, x.dtype());
    return {failed, failed};
  }
  CallSiteScope site(x.graph(), location);
  // The differences are from the mean in f32, not from one rounded to 16 bits.
  const Tensor wide = x.dtype() == kFloat32 ? x : Cast(x, kFloat32);
  const Tensor mean = MeanOver(wide, dims);
  const Tensor variance = MeanOver(Square(wide - mean), dims);
  if (x.dtype() == kFloat32) return {mean, variance};
  return {Cast(mean, x.dtype()), Cast(variance, x.dtype())};
}

}  // namespace mtf
