// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_CODEGEN_KERNEL_LIST_H_
#define BACKENDS_CUDA_CODEGEN_KERNEL_LIST_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/backend.h"

namespace mtf::cuda {

// Runs kernels one after the other.
class KernelList : public Kernel {
 public:
  void Add(std::unique_ptr<Kernel> kernel) {
    kernels_.push_back(std::move(kernel));
  }
  absl::Status Add(absl::StatusOr<std::unique_ptr<Kernel>> kernel) {
    if (!kernel.ok()) return kernel.status();
    Add(*std::move(kernel));
    return absl::OkStatus();
  }
  void Run(StepContext& context) override {
    for (const auto& kernel : kernels_) kernel->Run(context);
  }

 private:
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_CODEGEN_KERNEL_LIST_H_
