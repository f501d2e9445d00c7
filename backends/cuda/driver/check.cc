// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/check.h"

#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace mtf::cuda {
namespace {

std::mutex& WhereMutex() {
  static std::mutex mutex;
  return mutex;
}
std::string& WhereText() {
  static std::string where = "this machine";
  return where;
}

absl::Status Failed(absl::StatusCode status, absl::string_view call,
                    absl::string_view name, int code, absl::string_view text) {
  return absl::Status(
      status,
      absl::StrCat(call.substr(0, call.find('(')), " failed on ", Where(), ": ",
                   name, name.empty() ? "" : " ", "(", code, "), ", text));
}

}  // namespace

void SetWhere(const std::string& where) {
  std::lock_guard<std::mutex> lock(WhereMutex());
  WhereText() = where;
}

std::string Where() {
  std::lock_guard<std::mutex> lock(WhereMutex());
  return WhereText();
}

absl::Status CheckCuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return absl::OkStatus();
  absl::StatusCode status = absl::StatusCode::kInternal;
  if (code == cudaErrorMemoryAllocation) {
    status = absl::StatusCode::kResourceExhausted;
  } else if (code == cudaErrorInsufficientDriver || code == cudaErrorNoDevice) {
    status = absl::StatusCode::kUnavailable;
  }
  // Clears the error, so that the next call that checks does not report it.
  cudaGetLastError();
  return Failed(status, call, cudaGetErrorName(code), code,
                cudaGetErrorString(code));
}

absl::Status CheckCublas(cublasStatus_t code, const char* call) {
  if (code == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  absl::StatusCode status = absl::StatusCode::kInternal;
  if (code == CUBLAS_STATUS_NOT_SUPPORTED) {
    status = absl::StatusCode::kUnimplemented;
  } else if (code == CUBLAS_STATUS_ALLOC_FAILED) {
    status = absl::StatusCode::kResourceExhausted;
  }
  return Failed(status, call, cublasLtGetStatusName(code), code,
                cublasLtGetStatusString(code));
}

absl::Status CheckNvrtc(nvrtcResult code, const char* call) {
  if (code == NVRTC_SUCCESS) return absl::OkStatus();
  return Failed(absl::StatusCode::kInternal, call, "", code,
                nvrtcGetErrorString(code));
}

#ifdef MTF_HAS_CUDNN
absl::Status CheckCudnn(cudnnStatus_t code, const char* call) {
  if (code == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  char reason[1024] = "";
  cudnnGetLastErrorString(reason, sizeof(reason));
  // The thousands digit is the category; 3000 means not supported.
  const bool unsupported = code / 1000 * 1000 == CUDNN_STATUS_NOT_SUPPORTED;
  return Failed(unsupported ? absl::StatusCode::kUnimplemented
                            : absl::StatusCode::kInternal,
                call, cudnnGetErrorString(code), code,
                *reason != '\0' ? reason : "no reason given");
}
#endif

#ifdef MTF_HAS_NCCL
absl::Status CheckNccl(ncclResult_t code, const char* call,
                       ncclComm_t communicator) {
  if (code == ncclSuccess) return absl::OkStatus();
  const char* reason = ncclGetLastError(communicator);
  return Failed(code == ncclRemoteError ? absl::StatusCode::kUnavailable
                                        : absl::StatusCode::kInternal,
                call, "", code,
                absl::StrCat(ncclGetErrorString(code),
                             reason != nullptr && *reason != '\0' ? ": " : "",
                             reason != nullptr ? reason : ""));
}
#endif

}  // namespace mtf::cuda
