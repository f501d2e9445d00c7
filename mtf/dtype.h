// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_DTYPE_H_
#define MTF_DTYPE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtf {

// The type of the elements of a tensor. Conversions to 16-bit floats round to
// nearest even (half.h).
enum DType : uint8_t {
  kFloat32,
  kBFloat16,
  kFloat16,
  kInt32,
  kInt64,
  kBool,
};
inline constexpr DType kAllDTypes[] = {kFloat32, kBFloat16, kFloat16,
                                       kInt32,   kInt64,    kBool};

// "f32", "bf16", "f16", "i32", "i64", "bool".
absl::string_view DTypeName(DType dtype);
// The inverse of DTypeName. An unknown name is kInvalidArgument with a list of
// the names.
absl::StatusOr<DType> ParseDType(absl::string_view name);

// The size of one element in bytes. A bool takes one byte, 0 or 1.
int64_t DTypeSize(DType dtype);

inline bool IsFloat(DType dtype) { return dtype <= kFloat16; }
inline bool IsInteger(DType dtype) {
  return dtype == kInt32 || dtype == kInt64;
}

}  // namespace mtf

#endif  // MTF_DTYPE_H_
