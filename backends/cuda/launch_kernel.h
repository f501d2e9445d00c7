// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_LAUNCH_KERNEL_H_
#define BACKENDS_CUDA_LAUNCH_KERNEL_H_

#include <utility>
#include <vector>

#include "backends/backend.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// A kernel whose parameters are all pointers, which never change.
class LaunchKernel : public Kernel {
 public:
  LaunchKernel(Runtime& runtime, Function* function, const LaunchShape& shape,
               std::vector<void*> pointers)
      : runtime_(runtime),
        function_(function),
        shape_(shape),
        pointers_(std::move(pointers)) {
    for (void*& pointer : pointers_) arguments_.push_back(&pointer);
  }
  LaunchKernel(const LaunchKernel&) = delete;
  LaunchKernel& operator=(const LaunchKernel&) = delete;

  void Run(StepContext&) override {
    runtime_.Launch(*function_, shape_, arguments_);
  }

 private:
  Runtime& runtime_;
  Function* function_;
  LaunchShape shape_;
  std::vector<void*> pointers_;
  std::vector<void*> arguments_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_LAUNCH_KERNEL_H_
