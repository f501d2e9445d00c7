// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_REDUCE_IDENTITY_H_
#define LOWERING_PROGRAM_REDUCE_IDENTITY_H_

#include "mtf/dtype.h"
#include "mtf/emitter.h"

namespace mtf {

// The identity of a reduction: 0 for a sum, the lowest or highest value of
// `dtype` for a maximum or minimum. For int64 an infinity stands for it and is
// converted when it is stored. Padding is filled with it before a reduction
// over a padded dimension.
double ReduceIdentity(ReduceKind kind, DType dtype);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_REDUCE_IDENTITY_H_
