// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_BACKENDS_CUDA_TEXT_RUNTIME_H_
#define TESTS_BACKENDS_CUDA_TEXT_RUNTIME_H_

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// A runtime on which programs can be prepared but not run. Records the kernel
// texts and the problems for libraries. Memory is only addresses, so models of
// any size fit.
class TextRuntime : public Runtime {
 public:
  using Texts = std::set<std::pair<std::string, std::string>>;  // name, text

  // Ordered by name and text, independent of threads.
  Texts kernels() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return kernels_;
  }
  std::set<std::string> matmuls() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return matmuls_;
  }
  std::set<std::string> attentions() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return attentions_;
  }

  const GpuInfo& info() const override {
    static const auto& info = *new GpuInfo{
        "a GPU of texts", 90, 132, 227 << 10, int64_t{141} << 30, ""};
    return info;
  }
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int64_t at = next_;
    next_ += (bytes + 255) / 256 * 256 + 256;
    return reinterpret_cast<void*>(at);
  }
  void Free(void*) override {}
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override {
    return Allocate(bytes);
  }
  void FreeHost(void*) override {}
  void CopyWithHost(void*, const void*, int64_t) override {}
  void CopyToDevice(void*, const void*, int64_t) override {}
  void CopyToHost(void*, const void*, int64_t) override {}
  void CopyOnDevice(void*, const void*, int64_t) override {}
  void SetZero(void*, int64_t) override {}
  absl::StatusOr<Function*> Compile(const KernelSource& source) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    kernels_.insert({source.name, source.text});
    return &function_;
  }
  void Launch(Function&, const LaunchShape&, absl::Span<void* const>) override {
  }
  absl::StatusOr<std::unique_ptr<PreparedMatmul>> PrepareMatmul(
      const MatmulProblem& problem) override {
    struct Matmul : PreparedMatmul {
      void Run(const Buffers&) override {}
    };
    const std::lock_guard<std::mutex> lock(mutex_);
    matmuls_.insert(problem.ToString());
    return std::make_unique<Matmul>();
  }
  absl::StatusOr<std::unique_ptr<PreparedAttention>> PrepareAttention(
      const AttentionProblem& problem) override {
    struct Attention : PreparedAttention {
      void Run(const Buffers&) override {}
    };
    const std::lock_guard<std::mutex> lock(mutex_);
    attentions_.insert(problem.ToString());
    return std::make_unique<Attention>();
  }
  absl::StatusOr<std::unique_ptr<PreparedConvolution>> PrepareConvolution(
      const ConvolutionProblem&) override {
    struct PlainConvolution : PreparedConvolution {
      int64_t workspace_bytes() const override { return 0; }
      void Run(const Buffers&) override {}
    };
    return std::make_unique<PlainConvolution>();
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::Status BeginRecording() override { return None(); }
  absl::StatusOr<std::unique_ptr<Recording>> EndRecording() override {
    return None();
  }
  absl::StatusOr<std::string> NewNcclId() override { return None(); }
  absl::StatusOr<std::unique_ptr<NcclGroup>> JoinNccl(const std::string&, int,
                                                      int) override {
    return None();
  }
  absl::StatusOr<std::unique_ptr<NcclGroup>> SplitNccl(NcclGroup&, int,
                                                       int) override {
    return None();
  }
  void PushRange(const char*) override {}
  void PopRange() override {}

 private:
  static absl::Status None() {
    return absl::UnimplementedError("nothing runs on a GPU of texts");
  }

  mutable std::mutex mutex_;
  Function function_;
  int64_t next_ = int64_t{1} << 40;
  Texts kernels_;
  std::set<std::string> matmuls_, attentions_;
};

}  // namespace mtf::cuda

#endif  // TESTS_BACKENDS_CUDA_TEXT_RUNTIME_H_
