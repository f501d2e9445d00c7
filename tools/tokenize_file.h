// SPDX-License-Identifier: Apache-2.0
//
// Tokenizes a text file into a file of tokens, in blocks: neither is held in
// memory.
#ifndef TOOLS_TOKENIZE_FILE_H_
#define TOOLS_TOKENIZE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "train/tokenizers/tokenizer.h"

namespace mtf::tools {

// What counts as one text, at whose ends special tokens stand.
enum class DocumentKind {
  kFile,
  kLine,       // each line that is not empty, without its line break
  kBlankLine,  // lines between empty lines
};

// "file", "line" or "blank_line".
absl::StatusOr<DocumentKind> ParseDocumentKind(absl::string_view name);

struct TokenizeOptions {
  DocumentKind document = DocumentKind::kFile;
  // Puts the special tokens that the tokenizer's files ask for at the ends of
  // each document; if they ask for none, eos after it where there is one.
  bool special_ends = true;
  int64_t block_bytes = 1 << 20;
};

struct TokenizeResult {
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t text_bytes = 0;
  int token_bytes = 2;  // in the file
};

// Writes the tokens of `input` to `output` in the format of llm.c: 256 numbers
// of 32 bits (a magic number, a version, the number of tokens, zeros), then the
// tokens, little endian. Tokens have 16 bits (magic 20240520, version 1) if the
// vocabulary has at most 65536, otherwise 32 bits (20240801, version 7).
//
// Ids are those of Encode for each document. A file as one document is encoded
// in blocks if the tokenizer splits at line breaks; otherwise it is read as a
// whole, up to 256 MiB. Errors leave no output: kNotFound or kPermissionDenied
// for files that cannot be opened, kInvalidArgument for a document that is too
// long, the tokenizer's errors with the number of the document.
absl::StatusOr<TokenizeResult> TokenizeFile(const train::Tokenizer& tokenizer,
                                            const std::string& input,
                                            const std::string& output,
                                            const TokenizeOptions& options);

}  // namespace mtf::tools

#endif  // TOOLS_TOKENIZE_FILE_H_
