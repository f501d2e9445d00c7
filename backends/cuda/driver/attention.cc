// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/attention.h"

#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda/driver/attention_graph.h"
#include "backends/cuda/driver/cudnn_plan.h"
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
      Gpu& gpu, CudnnHandle& cudnn, const AttentionProblem& problem) {
    MTF_RETURN_IF_ERROR(CheckFusedAttention(problem));
    std::shared_ptr<AttentionPlan> made(new AttentionPlan(gpu, cudnn, problem));
    MTF_ASSIGN_OR_RETURN(cudnnHandle_t handle, cudnn.Get());
    AttentionGraph& graph = made->graph_;
    MTF_RETURN_IF_ERROR(graph.graph.Finish(handle));
    MTF_ASSIGN_OR_RETURN(made->plan_,
                         PlanCudnnGraph(graph.graph, handle, CudnnDescriptor(),
                                        {.reproducible = problem.reproducible &&
                                                         problem.backward}));
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
    std::vector<std::pair<int64_t, const void*>> tensors;
    const auto give = [&](CudnnTensor tensor, const void* address) {
      if (tensor == CudnnGraph::kNone) return;
      tensors.emplace_back(CudnnGraph::Id(tensor), address);
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
    return cudnn_.Execute(plan_, tensors, workspace);
  }

 private:
  AttentionPlan(Gpu& gpu, CudnnHandle& cudnn, const AttentionProblem& problem)
      : gpu_(gpu),
        cudnn_(cudnn),
        graph_(WriteAttentionGraph(problem)),
        scale_(problem.scale) {}

  Gpu& gpu_;
  CudnnHandle& cudnn_;
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

Attentions::Attentions(Gpu& gpu, CudnnHandle& cudnn)
    : gpu_(gpu), cudnn_(cudnn) {}

Attentions::~Attentions() { gpu_.Enter(); }

absl::StatusOr<std::unique_ptr<PreparedAttention>> Attentions::Prepare(
    const AttentionProblem& problem) {
  gpu_.Enter();
  std::lock_guard<std::mutex> lock(cudnn_.mutex());
  const std::string text = problem.ToString();
  auto known = plans_.find(text);
  if (known == plans_.end()) {
    absl::StatusOr<std::shared_ptr<AttentionPlan>> plan =
        AttentionPlan::Create(gpu_, cudnn_, problem);
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
