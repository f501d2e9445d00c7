// SPDX-License-Identifier: Apache-2.0
//
// One macro for each library: the Status of a call, which on failure names the
// call, the code, what the library says of it, and where this process is.
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

// What errors say of where they were met: "GPU 0", and once this process is in
// a clique "GPU 0, place 3 of 8".
void SetWhere(const std::string& where);
std::string Where();

// "cudaMalloc failed on GPU 0: cudaErrorMemoryAllocation (2), out of memory".
// `call` is cut behind the name. kResourceExhausted where memory ran out,
// kUnavailable where there is no driver or no GPU, kInternal otherwise.
absl::Status CheckCuda(cudaError_t code, const char* call);
// kUnimplemented where cuBLASLt or cuDNN do not support what they were asked.
absl::Status CheckCublas(cublasStatus_t code, const char* call);
absl::Status CheckNvrtc(nvrtcResult code, const char* call);
#ifdef MTF_HAS_CUDNN
absl::Status CheckCudnn(cudnnStatus_t code, const char* call);
#endif
// With what NCCL says of `communicator`, which may be null.
#ifdef MTF_HAS_NCCL
absl::Status CheckNccl(ncclResult_t code, const char* call,
                       ncclComm_t communicator);
#define MTF_NCCL(communicator, call) \
  ::mtf::cuda::CheckNccl((call), #call, (communicator))
#endif

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_CHECK_H_
