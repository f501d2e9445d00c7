// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_KERNELS_ZERO_H_
#define BACKENDS_CUDA_KERNELS_ZERO_H_

#include <cstdint>

#include "backends/backend.h"
#include "backends/cuda/runtime.h"
#include "mtf/dtype.h"

namespace mtf::cuda {

// Sets every element of `value`, padding included, to 0.
class ZeroKernel : public Kernel {
 public:
  ZeroKernel(Runtime& runtime, const BoundValue& value)
      : runtime_(runtime),
        data_(value.data),
        bytes_(value.elements() * DTypeSize(value.dtype())) {}
  void Run(StepContext&) override {
    if (bytes_ > 0) runtime_.SetZero(data_, bytes_);
  }

 private:
  Runtime& runtime_;
  void* const data_;
  const int64_t bytes_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_ZERO_H_
