// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/megatron_tokens.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

constexpr absl::string_view kIndexMagic("MMIDIDX\0\0", 9);
constexpr int64_t kIndexHeaderBytes = 9 + 8 + 1 + 8 + 8;

// The types of tokens by their code, as far as they are integers.
bool TokenTypeOfCode(int64_t code, TokenType& type) {
  constexpr TokenType kTypes[] = {TokenType::kUint8, TokenType::kInt8,
                                  TokenType::kInt16, TokenType::kInt32,
                                  TokenType::kInt64};
  if (code >= 1 && code <= 5) {
    type = kTypes[code - 1];
    return true;
  }
  type = TokenType::kUint16;
  return code == 8;
}

}  // namespace

absl::Status MegatronTokens::BadIndex(absl::string_view reason) const {
  return absl::DataLossError(absl::StrCat(
      "token index ", Quoted(index_->path()), " ", reason,
      DetailLine("help", "write both files again, they may be incomplete")));
}

int64_t MegatronTokens::SequenceSize(int64_t i) const {
  return LoadToken(sizes_ + 4 * i, TokenType::kInt32);
}
int64_t MegatronTokens::SequenceByte(int64_t i) const {
  return LoadToken(pointers_ + 8 * i, TokenType::kInt64);
}
int64_t MegatronTokens::FirstSequence(int64_t document) const {
  return LoadToken(document_index_ + 8 * document, TokenType::kInt64);
}

absl::StatusOr<std::shared_ptr<const MegatronTokens>> MegatronTokens::Open(
    const std::string& prefix, int64_t vocabulary) {
  std::shared_ptr<MegatronTokens> tokens(new MegatronTokens);
  tokens->vocabulary_ = vocabulary;
  MTF_ASSIGN_OR_RETURN(
      tokens->index_,
      MappedFile::Open(absl::StrCat(prefix, ".idx"), "the index of tokens"));
  MTF_ASSIGN_OR_RETURN(
      tokens->tokens_,
      MappedFile::Open(absl::StrCat(prefix, ".bin"), "tokens"));
  MTF_RETURN_IF_ERROR(tokens->ReadHeader());
  MTF_RETURN_IF_ERROR(tokens->CheckIndex());
  return tokens;
}

absl::Status MegatronTokens::ReadHeader() {
  const absl::string_view bytes = index_->bytes();
  const auto size = static_cast<int64_t>(bytes.size());
  if (size < kIndexHeaderBytes || !absl::StartsWith(bytes, kIndexMagic)) {
    return BadIndex("does not begin with a header of Megatron, MMIDIDX");
  }
  const auto number = [&](int64_t at) {
    return LoadToken(bytes.data() + at, TokenType::kInt64);
  };
  if (number(9) != 1) {
    return BadIndex(
        absl::StrCat("has version ", number(9), ", but only 1 is known"));
  }
  const int64_t code = LoadToken(bytes.data() + 17, TokenType::kUint8);
  if (!TokenTypeOfCode(code, type_)) {
    return BadIndex(absl::StrCat("has tokens of type ", code,
                                 ", which is none of integers"));
  }
  sequences_ = number(18);
  const int64_t documents = number(26);
  // Division, because products of such numbers may overflow.
  if (sequences_ < 0 || sequences_ > size / 12 || documents < 1 ||
      documents > size / 8) {
    return BadIndex(absl::StrCat("should have ", sequences_, " sequences and ",
                                 documents, " numbers of documents, but has ",
                                 size, " bytes"));
  }
  const int64_t needed = kIndexHeaderBytes + 12 * sequences_ + 8 * documents;
  if (size != needed && size != needed + sequences_) {
    return BadIndex(absl::StrCat("has ", size, " bytes, but ", sequences_,
                                 " sequences and ", documents,
                                 " numbers of documents take ", needed));
  }
  sizes_ = bytes.data() + kIndexHeaderBytes;
  pointers_ = sizes_ + 4 * sequences_;
  document_index_ = pointers_ + 8 * sequences_;
  documents_ = documents - 1;  // the last number is the end
  return absl::OkStatus();
}

absl::Status MegatronTokens::CheckIndex() {
  const auto bytes = static_cast<int64_t>(tokens_->bytes().size());
  const int64_t width = TokenBytes(type_);
  int64_t end = 0;
  for (int64_t i = 0; i < sequences_; ++i) {
    const int64_t size = SequenceSize(i), first = SequenceByte(i);
    if (size < 0 || first < 0 || first > bytes ||
        size > (bytes - first) / width) {
      return BadIndex(absl::StrCat(
          "has sequence ", i, " of ", size, " tokens at byte ", first, ", but ",
          Quoted(tokens_->path()), " has ", bytes, " bytes"));
    }
    contiguous_ = contiguous_ && first == end;
    end = first + size * width;
  }
  contiguous_ = contiguous_ && end % width == 0;
  for (int64_t i = 0; i <= documents_; ++i) {
    const int64_t first = FirstSequence(i);
    const int64_t least = i == 0 ? 0 : FirstSequence(i - 1);
    if (first < least || first > sequences_ || (i == 0 && first != 0) ||
        (i == documents_ && first != sequences_)) {
      return BadIndex(absl::StrCat("begins document ", i, " at sequence ",
                                   first, " of ", sequences_,
                                   "; documents follow one another"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Record> MegatronTokens::Read(int64_t index) const {
  const int64_t begin = FirstSequence(index), end = FirstSequence(index + 1);
  int64_t count = 0;
  // Sequences may overlap, so the sum is not bounded by the file.
  const int64_t most =
      static_cast<int64_t>(tokens_->bytes().size()) / TokenBytes(type_);
  for (int64_t i = begin; i < end && count <= most; ++i) {
    count += SequenceSize(i);
  }
  if (count > most) {
    return absl::DataLossError(absl::StrCat(
        NameOf(index), " has more tokens than its file",
        DetailLine("help", "its sequences overlap: write the files again")));
  }
  Record record;
  record.tokens.resize(count);
  absl::Span<int32_t> rest = absl::MakeSpan(record.tokens);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t size = SequenceSize(i);
    const TokenArray array = {tokens_, SequenceByte(i), size, type_};
    const absl::Status read = array.Read(0, vocabulary_, rest.subspan(0, size));
    if (!read.ok()) {
      return absl::Status(read.code(),
                          absl::StrCat(NameOf(index), ": ", read.message()));
    }
    rest.remove_prefix(size);
  }
  return record;
}

std::string MegatronTokens::NameOf(int64_t index) const {
  return absl::StrCat(tokens_->path(), ": document ", index);
}

absl::StatusOr<std::shared_ptr<const TokenFiles>> MegatronTokens::Stream()
    const {
  if (!contiguous_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the sequences of ", Quoted(tokens_->path()),
        " are not stored one after the other",
        DetailLine("help", "read its documents as records, and pack them")));
  }
  int64_t size = 0;
  for (int64_t i = 0; i < sequences_; ++i) size += SequenceSize(i);
  return TokenFiles::Of({{tokens_, 0, size, type_}}, vocabulary_);
}

}  // namespace mtf::train
