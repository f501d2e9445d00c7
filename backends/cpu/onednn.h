// SPDX-License-Identifier: Apache-2.0
//
// What the CPU device takes from oneDNN. Only onednn.cc includes the library,
// by its C interface: that of release 2, and that of release 3 where it
// differs.
#ifndef BACKENDS_CPU_ONEDNN_H_
#define BACKENDS_CPU_ONEDNN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/cpu/matmul.h"

namespace mtf::cpu::onednn {

// A matmul primitive with its memory objects, for one thread to call; it runs
// on as many threads as that one had when it was made.
class Primitive {
 public:
  virtual ~Primitive() = default;

  // With `packs_y`, y is first copied into the order that the library likes
  // best, in every run. kUnimplemented where there is only reference code.
  static absl::StatusOr<std::unique_ptr<Primitive>> Create(
      const MatmulSpec& spec, bool packs_y);

  virtual void Run(const void* x, const void* y, void* z) = 0;
  virtual const std::string& implementation() const = 0;
};

// A row-major float matrix, or one that is the transpose of such.
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
