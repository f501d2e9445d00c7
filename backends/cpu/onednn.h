// SPDX-License-Identifier: Apache-2.0
//
// The wrapper around matmuls of oneDNN. Only onednn_call.h includes the
// library, through its C interface of release 2, or of release 3 where that
// differs.
#ifndef BACKENDS_CPU_ONEDNN_H_
#define BACKENDS_CPU_ONEDNN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/cpu/matmul.h"

namespace mtf::cpu::onednn {

// A matmul primitive with its memory objects, called by one thread. It runs on
// as many threads as the calling thread had at its creation.
class Primitive {
 public:
  virtual ~Primitive() = default;

  // The operand that every run first copies: x into rows, or y into the
  // library's preferred layout.
  enum class Packs { kNone, kX, kY };

  // kUnimplemented if the library has only reference code.
  static absl::StatusOr<std::unique_ptr<Primitive>> Create(
      const MatmulSpec& spec, Packs packs);

  virtual void Run(const void* x, const void* y, void* z) = 0;
  virtual const std::string& implementation() const = 0;
};

// The layout of a float matrix: row-major, or column-major if `transposed`.
struct Matrix {
  bool transposed = false;
  int64_t leading = 1;
};

// z = x y, or z += x y, of m by k and k by n matrices.
void Sgemm(int64_t m, int64_t n, int64_t k, const float* x, const Matrix& x_in,
           const float* y, const Matrix& y_in, bool accumulate, float* z,
           int64_t z_leading);

}  // namespace mtf::cpu::onednn

#endif  // BACKENDS_CPU_ONEDNN_H_
