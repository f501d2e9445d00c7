// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_TEXT_SAMPLER_H_
#define TRAIN_LOOP_TEXT_SAMPLER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mtf/tensor.h"
#include "train/session/session.h"

namespace mtf::train {

struct SampleOptions {
  std::string prompt = "";  // empty: a line break
  int64_t bytes = 300;      // or tokens
  // Of the softmax: near 0 the most likely byte is taken, 1 samples from the
  // model's distribution.
  double temperature = 0.8;
  uint32_t seed = 0;
};

// Returns the prompt followed by bytes sampled from the model, one at a time.
//
//   tokens  i32[batch, length]         an Input; only row 0 is used
//   logits  [batch, length, vocab]     of any float dtype, and causal: position
//                                      i depends on 0..i only; the length may
//                                      have another name
//
// The model sees the last `length` bytes of a longer text. The same seed and
// model give the same text. kInvalidArgument for other shapes or dtypes and for
// a temperature that is not above 0.
absl::StatusOr<std::string> SampleText(Session& session, Tensor tokens,
                                       Tensor logits,
                                       const SampleOptions& options = {});

// The same for models of tokens: returns `prompt`, which has at least one
// token, followed by `options.bytes` sampled tokens; the prompt of the options
// is not used. Also kInvalidArgument for an empty prompt.
absl::StatusOr<std::vector<int32_t>> SampleTokens(
    Session& session, Tensor tokens, Tensor logits, std::vector<int32_t> prompt,
    const SampleOptions& options = {});

// Samples an index from softmax(logits / temperature) with `uniform` in [0, 1).
int64_t SampleFromLogits(absl::Span<const float> logits, double temperature,
                         double uniform);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_TEXT_SAMPLER_H_
