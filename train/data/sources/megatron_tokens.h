// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_MEGATRON_TOKENS_H_
#define TRAIN_DATA_SOURCES_MEGATRON_TOKENS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/sources/record.h"
#include "train/data/sources/token_array.h"
#include "train/data/sources/token_files.h"

namespace mtf::train {

// The indexed data sets of Megatron-LM: tokens in NAME.bin, and in NAME.idx
//
//   "MMIDIDX\0\0"  u64 version 1  u8 code of the type of tokens
//   u64 sequences  u64 length of the document index
//   i32[sequences] tokens of each   i64[sequences] first byte of each in .bin
//   i64[...]       first sequence of each document, and the end
//   i8[sequences]  modes, in multimodal data only; not used here
//
// all little endian. A record is a document, the tokens of its sequences in
// their order.
class MegatronTokens final : public RecordSource {
 public:
  // Opens NAME.bin and NAME.idx for `prefix` NAME, and checks every number of
  // the index against the files. Errors of MappedFile::Open; kDataLoss, with
  // the number, if one does not fit.
  static absl::StatusOr<std::shared_ptr<const MegatronTokens>> Open(
      const std::string& prefix, int64_t vocabulary);

  int64_t size() const override { return documents_; }
  absl::StatusOr<Record> Read(int64_t index) const override;
  std::string NameOf(int64_t index) const override;

  // The tokens of all documents, in the order of the index, as one stream: also
  // if NAME.bin stores their sequences in another order. Errors of
  // TokenFiles::Of.
  absl::StatusOr<std::shared_ptr<const TokenFiles>> Stream() const;
  // The arrays of that stream: one for each run of sequences that are stored
  // one after the other. kOutOfRange if there are no tokens.
  absl::StatusOr<std::vector<TokenArray>> Arrays() const;

  // The streams of several data sets, one after the other in the order of
  // `prefixes`:
  //
  //   MTF_ASSIGN_OR_RETURN(auto tokens, MegatronTokens::OpenStream(
  //                                         {"wiki", "books"}, vocab.size));
  //
  // Errors of Open and Arrays; kInvalidArgument if two are the same data set,
  // also by different paths or links.
  static absl::StatusOr<std::shared_ptr<const TokenFiles>> OpenStream(
      const std::vector<std::string>& prefixes, int64_t vocabulary);

 private:
  MegatronTokens() = default;
  absl::Status ReadHeader();
  absl::Status CheckIndex();
  absl::Status CheckDocuments();
  absl::Status BadIndex(absl::string_view reason) const;
  // Numbers of the index; `i` counts from 0.
  int64_t SequenceSize(int64_t i) const;
  int64_t SequenceByte(int64_t i) const;
  int64_t FirstSequence(int64_t document) const;

  std::shared_ptr<const MappedFile> index_, tokens_;
  int64_t vocabulary_ = 0;
  TokenType type_ = TokenType::kUint16;
  int64_t sequences_ = 0, documents_ = 0;
  const char* sizes_ = nullptr;     // in index_
  const char* pointers_ = nullptr;  // in index_
  const char* document_index_ = nullptr;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_MEGATRON_TOKENS_H_
