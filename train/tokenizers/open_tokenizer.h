// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_TOKENIZERS_OPEN_TOKENIZER_H_
#define TRAIN_TOKENIZERS_OPEN_TOKENIZER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "train/tokenizers/tokenizer.h"

namespace mtf::train {

// Opens the tokenizer of a model:
//
//   "bytes"              one token per byte, without a file
//   a folder             the first of these files that it has:
//     tokenizer.json         Hugging Face: BPE or WordPiece
//     spiece.model, tokenizer.model, sentencepiece.bpe.model   SentencePiece
//     vocab.json, merges.txt   BPE of GPT-2
//     vocab.txt              WordPiece of BERT
//   one of these files, under any name: by its ending
//
// A folder whose tokenizer.json is a Unigram model opens the SentencePiece
// model beside it, which is the same tokenizer.
//
//   MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
//                        OpenTokenizer("models/gpt2"));
//
// kNotFound if there is nothing at `path` or no such file in the folder, with
// the names; otherwise the errors of the classes, with file and key.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(
    const std::string& path);

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_OPEN_TOKENIZER_H_
