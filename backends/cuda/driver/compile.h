// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_COMPILE_H_
#define BACKENDS_CUDA_DRIVER_COMPILE_H_

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "backends/cuda/disk_cache.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// Compiles `source` to machine code for GPUs of `architecture` (90). If NVRTC
// does not know the architecture, compiles to PTX, which the driver compiles.
// kInternal contains the compiler's log and the first line that it mentions.
absl::StatusOr<std::string> CompileKernel(const KernelSource& source,
                                          int architecture);

class CudaFunction : public Function {
 public:
  CudaFunction(cudaKernel_t kernel, std::string name)
      : kernel_(kernel), name_(std::move(name)) {}
  cudaKernel_t kernel() const { return kernel_; }
  const std::string& name() const { return name_; }

  // Allows a launch to use `bytes` of shared memory per block.
  absl::Status AllowShared(int64_t bytes, int device);

 private:
  cudaKernel_t kernel_;
  std::string name_;
  std::mutex mutex_;
  int64_t allowed_ = 0;
};

// The kernels of one GPU, compiled once per text in this process, and cached on
// disk by text, architecture and compiler version.
class KernelLibrary {
 public:
  KernelLibrary(int device, int architecture);
  ~KernelLibrary();

  absl::StatusOr<Function*> Find(const KernelSource& source);

 private:
  struct Loaded {
    cudaLibrary_t library = nullptr;
    std::unique_ptr<CudaFunction> function;
  };
  absl::Status Load(const std::string& code, const std::string& name,
                    Loaded* loaded);

  int device_, architecture_;
  DiskCache cache_;
  std::mutex mutex_;
  std::map<std::string, Loaded> kernels_;  // by name and text
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_COMPILE_H_
