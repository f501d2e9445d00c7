// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_TOKEN_FILES_H_
#define TRAIN_DATA_SOURCES_TOKEN_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/sources/token_array.h"
#include "train/data/sources/token_stream.h"

namespace mtf::train {

struct TokenFilesOptions {
  int64_t vocabulary = 0;  // tokens are below this
  // Of files without a header.
  TokenType type = TokenType::kUint16;
};

// Tokenized text in one or many files, read by memory map as one stream:
//
//   * llm.c: a header of 256 numbers of 32 bits (magic, version, number of
//     tokens), then tokens of 16 bits (magic 20240520, version 1) or 32 bits
//     (magic 20240801, version 7);
//   * nanoGPT and others: tokens only, of options.type.
//
//   MTF_ASSIGN_OR_RETURN(const auto files, DataFiles("fineweb_train_*.bin"));
//   MTF_ASSIGN_OR_RETURN(auto tokens, TokenFiles::Open(files, {vocab.size}));
class TokenFiles final : public TokenStream {
 public:
  // Errors of MappedFile::Open; kDataLoss for a header whose version or number
  // of tokens does not match the file, and for a part of a token at the end of
  // a file; kOutOfRange for fewer than two tokens. Tokens are checked when they
  // are read.
  static absl::StatusOr<std::shared_ptr<const TokenFiles>> Open(
      const std::vector<std::string>& paths, TokenFilesOptions options);

  // The tokens of one file; errors as above.
  static absl::StatusOr<TokenArray> OpenOne(const std::string& path,
                                            TokenType type);

  // The same of arrays that are open. Several may be of one file.
  static absl::StatusOr<std::shared_ptr<const TokenFiles>> Of(
      std::vector<TokenArray> arrays, int64_t vocabulary);

  int64_t size() const override { return begins_.back(); }
  absl::Status Read(int64_t begin, absl::Span<int32_t> tokens) const override;
  std::string name() const override;

 private:
  TokenFiles(std::vector<TokenArray> arrays, int64_t vocabulary);

  const std::vector<TokenArray> arrays_;
  const int64_t vocabulary_;
  std::vector<int64_t> begins_;  // of each array in the stream, and the end
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_TOKEN_FILES_H_
