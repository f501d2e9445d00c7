// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/megatron_tokens.h"

#include <map>
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
    return BadIndex("does not begin with the header of Megatron-LM, MMIDIDX");
  }
  const auto number = [&](int64_t at) {
    return LoadToken(bytes.data() + at, TokenType::kInt64);
  };
  if (number(9) != 1) {
    return absl::UnimplementedError(absl::StrCat(
        "token index ", Quoted(index_->path()), " has version ", number(9),
        ", but only version 1 is supported",
        DetailLine("help",
                   "write the data set with preprocess_data.py of Megatron-LM, "
                   "which writes version 1")));
  }
  const int64_t code = LoadToken(bytes.data() + 17, TokenType::kUint8);
  if (!TokenTypeOfCode(code, type_)) {
    return BadIndex(absl::StrCat("has tokens of the type with code ", code,
                                 ", but tokens are integers: 1 to 5 or 8"));
  }
  sequences_ = number(18);
  const int64_t documents = number(26);
  // Division, because products of such numbers may overflow.
  if (sequences_ < 0 || sequences_ > size / 12 || documents < 1 ||
      documents > size / 8) {
    return BadIndex(absl::StrCat(
        "states ", sequences_, " sequences and ", documents,
        " entries of the document index, but has ", size, " bytes"));
  }
  const int64_t needed = kIndexHeaderBytes + 12 * sequences_ + 8 * documents;
  if (size != needed && size != needed + sequences_) {
    return BadIndex(absl::StrCat(
        "has ", size, " bytes, but ", sequences_, " sequences and ", documents,
        " entries of the document index take ", needed));
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
  for (int64_t i = 0; i < sequences_; ++i) {
    const int64_t size = SequenceSize(i), first = SequenceByte(i);
    if (size < 0 || first < 0 || first > bytes ||
        size > (bytes - first) / width) {
      return BadIndex(absl::StrCat(
          "has sequence ", i, " of ", size, " tokens at byte ", first, ", but ",
          Quoted(tokens_->path()), " has ", bytes, " bytes"));
    }
  }
  return CheckDocuments();
}

// Documents follow one another, so their first sequences rise from 0 to the
// number of sequences.
absl::Status MegatronTokens::CheckDocuments() {
  const auto bad = [&](int64_t i, absl::string_view expected) {
    return BadIndex(absl::StrCat("has ", FirstSequence(i), " as entry ", i,
                                 " of ", documents_ + 1,
                                 " of its document index, but ", expected));
  };
  for (int64_t i = 0; i <= documents_; ++i) {
    const int64_t first = FirstSequence(i);
    if (i == 0 && first != 0) return bad(i, "the first one is 0");
    if (i > 0 && first < FirstSequence(i - 1)) {
      return bad(i, absl::StrCat(FirstSequence(i - 1), " as entry ", i - 1));
    }
    if (first > sequences_ || (i == documents_ && first != sequences_)) {
      return bad(i, absl::StrCat(sequences_, " sequences"));
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

absl::StatusOr<std::vector<TokenArray>> MegatronTokens::Arrays() const {
  const int64_t width = TokenBytes(type_);
  std::vector<TokenArray> arrays;
  for (int64_t i = 0; i < sequences_; ++i) {
    const int64_t size = SequenceSize(i), first = SequenceByte(i);
    if (size == 0) continue;
    if (!arrays.empty() &&
        arrays.back().first_byte + arrays.back().size * width == first) {
      arrays.back().size += size;
    } else {
      arrays.push_back({tokens_, first, size, type_});
    }
  }
  if (!arrays.empty()) return arrays;
  return absl::OutOfRangeError(absl::StrCat(
      "the data set ", Quoted(tokens_->path()), " has no tokens: ",
      Plural(documents_, "document"), ", ", Plural(sequences_, "sequence"),
      DetailLine("help", "remove it from the list, or write it again")));
}

absl::StatusOr<std::shared_ptr<const TokenFiles>> MegatronTokens::Stream()
    const {
  MTF_ASSIGN_OR_RETURN(std::vector<TokenArray> arrays, Arrays());
  return TokenFiles::Of(std::move(arrays), vocabulary_);
}

absl::StatusOr<std::shared_ptr<const TokenFiles>> MegatronTokens::OpenStream(
    const std::vector<std::string>& prefixes, int64_t vocabulary) {
  std::vector<TokenArray> joined;
  std::map<FileIdentity, std::string> seen;
  for (const std::string& prefix : prefixes) {
    MTF_ASSIGN_OR_RETURN(const auto tokens, Open(prefix, vocabulary));
    const MappedFile& file = *tokens->tokens_;
    const auto [first, is_new] = seen.emplace(file.identity(), file.path());
    if (!is_new) return ListedTwice(first->second, file.path());
    MTF_ASSIGN_OR_RETURN(const std::vector<TokenArray> arrays,
                         tokens->Arrays());
    joined.insert(joined.end(), arrays.begin(), arrays.end());
  }
  return TokenFiles::Of(std::move(joined), vocabulary);
}

}  // namespace mtf::train
