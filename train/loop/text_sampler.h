// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_TEXT_SAMPLER_H_
#define TRAIN_LOOP_TEXT_SAMPLER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mtf/tensor.h"
#include "train/session/session.h"

namespace mtf::train {

struct SampleOptions {
  std::string prompt = "";  // empty: a line break
  int64_t bytes = 300;
  // Of the softmax: towards 0 the likeliest byte wins, 1 is the model itself.
  double temperature = 0.8;
  uint32_t seed = 0;
};

// The prompt and the bytes that a model writes behind it, one at a time.
//
//   tokens  i32[batch, length]         an Input; only row 0 is used
//   logits  [batch, length, vocab]     of any float dtype, and causal: position
//                                      i sees 0..i only; the length may have
//                                      another name
//
// A text longer than `length` is seen through its last `length` bytes. The same
// seed and model give the same text. kInvalidArgument for other shapes or
// dtypes, and a temperature that is not above 0.
absl::StatusOr<std::string> SampleText(Session& session, Tensor tokens,
                                       Tensor logits,
                                       const SampleOptions& options = {});

// A number drawn from softmax(logits / temperature), by `uniform` in [0, 1).
int64_t SampleFromLogits(absl::Span<const float> logits, double temperature,
                         double uniform);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_TEXT_SAMPLER_H_
