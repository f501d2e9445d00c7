// SPDX-License-Identifier: Apache-2.0
//
// The door between the library and libmtf_cuda.so, which is built from driver/
// and opened at run time: programs start where there is no driver, and start
// fast. Both sides are built from one tree by one compiler, so C++ types pass
// through; the number below tells where they were not.
#ifndef BACKENDS_CUDA_DRIVER_API_H_
#define BACKENDS_CUDA_DRIVER_API_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

struct DriverOptions {
  int ordinal = 0;
  double collective_timeout = 0;  // seconds; 0 waits for ever
};

// Goes up with every change of runtime.h or of this file; what changes a size
// is seen without.
inline constexpr int64_t kDriverAbi =
    4 +
    1000 * (sizeof(GpuInfo) + 3 * sizeof(MatmulProblem) +
            5 * sizeof(AttentionProblem) + 7 * sizeof(DriverOptions) +
            11 * sizeof(PreparedMatmul::Buffers) +
            13 * sizeof(PreparedAttention::Buffers) + 17 * sizeof(LaunchShape) +
            19 * sizeof(std::string) + 23 * sizeof(absl::Status));

// What the shared object exports.
extern "C" {
// kDriverAbi of the other side: asked before anything else.
using MtfCudaAbi = int64_t();
// The runtime of a GPU, or why there is none.
using MtfCudaOpen = void(const DriverOptions* options,
                         absl::StatusOr<std::shared_ptr<Runtime>>* runtime);
// The machine code that a GPU of `architecture` would load; needs no GPU.
using MtfCudaCompile = void(const KernelSource* source, int architecture,
                            absl::StatusOr<std::string>* code);
// Whether the libraries accept the graph of `problem` on a GPU that `device`
// describes as cuDNN does; needs no GPU. OK, or why not.
using MtfCudaCheckAttention = void(const AttentionProblem* problem,
                                   const std::string* device,
                                   absl::Status* status);
}
inline constexpr char kMtfCudaAbi[] = "mtf_cuda_abi";
inline constexpr char kMtfCudaOpen[] = "mtf_cuda_open";
inline constexpr char kMtfCudaCompile[] = "mtf_cuda_compile";
inline constexpr char kMtfCudaCheckAttention[] = "mtf_cuda_check_attention";

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_API_H_
