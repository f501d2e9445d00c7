// SPDX-License-Identifier: Apache-2.0
//
// The interface between the library and libmtf_cuda.so, which is built from
// driver/ and opened at run time, so that programs start fast, also on machines
// without a driver. Both sides are built from one tree by one compiler, so C++
// types may pass through it; kDriverAbi detects if they were not.
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
  double collective_timeout = 0;  // seconds; 0 waits forever
};

// Increase it with every change of runtime.h or of this file that does not
// change one of the sizes below.
inline constexpr int64_t kDriverAbi =
    7 +
    1000 * (sizeof(GpuInfo) + 3 * sizeof(MatmulProblem) +
            5 * sizeof(AttentionProblem) + 7 * sizeof(DriverOptions) +
            11 * sizeof(PreparedMatmul::Buffers) +
            13 * sizeof(PreparedAttention::Buffers) + 17 * sizeof(LaunchShape) +
            29 * sizeof(ConvolutionProblem) +
            19 * sizeof(std::string) + 23 * sizeof(absl::Status));

// The functions that the shared object exports.
extern "C" {
// kDriverAbi of the shared object; called before anything else.
using MtfCudaAbi = int64_t();
// Opens the runtime of a GPU, or says why it cannot.
using MtfCudaOpen = void(const DriverOptions* options,
                         absl::StatusOr<std::shared_ptr<Runtime>>* runtime);
// Compiles a kernel to the machine code of `architecture`; needs no GPU.
using MtfCudaCompile = void(const KernelSource* source, int architecture,
                            absl::StatusOr<std::string>* code);
// Returns OK if cuDNN supports `problem` on a GPU described by `device` (in
// cuDNN's own format), otherwise the reason; needs no GPU.
using MtfCudaCheckAttention = void(const AttentionProblem* problem,
                                   const std::string* device,
                                   absl::Status* status);
// The same for a convolution.
using MtfCudaCheckConvolution = void(const ConvolutionProblem* problem,
                                     const std::string* device,
                                     absl::Status* status);
}
inline constexpr char kMtfCudaAbi[] = "mtf_cuda_abi";
inline constexpr char kMtfCudaOpen[] = "mtf_cuda_open";
inline constexpr char kMtfCudaCompile[] = "mtf_cuda_compile";
inline constexpr char kMtfCudaCheckAttention[] = "mtf_cuda_check_attention";
inline constexpr char kMtfCudaCheckConvolution[] =
    "mtf_cuda_check_convolution";

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_API_H_
