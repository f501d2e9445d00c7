// SPDX-License-Identifier: Apache-2.0
#ifndef TOOLS_TRAIN_TOKEN_DATA_H_
#define TOOLS_TRAIN_TOKEN_DATA_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "mtf/dimension.h"
#include "train/data/batch_source.h"
#include "train/data/sources/token_stream.h"
#include "train/tokenizers/tokenizer.h"

namespace mtf::tools {

// How texts are read.
struct TokenDataOptions {
  // Null if there is none.
  const train::Tokenizer* tokenizer = nullptr;
  // The field of JSON lines that has the text.
  std::string text_field = "text";
  // Leaves out lines that are not a JSON object with this field, with a notice;
  // otherwise they are errors.
  bool skip_bad_records = false;
  std::function<void(const std::string& notice)> on_notice = nullptr;
  // Whether the end token of the tokenizer stands between texts. Not between
  // pictures, which it would shift.
  bool separates = true;
};

// Opens the data of a language model with tokens below `vocabulary`: files of
// tokens called *.bin (train/data/sources/token_files.h), data sets of
// Megatron-LM, which have a *.idx as well (megatron_tokens.h), or texts, which
// are tokenized here: whole files, or each line of *.jsonl. Several, which
// `names` lists by commas and patterns, are joined in that order. "bible" is
// the output of Debian's program of this name.
//
// kInvalidArgument for a text without a tokenizer; kDataLoss, with file and
// line, for a bad record; otherwise the errors of the files and the tokenizer.
absl::StatusOr<std::shared_ptr<const train::TokenStream>> OpenTokenData(
    const std::string& names, int64_t vocabulary,
    const TokenDataOptions& options);

// The windows of a stream for an evaluation, one after the other: the feeds
// "tokens", "targets" and "weights", which are 0 in the rows that fill up the
// last batch. kOutOfRange if the stream is shorter than a window.
absl::StatusOr<std::shared_ptr<const train::BatchSource>> HeldOutWindows(
    std::shared_ptr<const train::TokenStream> stream, const Dimension& batch,
    const Dimension& length);

// The pictures of a stream in which one follows the other, `length` tokens
// each, as the feeds "tokens" and "targets": each once in an epoch, in an order
// that depends on the seed. kOutOfRange if the stream is shorter than a
// picture.
absl::StatusOr<std::shared_ptr<const train::BatchSource>> PicturesOfTokens(
    std::shared_ptr<const train::TokenStream> stream, const Dimension& batch,
    const Dimension& length, uint32_t seed);
// The same for an evaluation: once, in their order, with "weights".
absl::StatusOr<std::shared_ptr<const train::BatchSource>>
HeldOutPicturesOfTokens(std::shared_ptr<const train::TokenStream> stream,
                        const Dimension& batch, const Dimension& length);

struct MaskedWindowsOptions {
  const train::Tokenizer* tokenizer = nullptr;  // null: an error
  bool pairs = false;  // of sentences (train/data/sentence_pairs.h)
  uint32_t seed = 0;
  // Once and in their order, for an evaluation, each time with the same masks.
  bool once = false;
};

// The windows of a stream between the tokens of the tokenizer that begin and
// end a text, with masked tokens: the feeds of MaskedRows. Unless `once`, each
// is read once in an epoch, in an order and with masks that depend on the seed.
// Tokens after the last whole window are not read.
//
// kInvalidArgument if there is no tokenizer, one without a mask, or a single
// window for pairs; kOutOfRange if the stream is shorter than a window.
absl::StatusOr<std::shared_ptr<const train::BatchSource>> MaskedWindows(
    std::shared_ptr<const train::TokenStream> stream, const Dimension& batch,
    const Dimension& length, const MaskedWindowsOptions& options);

}  // namespace mtf::tools

#endif  // TOOLS_TRAIN_TOKEN_DATA_H_
