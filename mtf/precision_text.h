// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_PRECISION_TEXT_H_
#define MTF_PRECISION_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/precision.h"

namespace mtf {

// A precision by its name, and what differs from it:
//
//   "bfloat16"                         18 bytes for each parameter with Adam
//   "bfloat16, gradients:bfloat16"     16 of them
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
// A dtype is "float32" or "f32", "bfloat16" or "bf16", "float16" or "f16", and
// "as_used" for what may be empty. Text without a name starts from float32.
// kInvalidArgument, with the nearest name, for another word, a field given
// twice, and what Precision::Validate refuses.
absl::StatusOr<Precision> ParsePrecision(absl::string_view text);

// The name of `precision`, or its fields: what ParsePrecision reads.
std::string PrecisionText(const Precision& precision);

// "float32", "bfloat16", ...
std::vector<std::string> PrecisionNames();

}  // namespace mtf

#endif  // MTF_PRECISION_TEXT_H_
