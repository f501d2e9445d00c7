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

// `x` of dtype `from` cast to `to`: rounded to a float dtype; a float truncated
// toward zero and held within the range of an integer (0 for a NaN), an integer
// wrapped to it; 1 for anything but 0 as a bool.
double CastToDType(double x, DType from, DType to);

// The value of a step other than an iota; `numbers` and `dtypes` are those of
// the operands and of the steps before. Only a cast rounds: a literal is the
// double that was written, whatever its dtype holds.
double EvaluateStep(const MapStep& step, const std::vector<double>& numbers,
                    const std::vector<DType>& dtypes);

}  // namespace mtf

#endif  // BACKENDS_REFERENCE_INTERPRETER_SCALAR_H_
