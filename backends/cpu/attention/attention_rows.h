// SPDX-License-Identifier: Apache-2.0
//
// Vector loops over the rows of a block of logits. They are compiled for
// several instruction sets; the best is selected at run time.
#ifndef BACKENDS_CPU_ATTENTION_ATTENTION_ROWS_H_
#define BACKENDS_CPU_ATTENTION_ATTENTION_ROWS_H_

#include <cstdint>
#include <limits>

#include "mtf/half.h"

namespace mtf::cpu {

// Blocks have a multiple of this many columns. Sums over a row are in as many
// interleaved lanes, so that every instruction set adds in the same order.
inline constexpr int64_t kAttentionLanes = 32;

// The logit of a key that a query does not see.
inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The columns of a block that a query sees.
struct ColumnRange {
  int64_t begin = 0, end = 0;
};

// A block of logits: row-major, without space between rows.
struct LogitBlock {
  int64_t rows = 0;
  int64_t columns = 0;  // a multiple of kAttentionLanes
  float* logits = nullptr;
  // By row. Logits outside are ignored: their weights are 0.
  const ColumnRange* visible = nullptr;
  // The logits have yet to be multiplied by this; positive.
  float scale = 1;
  // Dropout: 0 or 1 / (1 - rate) for every logit in the visible columns, which
  // are widened to multiples of kAttentionLanes. Null: no dropout.
  const float* dropout = nullptr;
};

// Multiplies `count` logits by `scale`, a multiple of kAttentionLanes.
void ScaleLogits(float* logits, int64_t count, float scale);

// logits = cap * tanh(scale * logits / cap). Writes the derivative with respect
// to scale * logits to `slopes` unless it is null.
void CapLogits(float* logits, int64_t count, float scale, float cap,
               float* slopes);

// The running softmax of a block's rows over all blocks of keys so far (Milakov
// and Gimelshein 2018). Arrays by row, aligned to 64 bytes and padded to a
// multiple of that with any numbers.
struct RunningSoftmax {
  float* max = nullptr;  // of the logits
  float* sum = nullptr;  // of exp(logit - max)
  // Sums of weighted values so far must be multiplied by this, because `max`
  // has changed.
  float* correction = nullptr;
};

// Adds a block to the softmax of its rows. The weights exp(logit - max) after
// dropout replace the logits, or go to `rounded` if it is not null.
void SoftmaxForward(const LogitBlock& block, const RunningSoftmax& softmax,
                    BFloat16* rounded);

// The rows of the gradient. With weight = exp(logit - logsumexp),
//
//   d_logit = weight * (dropout * d_weight - delta)
//
// where delta = sum(output * d_output) - d_logsumexp.
struct SoftmaxGradient {
  const float* logsumexp = nullptr;  // infinity: all weights are 0
  const float* delta = nullptr;
  float* d_weights = nullptr;     // as `logits`
  const float* slopes = nullptr;  // of CapLogits; null: 1
  // The weights after dropout and slope * d_logit, rounded. If null, they
  // replace `logits` and `d_weights`.
  BFloat16* rounded_weights = nullptr;
  BFloat16* rounded_d_logits = nullptr;
  float* d_logits = nullptr;  // without the slope; null: not needed
};
void SoftmaxBackward(const LogitBlock& block, const SoftmaxGradient& gradient);

// Writes the dropout factors of the elements first + i * stride of the logits,
// for i in [0, count), a multiple of kAttentionLanes: `kept` if the random
// number is at least threshold / 2^24, or else 0.
struct DropoutStream {
  uint32_t seed = 0, stream = 0, step = 0;
  uint32_t threshold = 0;
  float kept = 1;
};
void DropoutFactors(const DropoutStream& stream, uint64_t first,
                    uint64_t stride, int64_t count, float* factors);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_ATTENTION_ATTENTION_ROWS_H_
