// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_REDUCE_REGISTERS_H_
#define BACKENDS_CPU_REDUCE_REGISTERS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "backends/cpu/block_memory.h"
#include "backends/cpu/block_program.h"
#include "mtf/emitter.h"
#include "mtf/scalar_functions.h"

namespace mtf::cpu {

inline double Combine(ReduceKind kind, double x, double y) {
  if (kind == ReduceKind::kSum) return x + y;
  return kind == ReduceKind::kMax ? scalar::Maximum(x, y)
                                  : scalar::Minimum(x, y);
}

inline int64_t Combine(ReduceKind kind, int64_t x, int64_t y) {
  if (kind == ReduceKind::kSum) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) +
                                static_cast<uint64_t>(y));
  }
  return kind == ReduceKind::kMax ? std::max(x, y) : std::min(x, y);
}

// Operations on registers of floats and of integers. `Sum` is the type of the
// accumulators.
struct FloatRegisters {
  using Register = float;
  using Sum = double;
  static Sum IdentityOf(ReduceKind kind, DType dtype) {
    if (kind == ReduceKind::kSum) return 0;
    if (dtype == kBool) return kind == ReduceKind::kMin;
    const double infinity = std::numeric_limits<double>::infinity();
    return kind == ReduceKind::kMax ? -infinity : infinity;
  }
  static const float* Evaluate(BlockProgram::Evaluator& evaluator,
                               int64_t begin, int64_t count) {
    return evaluator.Floats(begin, count);
  }
  static Sum Reduce(ReduceKind kind, const float* x, int64_t n) {
    return ReduceFloats(kind, x, n);
  }
  static void Accumulate(ReduceKind kind, const float* x, float* sums,
                         int64_t n) {
    AccumulateFloats(kind, x, sums, n);
  }
  static void Store(DType dtype, const Sum* sums, int64_t n, void* to,
                    int64_t offset, int64_t stride) {
    float block[BlockProgram::kBlock];
    for (int64_t i = 0; i < n; ++i) block[i] = static_cast<float>(sums[i]);
    WriteFloats(dtype, block, n, to, offset, stride);
  }
};

struct IntRegisters {
  using Register = int64_t;
  using Sum = int64_t;
  static Sum IdentityOf(ReduceKind kind, DType dtype) {
    if (kind == ReduceKind::kSum) return 0;
    const bool narrow = dtype == kInt32;
    if (kind == ReduceKind::kMax) {
      return narrow ? std::numeric_limits<int32_t>::min()
                    : std::numeric_limits<int64_t>::min();
    }
    return narrow ? std::numeric_limits<int32_t>::max()
                  : std::numeric_limits<int64_t>::max();
  }
  static const int64_t* Evaluate(BlockProgram::Evaluator& evaluator,
                                 int64_t begin, int64_t count) {
    return evaluator.Ints(begin, count);
  }
  static Sum Reduce(ReduceKind kind, const int64_t* x, int64_t n) {
    Sum sum = x[0];
    for (int64_t i = 1; i < n; ++i) sum = Combine(kind, sum, x[i]);
    return sum;
  }
  static void Accumulate(ReduceKind kind, const int64_t* x, int64_t* sums,
                         int64_t n) {
    for (int64_t i = 0; i < n; ++i) sums[i] = Combine(kind, sums[i], x[i]);
  }
  static void Store(DType dtype, const Sum* sums, int64_t n, void* to,
                    int64_t offset, int64_t stride) {
    WriteInts(dtype, sums, n, to, offset, stride);
  }
};

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_REDUCE_REGISTERS_H_
