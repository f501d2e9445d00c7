// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_ATTENTION_H_
#define MTF_ATTENTION_H_

#include <cstdint>
#include <string>

#include "mtf/dtype.h"
#include "mtf/shape.h"

namespace mtf {

// What an attention computes, apart from its operands. All dimensions other
// than the four named here are matched by name, and the logits have those of
// the queries:
//
//   q       [batch..., length, d_kv]
//   k       [batch..., memory_length, d_kv]
//   v       [batch..., memory_length, d_v]
//   logits  [batch..., length, memory_length]
//   output  [batch..., length, d_v]
//
//   logits  = cap(scale * q k) + bias, or -infinity where a query does not see
//             a key
//   weights = softmax(logits) over memory_length
//   output  = dropout(weights) v
//
// where cap(x) = soft_cap * tanh(x / soft_cap), or x. Keys and values may lack
// dimensions of the queries, such as heads or groups of heads, which then share
// them. A query that sees no key has output 0.
//
// Query i has position i, or i + offset if the attention has an offset; key j
// has position j. The logsumexp of a row is log(sum(exp(logits))), -infinity
// for a row without a key. An extra logit takes part in that sum as a further
// key would, whose value is 0.
struct AttentionSpec {
  std::string length;         // of the queries
  std::string memory_length;  // of keys and values
  std::string d_kv;           // of queries and keys, which sum over it
  std::string d_v;            // of values and output; may equal d_kv
  double scale = 1;
  double soft_cap = 0;  // 0: none
  // A query at position p sees keys at positions up to p only.
  bool causal = false;
  // A query at position p sees keys at positions above p - window only. 0: no
  // window.
  int64_t window = 0;
  // The fraction of weights that are set to 0; the others are divided by
  // 1 - dropout. A weight is kept if its random number of
  // RandomKind::kUniform, drawn in the shape of the logits with the key
  // `stream` and the step number, is at least ceil(dropout * 2^24) / 2^24.
  double dropout = 0;
  uint32_t stream = 0;

  friend bool operator==(const AttentionSpec&, const AttentionSpec&) = default;
};

// What decides whether a device has an instruction for an attention or for its
// gradient. Shapes are global.
struct AttentionSignature {
  AttentionSpec spec;
  Shape q, k, v, output;
  DType dtype = kFloat32;                    // of q, k and v
  bool offset = false, extra_logit = false;  // whether it has these operands
  // Whether this is the gradient; if so, whether the gradient of the logsumexp
  // is given, and that of the bias computed.
  bool is_gradient = false;
  bool logsumexp_gradient = false, bias_gradient = false;
};

// The operands of an attention, tensors or values. The last four are optional.
template <class T>
struct AttentionOperands {
  T q = {}, k = {}, v = {};
  // Bool, with any dimensions of the logits: true where a query sees a key.
  T mask = {};
  // Of a float dtype, with any dimensions of the logits.
  T bias = {};
  // I32, with any of [batch...]: added to the positions of the queries.
  T offset = {};
  // Of a float dtype, with any of [batch..., length].
  T extra_logit = {};
};

// The results of an attention: the output in the dtype of v, and the logsumexp
// in f32, [batch..., length].
template <class T>
struct AttentionResults {
  T output = {}, logsumexp = {};
};

// The gradients of the operands, each with the shape and dtype of its operand.
// Operands that were not given have none.
template <class T>
struct AttentionGradients {
  T q = {}, k = {}, v = {}, bias = {}, extra_logit = {};
};

}  // namespace mtf

#endif  // MTF_ATTENTION_H_
