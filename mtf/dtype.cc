// SPDX-License-Identifier: Apache-2.0
#include "mtf/dtype.h"

#include "absl/strings/str_cat.h"

namespace mtf {

absl::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case kFloat32:
      return "f32";
    case kBFloat16:
      return "bf16";
    case kFloat16:
      return "f16";
    case kInt32:
      return "i32";
    case kInt64:
      return "i64";
    case kBool:
      return "bool";
  }
  return "?";
}

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (DType dtype : kAllDTypes) {
    if (DTypeName(dtype) == name) return dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "dtype \"", name, "\" is not one of f32, bf16, f16, i32, i64, bool"));
}

int64_t DTypeSize(DType dtype) {
  switch (dtype) {
    case kFloat32:
      return 4;
    case kBFloat16:
      return 2;
    case kFloat16:
      return 2;
    case kInt32:
      return 4;
    case kInt64:
      return 8;
    case kBool:
      return 1;
  }
  return 0;
}

}  // namespace mtf
