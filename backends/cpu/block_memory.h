// SPDX-License-Identifier: Apache-2.0
//
// Moves data between memory of any dtype and the registers of the block
// interpreter: floats for float dtypes and bool (0 and 1), int64 for integers.
#ifndef BACKENDS_CPU_BLOCK_MEMORY_H_
#define BACKENDS_CPU_BLOCK_MEMORY_H_

#include <cstdint>

#include "mtf/dtype.h"

namespace mtf::cpu {

// to[i] = from[offset + i * stride] for i in [0, count).
void ReadFloats(DType dtype, const void* from, int64_t offset, int64_t stride,
                int64_t count, float* to);
void ReadInts(DType dtype, const void* from, int64_t offset, int64_t stride,
              int64_t count, int64_t* to);

// to[offset + i * stride] = from[i]; floats are rounded to nearest even,
// integers truncated to the width of the dtype.
void WriteFloats(DType dtype, const float* from, int64_t count, void* to,
                 int64_t offset, int64_t stride);
void WriteInts(DType dtype, const int64_t* from, int64_t count, void* to,
               int64_t offset, int64_t stride);

// z[i] = x[i] rounded to `dtype`, a float dtype or bool.
void RoundFloats(DType dtype, const float* x, int64_t count, float* z);

// Casts between the two kinds of registers. Floats are truncated towards zero
// and clamped to the range of `dtype`; NaN becomes 0.
void FloatsToInts(DType dtype, const float* x, int64_t count, int64_t* z);
void IntsToFloats(DType dtype, const int64_t* x, int64_t count, float* z);
void IntsToInts(DType dtype, const int64_t* x, int64_t count, int64_t* z);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_BLOCK_MEMORY_H_
