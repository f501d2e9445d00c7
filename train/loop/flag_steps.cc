// SPDX-License-Identifier: Apache-2.0
//
// The flag --steps, which a program has if it reads FLAGS_steps.
#include "absl/flags/flag.h"
#include "train/loop/flag_types.h"

ABSL_FLAG(mtf::train::Size, steps, 1000, "number of training steps");
