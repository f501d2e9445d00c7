// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/gpu.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cuda/driver/check.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

constexpr char kHelp[] =
    "\n  help     nvidia-smi lists the GPUs; --backend=cpu runs the same "
    "program without a GPU";

// The CUDA ordinal of the GPU selected by `ordinal`.
absl::StatusOr<int> FindOrdinal(int ordinal) {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  // Programs may be linked with a stub library on machines without a driver.
  if (code == cudaErrorInsufficientDriver || code == cudaErrorStubLibrary) {
    int version = 0;
    // Without a driver this gives 0, not an error.
    cudaDriverGetVersion(&version);
    const int major = CUDART_VERSION / 1000, minor = CUDART_VERSION % 1000 / 10;
    cudaGetLastError();
    if (version == 0) {
      return absl::UnavailableError(absl::StrCat(
          "this machine has no NVIDIA driver, so device \"cuda\" cannot be "
          "used",
          kHelp));
    }
    return absl::UnavailableError(absl::StrCat(
        "the NVIDIA driver of this machine is for CUDA ", version / 1000, ".",
        version % 1000 / 10, ", older than the CUDA ", major, ".", minor,
        " of this build", kHelp));
  }
  if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0)) {
    cudaGetLastError();
    return absl::UnavailableError(absl::StrCat(
        "this process sees no GPU (CUDA_VISIBLE_DEVICES may hide it)", kHelp));
  }
  if (code != cudaSuccess) {
    MTF_RETURN_IF_ERROR(CheckCuda(code, "cudaGetDeviceCount"));
  }
  // A launcher may show each process one of several GPUs. Two processes with
  // the same GPU get an error when they connect.
  if (count == 1) return 0;
  if (ordinal < 0 || ordinal >= count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "GPU ", ordinal, " was asked for, but this process sees ", count,
        " GPUs\n  help     start as many processes on this host as it has "
        "GPUs; "
        "CUDA_VISIBLE_DEVICES chooses which"));
  }
  return ordinal;
}

// Selects a GPU for the calling thread. Every selection goes through this
// function, because it caches the current one.
absl::Status SetDevice(int ordinal) {
  thread_local int current = -1;
  if (current == ordinal) return absl::OkStatus();
  MTF_RETURN_IF_ERROR(MTF_CUDA(cudaSetDevice(ordinal)));
  current = ordinal;
  return absl::OkStatus();
}

// The Gpu on whose second stream the thread enqueues, or null.
thread_local const Gpu* async_gpu_of_thread = nullptr;

thread_local const char* range_of_thread = nullptr;

absl::StatusOr<int> Attribute(cudaDeviceAttr attribute, int ordinal) {
  int value = 0;
  MTF_RETURN_IF_ERROR(
      MTF_CUDA(cudaDeviceGetAttribute(&value, attribute, ordinal)));
  return value;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gpu>> Gpu::Open(int wanted) {
  MTF_ASSIGN_OR_RETURN(const int ordinal, FindOrdinal(wanted));
  SetWhere(absl::StrCat("GPU ", ordinal));
  std::unique_ptr<Gpu> gpu(new Gpu);
  gpu->ordinal_ = ordinal;
  MTF_RETURN_IF_ERROR(SetDevice(ordinal));
  cudaDeviceProp properties;
  MTF_RETURN_IF_ERROR(MTF_CUDA(cudaGetDeviceProperties(&properties, ordinal)));
  GpuInfo& info = gpu->info_;
  info.name = properties.name;
  info.uuid = "GPU-";
  for (const char byte : properties.uuid.bytes) {
    absl::StrAppend(&info.uuid, absl::Hex(static_cast<unsigned char>(byte),
                                          absl::kZeroPad2));
  }
  info.architecture = 10 * properties.major + properties.minor;
  info.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  MTF_ASSIGN_OR_RETURN(info.multiprocessors,
                       Attribute(cudaDevAttrMultiProcessorCount, ordinal));
  MTF_ASSIGN_OR_RETURN(
      info.shared_bytes,
      Attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal));
  MTF_RETURN_IF_ERROR(MTF_CUDA(
      cudaStreamCreateWithFlags(&gpu->stream_, cudaStreamNonBlocking)));
  MTF_RETURN_IF_ERROR(MTF_CUDA(
      cudaStreamCreateWithFlags(&gpu->setup_stream_, cudaStreamNonBlocking)));
  // Collectives get priority: they use few blocks, and much work waits for
  // them.
  int least = 0, greatest = 0;
  MTF_RETURN_IF_ERROR(
      MTF_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest)));
  MTF_RETURN_IF_ERROR(MTF_CUDA(cudaStreamCreateWithPriority(
      &gpu->communication_stream_, cudaStreamNonBlocking, greatest)));
  MTF_RETURN_IF_ERROR(MTF_CUDA(
      cudaEventCreateWithFlags(&gpu->joined_, cudaEventDisableTiming)));
  return gpu;
}

Gpu::~Gpu() {
  Enter();
  if (joined_ != nullptr) cudaEventDestroy(joined_);
  for (cudaStream_t stream : {stream_, setup_stream_, communication_stream_}) {
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
}

void Gpu::Enter() {
  const absl::Status status = SetDevice(ordinal_);
  if (!status.ok()) Keep(status);
}

bool Gpu::is_asynchronous() const { return async_gpu_of_thread == this; }

void Gpu::EnterAsync(cudaEvent_t begin) {
  Enter();
  has_async_work_ = true;
  Keep(MTF_CUDA(cudaEventRecord(begin, stream_)));
  Keep(MTF_CUDA(cudaStreamWaitEvent(communication_stream_, begin, 0)));
  async_gpu_of_thread = this;
}

void Gpu::LeaveAsync(cudaEvent_t end) {
  async_gpu_of_thread = nullptr;
  Keep(MTF_CUDA(cudaEventRecord(end, communication_stream_)));
}

void Gpu::WaitForAsync(cudaEvent_t end) {
  Enter();
  Keep(MTF_CUDA(cudaStreamWaitEvent(stream_, end, 0)));
}

void Gpu::JoinAsync() {
  // Under the lock: a thread that has nothing left to join must come after the
  // join.
  std::lock_guard<std::mutex> lock(async_mutex_);
  if (!has_async_work_.exchange(false)) return;
  Keep(MTF_CUDA(cudaEventRecord(joined_, communication_stream_)));
  Keep(MTF_CUDA(cudaStreamWaitEvent(stream_, joined_, 0)));
}

absl::StatusOr<void*> Gpu::Allocate(int64_t bytes) {
  Enter();
  const size_t size = std::max<int64_t>(bytes, 1);
  void* data = nullptr;
  absl::Status status = MTF_CUDA(cudaMalloc(&data, size));
  if (absl::IsResourceExhausted(status)) {
    size_t free = 0, all = 0;
    cudaMemGetInfo(&free, &all);
    return absl::ResourceExhaustedError(
        absl::StrCat("GPU ", ordinal_, " cannot allocate ", bytes,
                     " bytes: ", free, " of ", all, " are free"));
  }
  MTF_RETURN_IF_ERROR(status);
  status = MTF_CUDA(cudaMemsetAsync(data, 0, size, setup_stream_));
  if (status.ok()) status = MTF_CUDA(cudaStreamSynchronize(setup_stream_));
  if (!status.ok()) {
    cudaFree(data);
    return status;
  }
  return data;
}

void Gpu::Free(void* data) {
  Enter();
  if (data != nullptr) Keep(MTF_CUDA(cudaFree(data)));
}

absl::StatusOr<void*> Gpu::AllocateHost(int64_t bytes) {
  Enter();
  const size_t size = std::max<int64_t>(bytes, 1);
  void* data = nullptr;
  const absl::Status status =
      MTF_CUDA(cudaHostAlloc(&data, size, cudaHostAllocPortable));
  if (absl::IsResourceExhausted(status)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the host cannot lock ", bytes,
        " bytes of memory for a variable of [offload]: see \"ulimit -l\" and "
        "the memory limit of the job"));
  }
  MTF_RETURN_IF_ERROR(status);
  std::memset(data, 0, size);
  return data;
}

void Gpu::FreeHost(void* data) {
  Enter();
  if (data != nullptr) Keep(MTF_CUDA(cudaFreeHost(data)));
}

void Gpu::SetRange(const char* name) { range_of_thread = name; }

const char* Gpu::Range() {
  return range_of_thread == nullptr ? "" : range_of_thread;
}

void Gpu::Keep(const absl::Status& status) {
  if (status.ok()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  has_failed_ = true;
  if (error_.ok()) error_ = status;
}

absl::Status Gpu::TakeError() {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(error_, absl::OkStatus());
}

bool Gpu::has_failed() {
  std::lock_guard<std::mutex> lock(mutex_);
  return has_failed_;
}

}  // namespace mtf::cuda
