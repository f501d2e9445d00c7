// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_PRECISION_TEXT_H_
#define MTF_PRECISION_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/precision.h"

namespace mtf {

// Parses a precision: a name, followed by fields that differ from it.
//
//   "bfloat16"                         18 bytes per parameter with Adam
//   "bfloat16, gradients:bfloat16"     16 bytes per parameter
//   "parameters:bf16, activations:bf16"
//
//   name            master    parameters  activations  gradients
//   float32         float32   float32     as used      as used
//   bfloat16        float32   bfloat16    bfloat16     float32
//   mixed_bfloat16  float32   float32     bfloat16     as used
//   pure_bfloat16   bfloat16  bfloat16    bfloat16     as used
//   float16         float32   float16     float16      float32
//   mixed_float16   float32   float32     float16      as used
//
// A dtype is "float32" or "f32", "bfloat16" or "bf16", "float16" or "f16", or
// "as_used" for an empty field. Text without a name starts from float32.
//
// Returns kInvalidArgument, with the nearest name, for an unknown word, a field
// that is given twice, or a precision that Precision::Validate rejects.
absl::StatusOr<Precision> ParsePrecision(absl::string_view text);

// The inverse of ParsePrecision: the name of `precision`, or its fields.
std::string PrecisionText(const Precision& precision);

// "float32", "bfloat16", ...
std::vector<std::string> PrecisionNames();

}  // namespace mtf

#endif  // MTF_PRECISION_TEXT_H_
