// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_RANDOM_CATEGORICAL_H_
#define OPS_RANDOM_CATEGORICAL_H_

#include <cstdint>
#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

// The options apply in this order.
struct CategoricalOptions {
  // Divides the logits: at least 1e-30, or 0, which takes the greatest, without
  // random numbers. The quotients should be finite in f32.
  double temperature = 1;
  // Samples from the k greatest logits; of equal ones the lower index is
  // greater, so there are exactly k. 0: from all.
  int64_t top_k = 0;
  // Samples from the fewest most likely indices whose probabilities, among
  // those that top_k leaves, add up to at least p; at least one. 1: from all.
  double top_p = 1;
};

// For each row of the float `logits` along `dim`, a random index with the
// probabilities softmax(logits / temperature), as i32 in the other dimensions
// of `logits`. Every step draws anew.
//
//   // [batch, vocab] -> [batch]
//   Tensor token = RandomCategorical(logits, "vocab", {.temperature = 0.8,
//                                                      .top_p = 0.95});
//
// By the Gumbel-max trick: the index of the greatest of logits + noise. An
// index whose logit is -infinity is never drawn if another one is finite; NaN
// counts as the greatest. Computed in f32. The random numbers are those of
// RandomGumbel, so samples do not depend on the layout. If the layout shards
// `dim`, the devices send one candidate of each shard, or with top_k that many;
// top_p without top_k sorts, and gathers `dim`. There is no gradient.
//
// Top-p sampling: Holtzman et al. 2019, https://arxiv.org/abs/1904.09751
//
// Records kInvalidArgument in the graph if `logits` are not floats or lack
// `dim`; if `dim` has no element or more than an i32 can index; if the
// temperature is negative, not finite in f32 or between 0 and 1e-30, top_k is
// negative or exceeds the size of `dim`, or top_p is not in (0, 1]. Returns an
// empty Tensor if `logits` are empty.
Tensor RandomCategorical(
    Tensor logits, absl::string_view dim, CategoricalOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_RANDOM_CATEGORICAL_H_
