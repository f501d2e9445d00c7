// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_BACKENDS_GARBAGE_FORWARDING_RUNTIME_H_
#define TESTS_BACKENDS_GARBAGE_FORWARDING_RUNTIME_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// Forwards all calls to another runtime.
class ForwardingRuntime : public Runtime {
 public:
  explicit ForwardingRuntime(std::shared_ptr<Runtime> runtime)
      : runtime_(std::move(runtime)) {}

  const GpuInfo& info() const override { return runtime_->info(); }
  void EnterThread() override { runtime_->EnterThread(); }
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    return runtime_->Allocate(bytes);
  }
  void Free(void* data) override { runtime_->Free(data); }
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override {
    return runtime_->AllocateHost(bytes);
  }
  void FreeHost(void* data) override { runtime_->FreeHost(data); }
  void CopyWithHost(void* to, const void* from, int64_t bytes) override {
    runtime_->CopyWithHost(to, from, bytes);
  }
  void CopyToDevice(void* to, const void* from, int64_t bytes) override {
    runtime_->CopyToDevice(to, from, bytes);
  }
  void CopyToHost(void* to, const void* from, int64_t bytes) override {
    runtime_->CopyToHost(to, from, bytes);
  }
  void CopyOnDevice(void* to, const void* from, int64_t bytes) override {
    runtime_->CopyOnDevice(to, from, bytes);
  }
  void SetZero(void* to, int64_t bytes) override {
    runtime_->SetZero(to, bytes);
  }
  absl::StatusOr<Function*> Compile(const KernelSource& source) override {
    return runtime_->Compile(source);
  }
  void Launch(Function& function, const LaunchShape& shape,
              absl::Span<void* const> arguments) override {
    runtime_->Launch(function, shape, arguments);
  }
  absl::StatusOr<std::unique_ptr<PreparedMatmul>> PrepareMatmul(
      const MatmulProblem& problem) override {
    return runtime_->PrepareMatmul(problem);
  }
  absl::StatusOr<std::unique_ptr<PreparedAttention>> PrepareAttention(
      const AttentionProblem& problem) override {
    return runtime_->PrepareAttention(problem);
  }
  bool has_convolutions() override { return runtime_->has_convolutions(); }
  absl::StatusOr<std::unique_ptr<PreparedConvolution>> PrepareConvolution(
      const ConvolutionProblem& problem) override {
    return runtime_->PrepareConvolution(problem);
  }
  absl::StatusOr<std::string> SettleMatmuls(
      int rank, const AllGatherTexts& all_gather) override {
    return runtime_->SettleMatmuls(rank, all_gather);
  }
  std::unique_ptr<AsyncWork> NewAsyncWork() override {
    return runtime_->NewAsyncWork();
  }
  void EnterAsync(AsyncWork& work) override { runtime_->EnterAsync(work); }
  void LeaveAsync(AsyncWork& work) override { runtime_->LeaveAsync(work); }
  void WaitForAsync(AsyncWork& work) override { runtime_->WaitForAsync(work); }
  absl::Status Synchronize() override { return runtime_->Synchronize(); }
  absl::Status BeginRecording() override { return runtime_->BeginRecording(); }
  absl::StatusOr<std::unique_ptr<Recording>> EndRecording() override {
    return runtime_->EndRecording();
  }
  absl::StatusOr<std::string> NewNcclId() override {
    return runtime_->NewNcclId();
  }
  absl::StatusOr<std::unique_ptr<NcclGroup>> JoinNccl(const std::string& id,
                                                      int size,
                                                      int rank) override {
    return runtime_->JoinNccl(id, size, rank);
  }
  absl::StatusOr<std::unique_ptr<NcclGroup>> SplitNccl(NcclGroup& parent,
                                                       int color,
                                                       int key) override {
    return runtime_->SplitNccl(parent, color, key);
  }
  void PushRange(const char* name) override { runtime_->PushRange(name); }
  void PopRange() override { runtime_->PopRange(); }

 private:
  std::shared_ptr<Runtime> runtime_;
};

}  // namespace mtf::cuda

#endif  // TESTS_BACKENDS_GARBAGE_FORWARDING_RUNTIME_H_
