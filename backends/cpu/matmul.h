// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_MATMUL_H_
#define BACKENDS_CPU_MATMUL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lowering/program/einsum_plan.h"
#include "mtf/dtype.h"

namespace mtf::cpu {

// A batched matrix product of matrices in place; the loops are those of an
// EinsumPlan.
struct MatmulSpec {
  DType dtype = kFloat32;  // kFloat32 or kBFloat16, of x and y
  std::vector<EinsumLoop> batch;
  EinsumLoop m, n, k;
  bool accumulate = false;  // z += x y, not z = x y
  bool wide = false;        // z is kFloat32 for any dtype of x and y

  DType result_dtype() const { return wide ? kFloat32 : dtype; }
};

// A matrix product prepared by oneDNN. Sums are in float for either dtype. Runs
// on the thread that prepared it.
class Matmul {
 public:
  virtual ~Matmul() = default;

  // kUnimplemented if the library has only unoptimised code, as for bfloat16 on
  // a CPU without instructions for it.
  static absl::StatusOr<std::unique_ptr<Matmul>> Create(const MatmulSpec& spec);

  virtual void Run(const void* x, const void* y, void* z) = 0;

  // The selected implementation: "gemm", "brg:avx512_core", "loop of ...".
  virtual std::string ToString() const = 0;
};

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_MATMUL_H_
