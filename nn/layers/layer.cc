// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/layer.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/operation.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/stop_gradient.h"

namespace mtf::nn::internal {

std::string DescribeLayer(absl::string_view kind, absl::string_view name) {
  return kind == name ? std::string(kind)
                      : absl::StrCat(kind, " \"", name, "\"");
}

absl::Status CheckDimension(Tensor x, const Dimension& dim) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckHasDimension(x, dim.name));
  const int64_t size = x.shape().SizeOf(dim.name);
  if (size == dim.size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "dimension \"", dim.name, "\" is ", dim.size, " in the call but ", size,
      " in \"", x.name(), "\"", DescribeInputs({x}),
      "\n  help     give one size to the name, or Rename() one of them"));
}

absl::Status CheckFloat(Tensor x, absl::string_view what) {
  if (IsFloat(x.dtype())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " takes a float dtype, not ", DTypeName(x.dtype()),
                   DescribeInputs({x}), "\n  help     Cast() it"));
}

absl::Status CheckInteger(Tensor x, absl::string_view what) {
  if (IsInteger(x.dtype())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " must have an integer dtype, not ",
                   DTypeName(x.dtype()), DescribeInputs({x})));
}

absl::Status CheckGiven(const Dimension& dim, absl::string_view option) {
  if (!dim.name.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the option ", option, " is missing"));
}

absl::StatusOr<Dimension> ModelDimension(Tensor x, const Shape& others) {
  if (x.shape().rank() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", x.name(),
                     "\" is a scalar, but its last dimension is needed as the "
                     "model dimension",
                     DescribeInputs({x})));
  }
  const Dimension dim = x.shape().dims().back();
  if (!others.Contains(dim.name)) return dim;
  return absl::InvalidArgumentError(absl::StrCat(
      "the last dimension of \"", x.name(), "\" is \"", dim.name,
      "\", but must be the model dimension", DescribeInputs({x}),
      "\n  help     Transpose() it, so that the model dimension comes last"));
}

Shape Join(const Shape& a, const Shape& b) {
  std::vector<Dimension> dims = a.dims();
  dims.insert(dims.end(), b.begin(), b.end());
  return Shape(std::move(dims));
}

Tensor To(DType dtype, Tensor x) {
  return x.dtype() == dtype ? x : Cast(x, dtype);
}

Tensor SafeMax(Tensor x, const Shape& output) {
  return StopGradient(Maximum(ReduceMax(x, output),
                              double{std::numeric_limits<float>::lowest()}));
}

}  // namespace mtf::nn::internal
