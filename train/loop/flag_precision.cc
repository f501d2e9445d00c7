// SPDX-License-Identifier: Apache-2.0
//
// The flag --precision, which a program has if it reads FLAGS_precision.
#include "absl/flags/flag.h"
#include "train/loop/flag_types.h"

ABSL_FLAG(mtf::train::ModelPrecision, precision, {},
          "dtypes of the model: float32, bfloat16, mixed_bfloat16, "
          "pure_bfloat16, float16, mixed_float16, with optional exceptions, as "
          "in \"bfloat16,gradients:bfloat16\"");
