// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/token_files.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

// The header of llm.c.
constexpr int64_t kTokenHeaderBytes = 256 * 4;

struct TokenHeaderKind {
  int64_t magic, version;
  TokenType type;
};
constexpr TokenHeaderKind kTokenHeaders[] = {{20240520, 1, TokenType::kUint16},
                                             {20240801, 7, TokenType::kUint32}};

int64_t HeaderNumber(const MappedFile& file, int index) {
  return LoadToken(file.bytes().data() + 4 * index, TokenType::kInt32);
}

// The tokens of a file with a header of this kind.
absl::StatusOr<TokenArray> AfterHeader(std::shared_ptr<const MappedFile> file,
                                       const TokenHeaderKind& kind) {
  const int64_t version = HeaderNumber(*file, 1),
                count = HeaderNumber(*file, 2);
  const auto bytes = static_cast<int64_t>(file->bytes().size());
  const auto bad_header = [&](absl::string_view reason) {
    return absl::DataLossError(absl::StrCat(
        "token file ", Quoted(file->path()), " with the magic number ",
        kind.magic, " ", reason,
        DetailLine("help", "write it again, it may be incomplete")));
  };
  if (version != kind.version) {
    return bad_header(absl::StrCat("has version ", version, ", but only ",
                                   kind.version, " is known"));
  }
  if (count < 0 || bytes != kTokenHeaderBytes + count * TokenBytes(kind.type)) {
    return bad_header(absl::StrCat(
        "should have ", count, " tokens of ", TokenBytes(kind.type),
        " bytes after ", kTokenHeaderBytes, ", but has ", bytes, " bytes"));
  }
  return TokenArray{std::move(file), kTokenHeaderBytes, count, kind.type};
}

}  // namespace

absl::StatusOr<TokenArray> TokenFiles::OpenOne(const std::string& path,
                                               TokenType type) {
  MTF_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file,
                       MappedFile::Open(path, "tokens"));
  const auto bytes = static_cast<int64_t>(file->bytes().size());
  if (bytes >= kTokenHeaderBytes) {
    for (const TokenHeaderKind& kind : kTokenHeaders) {
      if (HeaderNumber(*file, 0) == kind.magic) {
        return AfterHeader(std::move(file), kind);
      }
    }
  }
  if (bytes % TokenBytes(type) != 0) {
    return absl::DataLossError(absl::StrCat(
        "token file ", Quoted(path), " has ", Plural(bytes, "byte"),
        ", not a multiple of the ", TokenBytes(type), " of a token",
        DetailLine("help", "name a file of tokens, not a text")));
  }
  return TokenArray{std::move(file), 0, bytes / TokenBytes(type), type};
}

TokenFiles::TokenFiles(std::vector<TokenArray> arrays, int64_t vocabulary)
    : arrays_(std::move(arrays)), vocabulary_(vocabulary), begins_{0} {
  for (const TokenArray& array : arrays_) {
    begins_.push_back(begins_.back() + array.size);
  }
}

absl::StatusOr<std::shared_ptr<const TokenFiles>> TokenFiles::Open(
    const std::vector<std::string>& paths, TokenFilesOptions options) {
  std::vector<TokenArray> arrays;
  for (const std::string& path : paths) {
    MTF_ASSIGN_OR_RETURN(TokenArray array, OpenOne(path, options.type));
    arrays.push_back(std::move(array));
  }
  return Of(std::move(arrays), options.vocabulary);
}

absl::StatusOr<std::shared_ptr<const TokenFiles>> TokenFiles::Of(
    std::vector<TokenArray> arrays, int64_t vocabulary) {
  if (vocabulary < 1 || vocabulary > int64_t{1} << 31) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a vocabulary of ", vocabulary, " tokens",
        DetailLine("help", "give TokenFilesOptions that of the model")));
  }
  std::shared_ptr<const TokenFiles> tokens(
      new TokenFiles(std::move(arrays), vocabulary));
  if (tokens->size() < 2) {
    return absl::OutOfRangeError(
        absl::StrCat(tokens->name(), " has ", Plural(tokens->size(), "token"),
                     ", but needs at least 2",
                     DetailLine("help", "name files of more tokens")));
  }
  return tokens;
}

absl::Status TokenFiles::Read(int64_t begin, absl::Span<int32_t> tokens) const {
  // The array that holds `begin` is before the first one that begins later.
  size_t i = std::upper_bound(begins_.begin(), begins_.end(), begin) -
             begins_.begin() - 1;
  while (!tokens.empty()) {
    const int64_t count =
        std::min(static_cast<int64_t>(tokens.size()), begins_[i + 1] - begin);
    MTF_RETURN_IF_ERROR(arrays_[i].Read(begin - begins_[i], vocabulary_,
                                        tokens.subspan(0, count)));
    tokens.remove_prefix(count);
    begin += count;
    ++i;
  }
  return absl::OkStatus();
}

std::string TokenFiles::name() const {
  if (arrays_.empty()) return "a list of no token files";
  const std::string first =
      absl::StrCat("file ", Quoted(arrays_.front().file->path()));
  std::set<FileIdentity> files;
  for (const TokenArray& array : arrays_) files.insert(array.file->identity());
  if (files.size() == 1) return first;
  return absl::StrCat(first, " with ", files.size() - 1, " more ",
                      files.size() == 2 ? "file" : "files");
}

}  // namespace mtf::train
