// SPDX-License-Identifier: Apache-2.0
//
// The gradients that an attention adds up over several blocks of logits.
#ifndef BACKENDS_CPU_ATTENTION_ATTENTION_GRADIENTS_H_
#define BACKENDS_CPU_ATTENTION_ATTENTION_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/attention_blocks.h"

namespace mtf::cpu {

// Writes scale * sums, a dense matrix of `rows` rows of max(depth, 1) columns,
// to `tensor` at `offset`.
void WriteRows(const AttentionTensor& tensor, int64_t offset,
               int64_t row_stride, int64_t rows, int64_t depth, float scale,
               const float* sums);

// The gradient of keys or values as one task accumulates it: a matrix [keys,
// depth] of a range of keys for each index of the serial dimensions of the task
// that the gradient has.
class KeyGradient {
 public:
  KeyGradient() = default;
  KeyGradient(const AttentionBlocks& blocks, const AttentionTensor& tensor,
              const std::vector<int>& serial, int64_t depth, int64_t keys);

  int64_t sums() const { return matrices_ * matrix_; }  // accumulators
  float* SumsOf(const AttentionBlocks& blocks, const OuterIndex& index,
                float* sums) const {
    return sums + blocks.Encode(dims_, index) * matrix_;
  }
  // Writes scale * sums for the range from `first_key`. `index` holds the
  // indices of the task's other dimensions.
  void Write(const AttentionBlocks& blocks, OuterIndex index, int64_t first_key,
             float scale, const float* sums) const;

 private:
  AttentionTensor tensor_;
  std::vector<int> dims_;  // serial dimensions that the gradient has
  int64_t depth_ = 0, keys_ = 0;
  int64_t matrices_ = 0, matrix_ = 0;
};

// The gradient of the bias, which may lack any dimension of the logits. If it
// has all of them, its blocks are written at once.
class BiasGradient {
 public:
  BiasGradient() = default;
  BiasGradient(const AttentionBlocks& blocks, const std::vector<int>& serial,
               int64_t keys);

  int64_t sums() const { return matrices_ * rows_ * columns_; }
  // Adds the block of gradients at `at` to the sums of the range of keys from
  // `first_key`.
  void Add(const AttentionBlocks& blocks, const BlockPosition& at,
           int64_t first_key, const float* d_logits, float* sums) const;
  // Adds zeros.
  void Skip(const AttentionBlocks& blocks, const BlockPosition& at) const;
  void Write(const AttentionBlocks& blocks, OuterIndex index, int64_t first_key,
             const float* sums) const;

 private:
  bool given_ = false;
  bool has_all_dims_ = false;
  std::vector<int> dims_;
  // Of the sums for one index; 1 where the bias lacks the dimension.
  int64_t matrices_ = 0, rows_ = 0, columns_ = 0;
};

// Writes sum(output * d_output) - d_logsumexp to `delta` [outer..., length].
void FindDelta(const AttentionBlocks& blocks, std::vector<float>& delta);

// Writes the gradient of the extra logit,
//
//   exp(extra_logit - logsumexp) * -delta.
void WriteExtraLogitGradient(const AttentionBlocks& blocks, const float* delta);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_ATTENTION_ATTENTION_GRADIENTS_H_
