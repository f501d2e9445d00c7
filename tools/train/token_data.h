// SPDX-License-Identifier: Apache-2.0
#ifndef TOOLS_TRAIN_TOKEN_DATA_H_
#define TOOLS_TRAIN_TOKEN_DATA_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "mtf/dimension.h"
#include "train/data/batch_source.h"
#include "train/data/sources/token_stream.h"
#include "train/tokenizers/tokenizer.h"

namespace mtf::tools {

// Opens the data of a language model with tokens below `vocabulary`: files of
// tokens called *.bin (train/data/sources/token_files.h), data sets of
// Megatron-LM, which have a *.idx as well (megatron_tokens.h), or texts, which
// are tokenized here. Several, which `names` lists by commas and patterns, are
// joined in that order.
// "bible" is the output of Debian's program of this name. `tokenizer` is null
// if there is none. kInvalidArgument for a text without a tokenizer; otherwise
// the errors of the files and the tokenizer.
absl::StatusOr<std::shared_ptr<const train::TokenStream>> OpenTokenData(
    const std::string& names, const train::Tokenizer* tokenizer,
    int64_t vocabulary);

// The windows of a stream for an evaluation, one after the other: the feeds
// "tokens", "targets" and "weights", which are 0 in the rows that fill up the
// last batch. kOutOfRange if the stream is shorter than a window.
absl::StatusOr<std::shared_ptr<const train::BatchSource>> HeldOutWindows(
    std::shared_ptr<const train::TokenStream> stream, const Dimension& batch,
    const Dimension& length);

}  // namespace mtf::tools

#endif  // TOOLS_TRAIN_TOKEN_DATA_H_
