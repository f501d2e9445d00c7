// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_REFERENCE_INTERPRETER_SCALAR_H_
#define BACKENDS_REFERENCE_INTERPRETER_SCALAR_H_

#include <vector>

#include "mtf/dtype.h"
#include "mtf/map_expression.h"

namespace mtf {

// Wraps `x`, the result of arithmetic, around to an integer `dtype`: modulo
// 2^32 or 2^64. Returns `x` for other dtypes.
double WrapToDType(double x, DType dtype);

// Casts `x` from dtype `from` to `to`. To a float dtype: rounded. To an
// integer: a float is truncated toward zero and clamped (NaN becomes 0), an
// integer wraps around. To bool: 1 for any nonzero value.
double CastToDType(double x, DType from, DType to);

// Evaluates a step other than an iota. `numbers` and `dtypes` are those of the
// operands and of previous steps. Only a cast rounds: a literal is the double
// that was written, for any dtype.
double EvaluateStep(const MapStep& step, const std::vector<double>& numbers,
                    const std::vector<DType>& dtypes);

}  // namespace mtf

#endif  // BACKENDS_REFERENCE_INTERPRETER_SCALAR_H_
