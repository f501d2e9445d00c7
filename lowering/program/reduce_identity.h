// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_REDUCE_IDENTITY_H_
#define LOWERING_PROGRAM_REDUCE_IDENTITY_H_

#include "mtf/dtype.h"
#include "mtf/emitter.h"

namespace mtf {

// The value that changes no reduction of `kind`: 0, or the lowest or highest
// number of `dtype`; an infinity stands for the least or greatest int64, which
// a fill becomes when it is stored. Padding holds it where a reduction runs
// over padding.
double ReduceIdentity(ReduceKind kind, DType dtype);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_REDUCE_IDENTITY_H_
