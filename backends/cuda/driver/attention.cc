// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/attention.h"

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda/driver/attention_graph.h"
#include "backends/cuda/driver/check.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

// Older versions compute wrong gradients if memory is not a multiple of 128,
// and some write outside of their buffers (NVIDIA, cudnn-frontend, checks of
// scaled_dot_product_flash_attention.h).
constexpr size_t kOldestCudnn = 91600;

int64_t Aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

// A planned graph and its workspace.
class AttentionPlan {
 public:
  static absl::StatusOr<std::shared_ptr<AttentionPlan>> Create(
      Gpu& gpu, cudnnHandle_t handle, std::mutex& mutex,
      const AttentionProblem& problem) {
    MTF_RETURN_IF_ERROR(CheckFusedAttention(problem));
    std::shared_ptr<AttentionPlan> made(
        new AttentionPlan(gpu, handle, mutex, problem));
    AttentionGraph& graph = made->graph_;
    MTF_RETURN_IF_ERROR(graph.graph.Finish(handle));
    MTF_ASSIGN_OR_RETURN(
        made->plan_, PlanCudnnGraph(graph.graph, handle, CudnnDescriptor(),
                                    problem.reproducible && problem.backward));
    const int64_t bytes = Aligned(graph.sums_bytes) +
                          Aligned(graph.d_q_sums_bytes) +
                          made->plan_.workspace_bytes;
    if (bytes > 0) {
      MTF_ASSIGN_OR_RETURN(made->memory_, gpu.Allocate(bytes));
    }
    return made;
  }

  ~AttentionPlan() { gpu_.Free(memory_); }

  absl::Status Run(const PreparedAttention::Buffers& buffers) {
    char* memory = static_cast<char*>(memory_);
    char* d_q_sums = memory + Aligned(graph_.sums_bytes);
    char* workspace = d_q_sums + Aligned(graph_.d_q_sums_bytes);
    std::vector<int64_t> ids;
    std::vector<void*> data;
    const auto give = [&](CudnnTensor tensor, const void* address) {
      if (tensor == CudnnGraph::kNone) return;
      ids.push_back(CudnnGraph::Id(tensor));
      data.push_back(const_cast<void*>(address));
    };
    give(graph_.q, buffers.q);
    give(graph_.k, buffers.k);
    give(graph_.v, buffers.v);
    give(graph_.o, buffers.o);
    give(graph_.stats, buffers.stats);
    give(graph_.bias, buffers.bias);
    give(graph_.d_o, buffers.d_o);
    give(graph_.d_q, buffers.d_q);
    give(graph_.d_k, buffers.d_k);
    give(graph_.d_v, buffers.d_v);
    give(graph_.scale, &scale_);
    give(graph_.masked, &masked_);
    give(graph_.one, &one_);
    give(graph_.sums, memory);
    give(graph_.d_q_sums, d_q_sums);
    MTF_ASSIGN_OR_RETURN(
        CudnnDescriptor pack,
        CudnnDescriptor::Create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
    const int64_t count = static_cast<int64_t>(ids.size());
    MTF_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                 CUDNN_TYPE_INT64, count, ids.data()));
    MTF_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                 CUDNN_TYPE_VOID_PTR, count, data.data()));
    void* const address = workspace;
    MTF_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                 CUDNN_TYPE_VOID_PTR, 1, &address));
    MTF_RETURN_IF_ERROR(pack.Finalize());
    // A handle must be used by one thread at a time.
    std::lock_guard<std::mutex> lock(mutex_);
    return MTF_CUDNN(
        cudnnBackendExecute(handle_, plan_.plan.get(), pack.get()));
  }

 private:
  AttentionPlan(Gpu& gpu, cudnnHandle_t handle, std::mutex& mutex,
                const AttentionProblem& problem)
      : gpu_(gpu),
        handle_(handle),
        mutex_(mutex),
        graph_(WriteAttentionGraph(problem)),
        scale_(problem.scale) {}

  Gpu& gpu_;
  cudnnHandle_t handle_;
  std::mutex& mutex_;
  AttentionGraph graph_;
  CudnnPlan plan_;
  void* memory_ = nullptr;
  // cuDNN reads these when the graph runs.
  float scale_;
  float masked_ = -std::numeric_limits<float>::infinity();
  float one_ = 1;
};

namespace {

class CudnnAttention : public PreparedAttention {
 public:
  CudnnAttention(Gpu& gpu, std::shared_ptr<AttentionPlan> plan)
      : gpu_(gpu), plan_(std::move(plan)) {}
  void Run(const Buffers& buffers) override {
    gpu_.Enter();
    gpu_.Keep(plan_->Run(buffers));
  }

 private:
  Gpu& gpu_;
  std::shared_ptr<AttentionPlan> plan_;
};

}  // namespace

bool HasFusedAttention() { return cudnnGetVersion() >= kOldestCudnn; }

Attentions::Attentions(Gpu& gpu) : gpu_(gpu) {}

Attentions::~Attentions() {
  gpu_.Enter();
  plans_.clear();
  if (handle_ != nullptr) cudnnDestroy(handle_);
}

absl::StatusOr<std::unique_ptr<PreparedAttention>> Attentions::Prepare(
    const AttentionProblem& problem) {
  gpu_.Enter();
  std::lock_guard<std::mutex> lock(mutex_);
  if (handle_ == nullptr) {
    cudnnHandle_t handle = nullptr;
    MTF_RETURN_IF_ERROR(MTF_CUDNN(cudnnCreate(&handle)));
    const absl::Status set = MTF_CUDNN(cudnnSetStream(handle, gpu_.stream()));
    if (!set.ok()) {
      cudnnDestroy(handle);
      return set;
    }
    handle_ = handle;
  }
  const std::string text = problem.ToString();
  auto known = plans_.find(text);
  if (known == plans_.end()) {
    absl::StatusOr<std::shared_ptr<AttentionPlan>> plan =
        AttentionPlan::Create(gpu_, handle_, mutex_, problem);
    // Whether cuDNN supports a problem never changes and takes long to find
    // out, so kUnimplemented is cached; out-of-memory errors are not.
    if (!plan.ok() && !absl::IsUnimplemented(plan.status())) {
      return plan.status();
    }
    known = plans_.emplace(text, std::move(plan)).first;
  }
  MTF_RETURN_IF_ERROR(known->second.status());
  return std::make_unique<CudnnAttention>(gpu_, *known->second);
}

absl::Status CheckAttentionGraph(const AttentionProblem& problem,
                                 const std::string& device) {
  MTF_RETURN_IF_ERROR(CheckFusedAttention(problem));
  MTF_ASSIGN_OR_RETURN(const CudnnDescriptor described, DescribeDevice(device));
  AttentionGraph graph = WriteAttentionGraph(problem);
  MTF_RETURN_IF_ERROR(graph.graph.Finish(nullptr));
  return CheckCudnnGraph(graph.graph, described);
}

}  // namespace mtf::cuda
