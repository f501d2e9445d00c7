// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_ATTENTION_GRAPH_H_
#define BACKENDS_CUDA_DRIVER_ATTENTION_GRAPH_H_

#include <cstdint>

#include "backends/cuda/driver/cudnn_graph.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// An attention as the graph that cuDNN's fused engines recognize: they
// prescribe the operations, their order and the virtual tensors. Includes the
// tensors that are bound to data when the graph runs.
struct AttentionGraph {
  CudnnGraph graph;
  CudnnTensor q = CudnnGraph::kNone, k = CudnnGraph::kNone,
              v = CudnnGraph::kNone, o = CudnnGraph::kNone,
              stats = CudnnGraph::kNone, bias = CudnnGraph::kNone;
  // Gradient only.
  CudnnTensor d_o = CudnnGraph::kNone, d_q = CudnnGraph::kNone,
              d_k = CudnnGraph::kNone, d_v = CudnnGraph::kNone;
  // Numbers in host memory: the scale, the score of masked positions, and 1.
  CudnnTensor scale = CudnnGraph::kNone, masked = CudnnGraph::kNone,
              one = CudnnGraph::kNone;
  // Float32 workspaces of the graph, with their sizes.
  CudnnTensor sums = CudnnGraph::kNone, d_q_sums = CudnnGraph::kNone;
  int64_t sums_bytes = 0, d_q_sums_bytes = 0;
};

// The graph keeps errors of cuDNN.
AttentionGraph WriteAttentionGraph(const AttentionProblem& problem);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_ATTENTION_GRAPH_H_
