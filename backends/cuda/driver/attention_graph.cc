// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/attention_graph.h"

#include <vector>

namespace mtf::cuda {
namespace {

using Dims = std::vector<int64_t>;  // four
using Strides = AttentionProblem::Strides;

cudnnDataType_t TypeOf(DType dtype) {
  return dtype == kFloat16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

// Writes the forward and the gradient graph; [b, h, l, m] are the scores.
class AttentionGraphWriter {
 public:
  AttentionGraphWriter(const AttentionProblem& problem, AttentionGraph* out)
      : p_(problem), out_(*out), graph_(out->graph) {
    scores_ = {p_.batch, p_.heads, p_.length, p_.memory};
    rows_ = {p_.batch, p_.heads, p_.length, 1};
  }

  void Forward() {
    out_.q = Operand(p_.length, p_.q);
    out_.k = Transposed(p_.memory, p_.k);
    out_.v = Operand(p_.memory, p_.v);
    out_.o = Operand(p_.length, p_.o);
    out_.stats = Dense(rows_, CUDNN_DATA_FLOAT, false);
    const CudnnTensor scores = MaskedScores();

    const CudnnTensor most = Rows(), shifted = Scores(), powers = Scores();
    graph_.Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, most);
    graph_.Pointwise(CUDNN_POINTWISE_SUB, scores, most, shifted);
    graph_.Pointwise(CUDNN_POINTWISE_EXP, shifted, CudnnGraph::kNone, powers);
    const CudnnTensor sum = Rows(), log = Rows();
    graph_.Reduce(CUDNN_REDUCE_TENSOR_ADD, powers, sum);
    graph_.Pointwise(CUDNN_POINTWISE_LOG, sum, CudnnGraph::kNone, log);
    graph_.Pointwise(CUDNN_POINTWISE_ADD, most, log, out_.stats);
    const CudnnTensor weights = Dense(scores_, TypeOf(p_.dtype), true);
    graph_.Pointwise(CUDNN_POINTWISE_DIV, powers, sum, weights);
    graph_.Matmul(weights, out_.v, out_.o);
  }

  void Backward() {
    out_.q = Operand(p_.length, p_.q);
    out_.k = Transposed(p_.memory, p_.k);
    out_.v = Transposed(p_.memory, p_.v);
    out_.o = Operand(p_.length, p_.o);
    out_.d_o = Operand(p_.length, p_.o);
    out_.d_q = Operand(p_.length, p_.q);
    out_.d_k = Operand(p_.memory, p_.k);
    out_.d_v = Operand(p_.memory, p_.v);
    out_.stats = Dense(rows_, CUDNN_DATA_FLOAT, false);
    out_.one = Number();

    // sums[b, h, l] of d_o * o over d, in memory because two kernels use it.
    const CudnnTensor product = Virtual(
        {p_.batch, p_.heads, p_.length, p_.d},
        {p_.heads * p_.length * p_.d, p_.length * p_.d, p_.heads * p_.d, 1},
        CUDNN_DATA_FLOAT);
    graph_.Pointwise(CUDNN_POINTWISE_MUL, out_.d_o, out_.o, product);
    const CudnnTensor summed = Rows();
    graph_.Reduce(CUDNN_REDUCE_TENSOR_ADD, product, summed);
    out_.sums = Dense(rows_, CUDNN_DATA_FLOAT, false);
    out_.sums_bytes = p_.batch * p_.heads * p_.length * 4;
    graph_.Pointwise(CUDNN_POINTWISE_MUL, summed, out_.one, out_.sums);

    // weights = exp(scores - stats), and d_v = weights' d_o.
    const CudnnTensor scores = MaskedScores();
    const CudnnTensor shifted = Scores(), weights = Scores();
    graph_.Pointwise(CUDNN_POINTWISE_SUB, scores, out_.stats, shifted);
    graph_.Pointwise(CUDNN_POINTWISE_EXP, shifted, CudnnGraph::kNone, weights);
    graph_.Matmul(TransposedScores(weights), out_.d_o, out_.d_v);

    // d_scores = (d_o v' - sums) * weights * scale, and d_k = d_scores' q.
    const CudnnTensor d_weights = Scores(), centred = Scores(),
                      d_scores = Scores(), scaled = Scores();
    graph_.Matmul(out_.d_o, out_.v, d_weights);
    graph_.Pointwise(CUDNN_POINTWISE_SUB, d_weights, out_.sums, centred);
    graph_.Pointwise(CUDNN_POINTWISE_MUL, centred, weights, d_scores);
    graph_.Pointwise(CUDNN_POINTWISE_MUL, d_scores, out_.scale, scaled);
    graph_.Matmul(TransposedScores(scaled), out_.q, out_.d_k);

    // d_q = d_scores k. Blocks along memory add to it in any order, unless runs
    // must be reproducible.
    const CudnnTensor k =
        Virtual({p_.batch, p_.heads, p_.memory, p_.d},
                {p_.k.batch, p_.k.heads, p_.k.length, 1}, TypeOf(p_.dtype));
    graph_.Reshape(out_.k, k);
    if (p_.reproducible) {
      graph_.Matmul(scaled, k, out_.d_q);
      return;
    }
    out_.d_q_sums =
        Dense({p_.batch, p_.heads, p_.length, p_.d}, CUDNN_DATA_FLOAT, false);
    out_.d_q_sums_bytes = p_.batch * p_.heads * p_.length * p_.d * 4;
    graph_.Matmul(scaled, k, out_.d_q_sums);
    graph_.Pointwise(CUDNN_POINTWISE_IDENTITY, out_.d_q_sums, CudnnGraph::kNone,
                     out_.d_q);
  }

 private:
  // [b, h, length, d] with its strides in memory.
  CudnnTensor Operand(int64_t length, const Strides& strides) {
    return graph_.Tensor(
        {.dims = {p_.batch, p_.heads, length, p_.d},
         .strides = {strides.batch, strides.heads, strides.length, 1},
         .dtype = TypeOf(p_.dtype)});
  }
  // The same as [b, h, d, length].
  CudnnTensor Transposed(int64_t length, const Strides& strides) {
    return graph_.Tensor(
        {.dims = {p_.batch, p_.heads, p_.d, length},
         .strides = {strides.batch, strides.heads, 1, strides.length},
         .dtype = TypeOf(p_.dtype)});
  }
  CudnnTensor Virtual(const Dims& dims, const Dims& strides,
                      cudnnDataType_t dtype) {
    return graph_.Tensor(
        {.dims = dims, .strides = strides, .dtype = dtype, .is_virtual = true});
  }
  CudnnTensor Dense(const Dims& dims, cudnnDataType_t dtype, bool is_virtual) {
    return graph_.Tensor({.dims = dims,
                          .strides = {dims[1] * dims[2] * dims[3],
                                      dims[2] * dims[3], dims[3], 1},
                          .dtype = dtype,
                          .is_virtual = is_virtual});
  }
  CudnnTensor Scores(cudnnDataType_t dtype = CUDNN_DATA_FLOAT) {
    return Dense(scores_, dtype, true);
  }
  CudnnTensor Rows() { return Dense(rows_, CUDNN_DATA_FLOAT, true); }
  CudnnTensor Number() { return graph_.Tensor({.by_value = true}); }

  // The scores with length and memory transposed.
  CudnnTensor TransposedScores(CudnnTensor scores) {
    const int64_t lm = p_.length * p_.memory;
    const CudnnTensor transposed =
        Virtual({p_.batch, p_.heads, p_.memory, p_.length},
                {p_.heads * lm, lm, 1, p_.memory}, TypeOf(p_.dtype));
    graph_.Reshape(scores, transposed);
    return transposed;
  }

  // q k' * scale + bias, and -inf at masked positions.
  CudnnTensor MaskedScores() {
    out_.scale = Number();
    const CudnnTensor products = Scores();
    CudnnTensor scaled = Scores();
    graph_.Matmul(out_.q, out_.k, products);
    graph_.Pointwise(CUDNN_POINTWISE_MUL, products, out_.scale, scaled);
    if (p_.bias.given) {
      const CudnnTensor biased = Scores();
      out_.bias =
          Dense({p_.bias.batch ? p_.batch : 1, p_.bias.heads ? p_.heads : 1,
                 p_.bias.length ? p_.length : 1, p_.memory},
                CUDNN_DATA_FLOAT, false);
      graph_.Pointwise(CUDNN_POINTWISE_ADD, scaled, out_.bias, biased);
      scaled = biased;
    }
    if (!p_.causal) return scaled;
    out_.masked = Number();
    const CudnnTensor row = Scores(CUDNN_DATA_INT32),
                      column = Scores(CUDNN_DATA_INT32),
                      sees = Scores(CUDNN_DATA_BOOLEAN), masked = Scores();
    graph_.Pointwise(CUDNN_POINTWISE_GEN_INDEX, scaled, CudnnGraph::kNone, row,
                     CUDNN_DATA_FLOAT, 2);
    graph_.Pointwise(CUDNN_POINTWISE_GEN_INDEX, scaled, CudnnGraph::kNone,
                     column, CUDNN_DATA_FLOAT, 3);
    graph_.Pointwise(CUDNN_POINTWISE_CMP_GE, row, column, sees,
                     CUDNN_DATA_BOOLEAN);
    graph_.Select(sees, scaled, out_.masked, masked);
    return masked;
  }

  const AttentionProblem& p_;
  AttentionGraph& out_;
  CudnnGraph& graph_;
  Dims scores_, rows_;
};

}  // namespace

AttentionGraph WriteAttentionGraph(const AttentionProblem& problem) {
  AttentionGraph graph;
  AttentionGraphWriter writer(problem, &graph);
  problem.backward ? writer.Backward() : writer.Forward();
  return graph;
}

}  // namespace mtf::cuda
