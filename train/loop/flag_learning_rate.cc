// SPDX-License-Identifier: Apache-2.0
//
// The flag --learning_rate, which a program has if it reads
// FLAGS_learning_rate.
#include "absl/flags/flag.h"
#include "train/loop/flag_types.h"

ABSL_FLAG(mtf::train::Rate, learning_rate, 3e-3, "maximum learning rate");
