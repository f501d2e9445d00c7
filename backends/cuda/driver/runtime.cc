// SPDX-License-Identifier: Apache-2.0
#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cuda/driver/check.h"
#include "backends/cuda/driver/compile.h"
#include "backends/cuda/driver/gpu.h"
#include "backends/cuda/driver/matmul.h"
#include "backends/cuda/driver/staging.h"
#include "backends/cuda/driver_api.h"
#include "mtf/status.h"
#ifdef MTF_HAS_CUDNN
#include "backends/cuda/driver/attention.h"
#include "backends/cuda/driver/convolution.h"
#include "backends/cuda/driver/cudnn_handle.h"
#endif
#ifdef MTF_HAS_NCCL
#include "backends/cuda/driver/nccl_group.h"
#endif

namespace mtf::cuda {
namespace {

absl::Status Without(const char* library) {
  return absl::UnimplementedError(absl::StrCat(
      "the CUDA driver library of mtf was built without ", library));
}

class GraphRecording : public Recording {
 public:
  GraphRecording(Gpu& gpu, cudaGraphExec_t graph) : gpu_(gpu), graph_(graph) {}
  ~GraphRecording() override {
    gpu_.Enter();
    cudaGraphExecDestroy(graph_);
  }
  absl::Status Replay() override {
    gpu_.Enter();
    return MTF_CUDA(cudaGraphLaunch(graph_, gpu_.stream()));
  }

 private:
  Gpu& gpu_;
  cudaGraphExec_t graph_;
};

// Events on both streams at the begin and the end of asynchronous work.
class CudaAsyncWork : public AsyncWork {
 public:
  explicit CudaAsyncWork(Gpu& gpu) : gpu_(gpu) {}
  ~CudaAsyncWork() override {
    gpu_.Enter();
    for (cudaEvent_t event : {begin_, end_}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
  absl::Status Init() {
    gpu_.Enter();
    for (cudaEvent_t* event : {&begin_, &end_}) {
      MTF_RETURN_IF_ERROR(
          MTF_CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming)));
    }
    return absl::OkStatus();
  }
  cudaEvent_t begin() const { return begin_; }
  cudaEvent_t end() const { return end_; }

 private:
  Gpu& gpu_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

class CudaRuntime : public Runtime {
 public:
  static absl::StatusOr<std::shared_ptr<Runtime>> Open(
      const DriverOptions& options) {
    MTF_ASSIGN_OR_RETURN(std::unique_ptr<Gpu> gpu, Gpu::Open(options.ordinal));
    std::shared_ptr<CudaRuntime> runtime(
        new CudaRuntime(std::move(gpu), options.collective_timeout));
    MTF_ASSIGN_OR_RETURN(runtime->matmuls_, Matmuls::Create(*runtime->gpu_));
    return runtime;
  }

  ~CudaRuntime() override {
    gpu_->Enter();
    // Enqueued work may use memory that is freed here.
    gpu_->JoinAsync();
    cudaStreamSynchronize(gpu_->stream());
  }

  const GpuInfo& info() const override { return gpu_->info(); }
  void EnterThread() override { gpu_->Enter(); }

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    return gpu_->Allocate(bytes);
  }
  void Free(void* data) override { gpu_->Free(data); }

  absl::StatusOr<void*> AllocateHost(int64_t bytes) override {
    return gpu_->AllocateHost(bytes);
  }
  void FreeHost(void* data) override { gpu_->FreeHost(data); }
  void CopyWithHost(void* to, const void* from, int64_t bytes) override {
    gpu_->Enter();
    if (bytes == 0) return;
    // With unified addressing the direction follows from the addresses.
    gpu_->Keep(MTF_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault,
                                        gpu_->current_stream())));
  }

  void CopyToDevice(void* to, const void* from, int64_t bytes) override {
    if (bytes == 0 || !MayTouchHost("CopyToDevice")) return;
    gpu_->Keep(staging_.CopyToDevice(to, from, bytes));
  }
  void CopyToHost(void* to, const void* from, int64_t bytes) override {
    if (bytes == 0 || !MayTouchHost("CopyToHost")) return;
#ifdef MTF_HAS_NCCL
    // Unless `to` is pinned, cudaMemcpyAsync returns only when the copy has
    // finished, and would not notice a collective that never completes.
    if (!groups_.empty()) {
      const absl::Status waited = WaitForOthers();
      if (!waited.ok()) return gpu_->Keep(waited);
    }
#endif
    // `from` may be memory of AllocateHost.
    gpu_->Keep(MTF_CUDA(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, gpu_->stream())));
  }
  void CopyOnDevice(void* to, const void* from, int64_t bytes) override {
    gpu_->Enter();
    if (bytes == 0 || to == from) return;
    gpu_->Keep(MTF_CUDA(cudaMemcpyAsync(
        to, from, bytes, cudaMemcpyDeviceToDevice, gpu_->current_stream())));
  }
  void SetZero(void* to, int64_t bytes) override {
    gpu_->Enter();
    if (bytes == 0) return;
    gpu_->Keep(MTF_CUDA(cudaMemsetAsync(to, 0, bytes, gpu_->current_stream())));
  }

  absl::StatusOr<Function*> Compile(const KernelSource& source) override {
    gpu_->Enter();
    return kernels_.Find(source);
  }

  void Launch(Function& function, const LaunchShape& shape,
              absl::Span<void* const> arguments) override {
    gpu_->Enter();
    auto& kernel = static_cast<CudaFunction&>(function);
    gpu_->Keep(kernel.AllowShared(shape.shared_bytes, gpu_->ordinal()));
    const absl::Status launched = MTF_CUDA(
        cudaLaunchKernel(reinterpret_cast<const void*>(kernel.kernel()),
                         dim3(static_cast<unsigned>(shape.blocks)),
                         dim3(static_cast<unsigned>(shape.threads)),
                         const_cast<void**>(arguments.data()),
                         shape.shared_bytes, gpu_->current_stream()));
    if (launched.ok()) return;
    gpu_->Keep(absl::Status(
        launched.code(),
        absl::StrCat(launched.message(), "\n  kernel   ", kernel.name(), ", ",
                     shape.blocks, " blocks of ", shape.threads, " threads, ",
                     shape.shared_bytes, " bytes shared")));
  }

  absl::StatusOr<std::unique_ptr<PreparedMatmul>> PrepareMatmul(
      const MatmulProblem& problem) override {
    return matmuls_->Prepare(problem, /*may_time=*/!recording_);
  }

  absl::StatusOr<std::string> SettleMatmuls(
      int rank, const AllGatherTexts& all_gather) override {
    return matmuls_->Settle(rank, all_gather);
  }

  bool has_attention() override {
#ifdef MTF_HAS_CUDNN
    return HasFusedAttention();
#else
    return false;
#endif
  }
  absl::StatusOr<std::unique_ptr<PreparedAttention>> PrepareAttention(
      const AttentionProblem& problem) override {
#ifdef MTF_HAS_CUDNN
    return attentions_.Prepare(problem);
#else
    static_cast<void>(problem);
    return Without("cuDNN");
#endif
  }

  std::unique_ptr<AsyncWork> NewAsyncWork() override {
    auto work = std::make_unique<CudaAsyncWork>(*gpu_);
    const absl::Status made = work->Init();
    if (made.ok()) return work;
    gpu_->Keep(made);
    return nullptr;
  }
  void EnterAsync(AsyncWork& work) override {
    gpu_->EnterAsync(static_cast<CudaAsyncWork&>(work).begin());
  }
  void LeaveAsync(AsyncWork& work) override {
    gpu_->LeaveAsync(static_cast<CudaAsyncWork&>(work).end());
  }
  void WaitForAsync(AsyncWork& work) override {
    gpu_->WaitForAsync(static_cast<CudaAsyncWork&>(work).end());
  }

  absl::Status Synchronize() override {
    gpu_->Enter();
    if (recording_) {
      return absl::FailedPreconditionError(
          "recorded work does not run, so nothing can wait for it");
    }
    // Asynchronous work left over from a failed step.
    gpu_->JoinAsync();
    gpu_->Keep(WaitForStream());
    return gpu_->TakeError();
  }

  absl::Status BeginRecording() override {
    gpu_->Enter();
    if (recording_.exchange(true)) {
      return absl::FailedPreconditionError("a recording is already active");
    }
    // Relaxed mode: NCCL and other threads may make any call meanwhile.
    const absl::Status begun = MTF_CUDA(
        cudaStreamBeginCapture(gpu_->stream(), cudaStreamCaptureModeRelaxed));
    if (!begun.ok()) recording_ = false;
    return begun;
  }

  absl::StatusOr<std::unique_ptr<Recording>> EndRecording() override {
    gpu_->Enter();
    if (!recording_) {
      return absl::FailedPreconditionError("no recording is active");
    }
    cudaGraph_t graph = nullptr;
    absl::Status status =
        MTF_CUDA(cudaStreamEndCapture(gpu_->stream(), &graph));
    recording_ = false;
    // A call that failed to enqueue makes the recording incomplete.
    const absl::Status kept = gpu_->TakeError();
    if (!kept.ok()) status = kept;
    cudaGraphExec_t executable = nullptr;
    if (status.ok()) {
      // Collectives keep the priority of their stream.
      status = MTF_CUDA(cudaGraphInstantiate(
          &executable, graph, cudaGraphInstantiateFlagUseNodePriority));
    }
    if (graph != nullptr) cudaGraphDestroy(graph);
    MTF_RETURN_IF_ERROR(status);
    auto recording = std::make_unique<GraphRecording>(*gpu_, executable);
    MTF_RETURN_IF_ERROR(MTF_CUDA(cudaGraphUpload(executable, gpu_->stream())));
    return recording;
  }

#ifdef MTF_HAS_NCCL
  absl::StatusOr<std::string> NewNcclId() override {
    gpu_->Enter();
    return groups_.NewId();
  }
  absl::StatusOr<std::unique_ptr<NcclGroup>> JoinNccl(const std::string& id,
                                                      int size,
                                                      int rank) override {
    gpu_->Enter();
    if (size > 1) matmuls_->JoinClique();
    return groups_.Join(id, size, rank);
  }
  absl::StatusOr<std::unique_ptr<NcclGroup>> SplitNccl(NcclGroup& parent,
                                                       int color,
                                                       int key) override {
    gpu_->Enter();
    return groups_.Split(parent, color, key);
  }
#else
  absl::StatusOr<std::string> NewNcclId() override { return Without("NCCL"); }
  absl::StatusOr<std::unique_ptr<NcclGroup>> JoinNccl(const std::string&, int,
                                                      int) override {
    return Without("NCCL");
  }
  absl::StatusOr<std::unique_ptr<NcclGroup>> SplitNccl(NcclGroup&, int,
                                                       int) override {
    return Without("NCCL");
  }
#endif

  void PushRange(const char* name) override {
    nvtxRangePushA(name);
    Gpu::SetRange(name);
  }
  void PopRange() override {
    nvtxRangePop();
    Gpu::SetRange(nullptr);
  }

  bool has_convolutions() override {
#ifdef MTF_HAS_CUDNN
    return HasConvolutions();
#else
    return false;
#endif
  }
  absl::StatusOr<std::unique_ptr<PreparedConvolution>> PrepareConvolution(
      const ConvolutionProblem& problem) override {
#ifdef MTF_HAS_CUDNN
    return convolutions_.Prepare(problem);
#else
    static_cast<void>(problem);
    return Without("cuDNN");
#endif
  }

 private:
  CudaRuntime(std::unique_ptr<Gpu> gpu, double timeout)
      : gpu_(std::move(gpu)),
        kernels_(gpu_->ordinal(), gpu_->info().architecture),
        staging_(*gpu_)
#ifdef MTF_HAS_CUDNN
        ,
        cudnn_(*gpu_),
        attentions_(*gpu_, cudnn_),
        convolutions_(*gpu_, cudnn_)
#endif
#ifdef MTF_HAS_NCCL
        ,
        groups_(*gpu_, timeout)
#endif
  {
    static_cast<void>(timeout);
  }

  // Recordings are replayed when the host memory may be gone, so they must not
  // access it.
  bool MayTouchHost(const char* what) {
    gpu_->Enter();
    if (!recording_) return true;
    gpu_->Keep(absl::FailedPreconditionError(
        absl::StrCat(what, " cannot be part of a recording")));
    return false;
  }

  absl::Status WaitForStream() {
#ifdef MTF_HAS_NCCL
    if (!groups_.empty()) return WaitForOthers();
#endif
    return MTF_CUDA(cudaStreamSynchronize(gpu_->stream()));
  }

#ifdef MTF_HAS_NCCL
  // A collective completes when all ranks arrive. The GPU would wait forever
  // for a rank that has failed, so the host polls.
  absl::Status WaitForOthers() {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    Clock::time_point looked = begin;
    while (true) {
      const cudaError_t code = cudaStreamQuery(gpu_->stream());
      if (code == cudaSuccess) return groups_.CheckNotAborted();
      if (code != cudaErrorNotReady) return CheckCuda(code, "cudaStreamQuery");
      cudaGetLastError();
      const Clock::time_point now = Clock::now();
      const std::chrono::duration<double> waited = now - begin;
      // Most steps end soon; longer ones are polled less often.
      if (waited.count() > 0.001) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      if (now - looked < std::chrono::milliseconds(50)) continue;
      looked = now;
      MTF_RETURN_IF_ERROR(groups_.Poll());
      if (groups_.timeout() > 0 && waited.count() > groups_.timeout()) {
        groups_.Abort();
        return absl::DeadlineExceededError(absl::StrCat(
            "collectives of a step did not end within ", groups_.timeout(),
            " seconds on ", Where(), ": another process did not reach them",
            "\n  help     --collective_timeout or MTF_COLLECTIVE_TIMEOUT sets "
            "the seconds, 0 waits forever"));
      }
    }
  }
#endif

  // Order matters for destruction: later members use earlier ones.
  std::unique_ptr<Gpu> gpu_;
  KernelLibrary kernels_;
  Staging staging_;
  std::unique_ptr<Matmuls> matmuls_;
#ifdef MTF_HAS_CUDNN
  CudnnHandle cudnn_;
  Attentions attentions_;
  Convolutions convolutions_;
#endif
#ifdef MTF_HAS_NCCL
  NcclGroups groups_;
#endif
  std::atomic<bool> recording_{false};
};

}  // namespace
}  // namespace mtf::cuda

// The functions exported by the shared object; all others are hidden.
#define MTF_EXPORT extern "C" __attribute__((visibility("default")))

MTF_EXPORT int64_t mtf_cuda_abi() { return mtf::cuda::kDriverAbi; }

MTF_EXPORT void mtf_cuda_open(
    const mtf::cuda::DriverOptions* options,
    absl::StatusOr<std::shared_ptr<mtf::cuda::Runtime>>* runtime) {
  *runtime = mtf::cuda::CudaRuntime::Open(*options);
}

MTF_EXPORT void mtf_cuda_compile(const mtf::cuda::KernelSource* source,
                                 int architecture,
                                 absl::StatusOr<std::string>* code) {
  *code = mtf::cuda::CompileKernel(*source, architecture);
}

MTF_EXPORT void mtf_cuda_check_attention(
    const mtf::cuda::AttentionProblem* problem, const std::string* device,
    absl::Status* status) {
#ifdef MTF_HAS_CUDNN
  *status = mtf::cuda::CheckAttentionGraph(*problem, *device);
#else
  static_cast<void>(problem);
  static_cast<void>(device);
  *status = mtf::cuda::Without("cuDNN");
#endif
}

MTF_EXPORT void mtf_cuda_check_convolution(
    const mtf::cuda::ConvolutionProblem* problem, const std::string* device,
    absl::Status* status) {
#ifdef MTF_HAS_CUDNN
  *status = mtf::cuda::CheckConvolutionGraph(*problem, *device);
#else
  static_cast<void>(problem);
  static_cast<void>(device);
  *status = mtf::cuda::Without("cuDNN");
#endif
}
