// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_ATTENTION_GRAPH_H_
#define BACKENDS_CUDA_DRIVER_ATTENTION_GRAPH_H_

#include <cstdint>

#include "backends/cuda/driver/cudnn_graph.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// The graph of an attention in the form that cuDNN's fused engines look for:
// which operations, in which order, and what is virtual is theirs to say. With
// the tensors that get their data when it is run.
struct AttentionGraph {
  CudnnGraph graph;
  CudnnTensor q = CudnnGraph::kNone, k = CudnnGraph::kNone,
              v = CudnnGraph::kNone, o = CudnnGraph::kNone,
              stats = CudnnGraph::kNone, bias = CudnnGraph::kNone;
  // Backward alone.
  CudnnTensor d_o = CudnnGraph::kNone, d_q = CudnnGraph::kNone,
              d_k = CudnnGraph::kNone, d_v = CudnnGraph::kNone;
  // Numbers that lie with the host: the scale, what masked places hold, and 1.
  CudnnTensor scale = CudnnGraph::kNone, masked = CudnnGraph::kNone,
              one = CudnnGraph::kNone;
  // Float32 that the graph works on, and how much of each it needs.
  CudnnTensor sums = CudnnGraph::kNone, d_q_sums = CudnnGraph::kNone;
  int64_t sums_bytes = 0, d_q_sums_bytes = 0;
};

// Errors of cuDNN are kept in the graph.
AttentionGraph WriteAttentionGraph(const AttentionProblem& problem);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_ATTENTION_GRAPH_H_
