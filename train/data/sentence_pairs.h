// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SENTENCE_PAIRS_H_
#define TRAIN_DATA_SENTENCE_PAIRS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "train/data/sources/record_order.h"

namespace mtf::train {

// Pairs for the prediction of the next sentence (BERT, Devlin et al., 2019): a
// text of `texts` is divided in the middle, and in half of the records its
// second half is replaced by that of another text of the same epoch. Record
// has `tokens`, `targets`, and `label`: 0 if the second half follows the first,
// 1 if it does not.
//
// Draws depend on the seed and the position, so each epoch has other pairs, and
// an order that is not shuffled has the same ones in each evaluation. A text
// whose partner is missing keeps its own second half.
//
// kInvalidArgument if an epoch has fewer than two texts.
absl::StatusOr<std::shared_ptr<const RecordOrder>> SentencePairs(
    std::shared_ptr<const RecordOrder> texts, uint32_t seed);

}  // namespace mtf::train

#endif  // TRAIN_DATA_SENTENCE_PAIRS_H_
