// SPDX-License-Identifier: Apache-2.0
//
// One macro per library that turns the result of a call into a Status, which on
// failure names the call, the code, the library's message and this process.
#ifndef BACKENDS_CUDA_DRIVER_CHECK_H_
#define BACKENDS_CUDA_DRIVER_CHECK_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include <string>

#include "absl/status/status.h"
#ifdef MTF_HAS_CUDNN
#include <cudnn.h>
#endif
#ifdef MTF_HAS_NCCL
#include <nccl.h>
#endif

// absl::Status status = MTF_CUDA(cudaMalloc(&data, bytes));
#define MTF_CUDA(call) ::mtf::cuda::CheckCuda((call), #call)
#define MTF_CUBLAS(call) ::mtf::cuda::CheckCublas((call), #call)
#define MTF_NVRTC(call) ::mtf::cuda::CheckNvrtc((call), #call)
#define MTF_CUDNN(call) ::mtf::cuda::CheckCudnn((call), #call)

namespace mtf::cuda {

// The location that errors state: "GPU 0", or for a member of a clique "GPU 0,
// rank 3 of 8".
void SetWhere(const std::string& where);
std::string Where();

// "cudaMalloc failed on GPU 0: cudaErrorMemoryAllocation (2), out of memory".
// Only the name of `call` is printed. kResourceExhausted if memory is
// exhausted, kUnavailable if there is no driver or no GPU, otherwise kInternal.
absl::Status CheckCuda(cudaError_t code, const char* call);
// kUnimplemented if cuBLASLt or cuDNN do not support the request.
absl::Status CheckCublas(cublasStatus_t code, const char* call);
absl::Status CheckNvrtc(nvrtcResult code, const char* call);
#ifdef MTF_HAS_CUDNN
absl::Status CheckCudnn(cudnnStatus_t code, const char* call);
#endif
// Adds NCCL's message for `communicator`, which may be null.
#ifdef MTF_HAS_NCCL
absl::Status CheckNccl(ncclResult_t code, const char* call,
                       ncclComm_t communicator);
#define MTF_NCCL(communicator, call) \
  ::mtf::cuda::CheckNccl((call), #call, (communicator))
#endif

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_CHECK_H_
