// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_REFERENCE_INTERPRETER_SCALAR_H_
#define BACKENDS_REFERENCE_INTERPRETER_SCALAR_H_

#include <vector>

#include "mtf/dtype.h"
#include "mtf/map_expression.h"

namespace mtf {

// `x`, the result of arithmetic, as an integer `dtype` keeps it: modulo 2^32 or
// 2^64. Other dtypes keep it as it is.
double WrapToDType(double x, DType dtype);

// `x` cast to `dtype`: rounded to a float dtype, truncated toward zero and held
// within the range of an integer (0 for a NaN), 1 for anything but 0 as a bool.
double CastToDType(double x, DType dtype);

// The value of a step other than an iota; `numbers` holds the operands and the
// results of the steps before.
double EvaluateStep(const MapStep& step, const std::vector<double>& numbers);

}  // namespace mtf

#endif  // BACKENDS_REFERENCE_INTERPRETER_SCALAR_H_
