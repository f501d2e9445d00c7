// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/convolution.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/cuda/driver/cudnn_graph.h"
#include "backends/cuda/driver/cudnn_plan.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

using Computes = ConvolutionProblem::Computes;
using Spatial = ConvolutionProblem::Spatial;

// The oldest version that attention accepts, so that there is one requirement.
constexpr size_t kOldestForConvolutions = 91600;
// Engines that copy images to another layout need as much memory as these. The
// slower ones need none.
constexpr int64_t kMostWorkspace = int64_t{1} << 30;

cudnnDataType_t TypeOfImages(DType dtype) {
  switch (dtype) {
    case kFloat16:
      return CUDNN_DATA_HALF;
    case kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

// The problem as cuDNN's engines take it: at least two spatial dimensions.
std::vector<Spatial> SpatialOf(const ConvolutionProblem& problem) {
  std::vector<Spatial> spatial = problem.spatial;
  if (spatial.size() == 1) {
    spatial.insert(spatial.begin(), {.input = 1, .output = 1, .window = 1});
  }
  return spatial;
}

// The zeros after the input. Those that no window reads may be any number less
// than the stride; more engines take as many as before the input.
int64_t ZerosAfter(const Spatial& dim) {
  if (dim.before >= dim.after && dim.before < dim.after + dim.stride) {
    return dim.before;
  }
  return std::max<int64_t>(dim.after, 0);
}

// A graph of one convolution, and its tensors.
struct ConvolutionGraph {
  CudnnGraph graph;
  CudnnTensor input = CudnnGraph::kNone, filter = CudnnGraph::kNone,
              output = CudnnGraph::kNone;
};

// [n, channels, extents...] with the channels last in memory.
CudnnTensor ChannelsLast(CudnnGraph& graph, DType dtype, int64_t n,
                         int64_t channels,
                         const std::vector<int64_t>& extents) {
  CudnnTensorOptions options;
  options.dims = {n, channels};
  options.dims.insert(options.dims.end(), extents.begin(), extents.end());
  options.strides.assign(options.dims.size(), 1);
  int64_t stride = channels;
  for (size_t i = options.dims.size(); i-- > 2;) {
    options.strides[i] = stride;
    stride *= options.dims[i];
  }
  options.strides[0] = stride;
  options.dtype = TypeOfImages(dtype);
  return graph.Tensor(options);
}

ConvolutionGraph WriteConvolutionGraph(const ConvolutionProblem& p) {
  ConvolutionGraph out;
  std::vector<int64_t> inputs, windows, outputs;
  CudnnConvolution options;
  for (const Spatial& dim : SpatialOf(p)) {
    inputs.push_back(dim.input);
    windows.push_back(dim.window);
    outputs.push_back(dim.output);
    options.strides.push_back(dim.stride);
    options.dilations.push_back(dim.dilation);
    options.before.push_back(dim.before);
    options.after.push_back(ZerosAfter(dim));
  }
  // cuDNN computes the number of groups: channels of the input by those of the
  // filter.
  CudnnGraph& graph = out.graph;
  out.input =
      ChannelsLast(graph, p.dtype, p.batch, p.groups * p.inputs, inputs);
  out.filter =
      ChannelsLast(graph, p.dtype, p.groups * p.outputs, p.inputs, windows);
  out.output =
      ChannelsLast(graph, p.dtype, p.batch, p.groups * p.outputs, outputs);
  options.kind = p.computes == Computes::kOutput ? CudnnConvolution::kForward
                 : p.computes == Computes::kInput
                     ? CudnnConvolution::kBackwardData
                     : CudnnConvolution::kBackwardFilter;
  graph.Convolution(options, out.input, out.filter, out.output);
  return out;
}

CudnnEngineLimits LimitsOf(const ConvolutionProblem& problem) {
  return {.reproducible = true,
          .exact = true,
          .tensor_cores = problem.dtype != kFloat32 || problem.tf32,
          .workspace_bytes = kMostWorkspace};
}

}  // namespace

// A planned graph.
class ConvolutionPlan {
 public:
  static absl::StatusOr<std::shared_ptr<ConvolutionPlan>> Create(
      cudnnHandle_t handle, const ConvolutionProblem& problem) {
    auto made = std::make_shared<ConvolutionPlan>();
    made->graph_ = WriteConvolutionGraph(problem);
    CudnnGraph& graph = made->graph_.graph;
    MTF_RETURN_IF_ERROR(graph.Finish(handle));
    MTF_ASSIGN_OR_RETURN(
        made->plan_,
        PlanCudnnGraph(graph, handle, CudnnDescriptor(), LimitsOf(problem)));
    return made;
  }

  int64_t workspace_bytes() const { return plan_.workspace_bytes; }

  absl::Status Run(CudnnHandle& handle,
                   const PreparedConvolution::Buffers& buffers) const {
    return handle.Execute(plan_,
                          {{CudnnGraph::Id(graph_.input), buffers.input},
                           {CudnnGraph::Id(graph_.filter), buffers.filter},
                           {CudnnGraph::Id(graph_.output), buffers.output}},
                          buffers.workspace);
  }

 private:
  ConvolutionGraph graph_;
  CudnnPlan plan_;
};

namespace {

class PlannedConvolution : public PreparedConvolution {
 public:
  PlannedConvolution(Gpu& gpu, CudnnHandle& handle,
                     std::shared_ptr<ConvolutionPlan> plan)
      : gpu_(gpu), handle_(handle), plan_(std::move(plan)) {}

  int64_t workspace_bytes() const override { return plan_->workspace_bytes(); }
  void Run(const Buffers& buffers) override {
    gpu_.Enter();
    gpu_.Keep(plan_->Run(handle_, buffers));
  }

 private:
  Gpu& gpu_;
  CudnnHandle& handle_;
  std::shared_ptr<ConvolutionPlan> plan_;
};

}  // namespace

bool HasConvolutions() { return cudnnGetVersion() >= kOldestForConvolutions; }

Convolutions::~Convolutions() { gpu_.Enter(); }

absl::StatusOr<std::unique_ptr<PreparedConvolution>> Convolutions::Prepare(
    const ConvolutionProblem& problem) {
  gpu_.Enter();
  std::lock_guard<std::mutex> lock(handle_.mutex());
  MTF_ASSIGN_OR_RETURN(cudnnHandle_t handle, handle_.Get());
  const std::string text = problem.ToString();
  auto known = plans_.find(text);
  if (known == plans_.end()) {
    absl::StatusOr<std::shared_ptr<ConvolutionPlan>> plan =
        ConvolutionPlan::Create(handle, problem);
    // Whether cuDNN supports a problem never changes and takes long to find
    // out, so kUnimplemented is cached; other errors are not.
    if (!plan.ok() && !absl::IsUnimplemented(plan.status())) {
      return plan.status();
    }
    known = plans_.emplace(text, std::move(plan)).first;
  }
  MTF_RETURN_IF_ERROR(known->second.status());
  return std::make_unique<PlannedConvolution>(gpu_, handle_, *known->second);
}

absl::Status CheckConvolutionGraph(const ConvolutionProblem& problem,
                                   const std::string& device) {
  MTF_ASSIGN_OR_RETURN(const CudnnDescriptor described, DescribeDevice(device));
  ConvolutionGraph graph = WriteConvolutionGraph(problem);
  MTF_RETURN_IF_ERROR(graph.graph.Finish(nullptr));
  return PlanCudnnGraph(graph.graph, nullptr, described, LimitsOf(problem))
      .status();
}

}  // namespace mtf::cuda
