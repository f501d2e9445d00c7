// SPDX-License-Identifier: Apache-2.0
//
// Between memory of any dtype and the registers of the block interpreter:
// floats for every float dtype and for bool (0 and 1), int64 for integers.
#ifndef BACKENDS_CPU_BLOCK_MEMORY_H_
#define BACKENDS_CPU_BLOCK_MEMORY_H_

#include <cstdint>

#include "mtf/dtype.h"

namespace mtf::cpu {

// to[i] = from[place + i * stride] for i in [0, count).
void ReadFloats(DType dtype, const void* from, int64_t place, int64_t stride,
                int64_t count, float* to);
void ReadInts(DType dtype, const void* from, int64_t place, int64_t stride,
              int64_t count, int64_t* to);

// to[place + i * stride] = from[i], rounded to nearest even or cut to the width
// of an integer.
void WriteFloats(DType dtype, const float* from, int64_t count, void* to,
                 int64_t place, int64_t stride);
void WriteInts(DType dtype, const int64_t* from, int64_t count, void* to,
               int64_t place, int64_t stride);

// x[i] as it would read back from memory of `dtype`, a float one or bool.
void RoundFloats(DType dtype, const float* x, int64_t count, float* z);

// Casts between the two kinds of registers. Floats are cut towards zero; NaN
// becomes 0, and what does not fit the least or greatest integer of `dtype`.
void FloatsToInts(DType dtype, const float* x, int64_t count, int64_t* z);
void IntsToFloats(DType dtype, const int64_t* x, int64_t count, float* z);
void IntsToInts(DType dtype, const int64_t* x, int64_t count, int64_t* z);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_BLOCK_MEMORY_H_
