// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenize_file.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf::tools {
namespace {

constexpr int64_t kMostDocumentBytes = int64_t{1} << 28;
constexpr int kHeaderNumbers = 256;

absl::Status FileError(absl::string_view action, const std::string& path,
                       int number, absl::string_view help) {
  return absl::Status(
      absl::ErrnoToStatusCode(number),
      absl::StrCat("cannot ", action, " ", Quoted(path), ": ",
                   std::strerror(number), DetailLine("help", help)));
}

// A file of tokens that is removed again unless Finish succeeds.
class TokenFileWriter {
 public:
  TokenFileWriter(std::string path, int token_bytes)
      : path_(std::move(path)), token_bytes_(token_bytes) {}
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  ~TokenFileWriter() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    std::remove(path_.c_str());
  }

  absl::Status Open() {
    file_ = std::fopen(path_.c_str(), "wb");
    if (file_ == nullptr) {
      return FileError("write", path_, errno,
                       "name a file in a folder that exists with --output");
    }
    return WriteHeader();
  }

  absl::Status Write(const std::vector<int32_t>& tokens) {
    bytes_.clear();
    for (const int32_t token : tokens) {
      for (int i = 0; i < token_bytes_; ++i) {
        bytes_.push_back(static_cast<char>(token >> 8 * i & 255));
      }
    }
    tokens_ += static_cast<int64_t>(tokens.size());
    return WriteBytes(bytes_);
  }

  absl::Status Finish() {
    constexpr int64_t kMostTokens = INT32_MAX;  // the header has 32 bits
    if (tokens_ > kMostTokens) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the text has ", tokens_, " tokens, but a file has at most ",
          kMostTokens,
          DetailLine("help", "split the text into several files")));
    }
    if (std::fseek(file_, 0, SEEK_SET) != 0) return Failed();
    MTF_RETURN_IF_ERROR(WriteHeader());
    std::FILE* file = file_;
    file_ = nullptr;
    if (std::fclose(file) != 0) {
      const int number = errno;
      std::remove(path_.c_str());
      return FileError("write", path_, number, "make room on the disk");
    }
    return absl::OkStatus();
  }

  int64_t tokens() const { return tokens_; }

 private:
  absl::Status Failed() const {
    return FileError("write", path_, errno == 0 ? EIO : errno,
                     "make room on the disk, or name another file");
  }

  absl::Status WriteBytes(absl::string_view bytes) {
    errno = 0;
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
      return Failed();
    }
    return absl::OkStatus();
  }

  absl::Status WriteHeader() {
    const bool wide = token_bytes_ == 4;
    std::array<int64_t, kHeaderNumbers> numbers{};
    numbers[0] = wide ? 20240801 : 20240520;
    numbers[1] = wide ? 7 : 1;
    numbers[2] = tokens_;
    std::string header;
    for (const int64_t number : numbers) {
      for (int i = 0; i < 4; ++i) {
        header.push_back(static_cast<char>(number >> 8 * i & 255));
      }
    }
    return WriteBytes(header);
  }

  std::string path_;
  int token_bytes_;
  std::FILE* file_ = nullptr;
  int64_t tokens_ = 0;
  std::string bytes_;
};

class InputFile {
 public:
  explicit InputFile(std::string path) : path_(std::move(path)) {}
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile() {
    if (file_ != nullptr) std::fclose(file_);
  }

  absl::Status Open() {
    struct stat info;
    if (stat(path_.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      return FileError("read", path_, EISDIR, "name a text file with --input");
    }
    file_ = std::fopen(path_.c_str(), "rb");
    if (file_ != nullptr) return absl::OkStatus();
    return FileError("read", path_, errno, "name a text file with --input");
  }

  // Appends up to `bytes` bytes to `text`; false at the end of the file.
  absl::StatusOr<bool> Read(int64_t bytes, std::string& text) {
    const size_t before = text.size();
    text.resize(before + bytes);
    errno = 0;
    const size_t read = std::fread(text.data() + before, 1, bytes, file_);
    text.resize(before + read);
    if (std::ferror(file_) != 0) {
      return FileError("read", path_, errno == 0 ? EIO : errno,
                       "check the disk, or name another file");
    }
    return read > 0;
  }

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

// Encodes documents, or parts of one, and writes their tokens.
class DocumentEncoder {
 public:
  DocumentEncoder(const train::Tokenizer& tokenizer,
                  const TokenizeOptions& options, TokenFileWriter& writer,
                  TokenizeResult& result)
      : tokenizer_(tokenizer), writer_(writer), result_(result) {
    if (!options.special_ends) return;
    const auto ends = tokenizer.EncodeWith({.special_ends = true}, "");
    if (ends.ok() && !ends->empty()) {
      add_ends_ = true;
    } else if (tokenizer.special_tokens().eos != train::SpecialTokens::kNone) {
      after_ = {tokenizer.special_tokens().eos};
    }
  }

  absl::Status Document(absl::string_view text) {
    MTF_RETURN_IF_ERROR(Encode(text, add_ends_));
    return End();
  }

  // Parts of a document that tokens do not reach over.
  absl::Status Part(absl::string_view text) { return Encode(text, false); }
  absl::Status BeginParts() {
    if (!add_ends_) return absl::OkStatus();
    MTF_ASSIGN_OR_RETURN(after_parts_, Ends());
    return writer_.Write(before_parts_);
  }
  absl::Status EndParts() {
    MTF_RETURN_IF_ERROR(writer_.Write(after_parts_));
    return End();
  }

 private:
  absl::Status Encode(absl::string_view text, bool ends) {
    auto ids = tokenizer_.EncodeWith({.special_ends = ends}, text);
    if (!ids.ok()) {
      return absl::Status(ids.status().code(),
                          absl::StrCat("document ", result_.documents, ": ",
                                       ids.status().message()));
    }
    return writer_.Write(*ids);
  }

  // Splits the tokens around a text into those before and those after it.
  absl::StatusOr<std::vector<int32_t>> Ends() {
    MTF_ASSIGN_OR_RETURN(const std::vector<int32_t> plain,
                         tokenizer_.Encode("a"));
    MTF_ASSIGN_OR_RETURN(std::vector<int32_t> all,
                         tokenizer_.EncodeWith({.special_ends = true}, "a"));
    size_t before = 0;
    while (before + plain.size() < all.size() &&
           !std::equal(plain.begin(), plain.end(),
                       all.begin() + static_cast<std::ptrdiff_t>(before))) {
      ++before;
    }
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(before);
    before_parts_.assign(all.begin(), begin);
    return std::vector<int32_t>(
        begin + static_cast<std::ptrdiff_t>(plain.size()), all.end());
  }

  absl::Status End() {
    ++result_.documents;
    return writer_.Write(after_);
  }

  const train::Tokenizer& tokenizer_;
  TokenFileWriter& writer_;
  TokenizeResult& result_;
  bool add_ends_ = false;
  std::vector<int32_t> after_;  // each document, where add_ends_ is false
  std::vector<int32_t> before_parts_, after_parts_;
};

absl::Status TooLong(int64_t bytes, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      what, " has more than ", bytes, " bytes",
      DetailLine("help",
                 "give each line, or the lines between blank ones, as a "
                 "document: --document=line or --document=blank_line")));
}

// The end of the last line that a character other than white space follows, or
// 0. Only ASCII characters count: the first line of a block in another script
// waits for one.
size_t LastCut(absl::string_view text) {
  for (size_t at = text.size(); at > 1; --at) {
    if (text[at - 2] != '\n') continue;
    const auto next = static_cast<unsigned char>(text[at - 1]);
    if (next < 0x80 && !absl::ascii_isspace(next)) return at - 1;
  }
  return 0;
}

// Encodes the file as one document. Blocks end at line breaks.
absl::Status EncodeWholeFile(InputFile& input, bool in_blocks,
                             const TokenizeOptions& options,
                             DocumentEncoder& encoder, TokenizeResult& result) {
  std::string text;
  MTF_RETURN_IF_ERROR(encoder.BeginParts());
  bool more = true;
  while (more) {
    const int64_t before = static_cast<int64_t>(text.size());
    MTF_ASSIGN_OR_RETURN(more, input.Read(options.block_bytes, text));
    result.text_bytes += static_cast<int64_t>(text.size()) - before;
    const size_t cut = !more ? text.size() : in_blocks ? LastCut(text) : 0;
    if (cut > 0) {
      MTF_RETURN_IF_ERROR(encoder.Part(absl::string_view(text).substr(0, cut)));
      text.erase(0, cut);
    }
    if (static_cast<int64_t>(text.size()) > kMostDocumentBytes) {
      return TooLong(kMostDocumentBytes,
                     in_blocks ? "a stretch without a place to split"
                               : "the text, which this tokenizer can only "
                                 "encode as a whole,");
    }
  }
  return encoder.EndParts();
}

// The first document of `text` and the bytes that it takes with what separates
// it from the next; npos bytes if it may go on after the text.
struct FirstDocument {
  absl::string_view text;
  size_t bytes = absl::string_view::npos;
};

FirstDocument FindDocument(absl::string_view text, DocumentKind kind,
                           bool at_end) {
  const auto trimmed = [](absl::string_view document) {
    while (absl::ConsumeSuffix(&document, "\n") ||
           absl::ConsumeSuffix(&document, "\r")) {
    }
    return document;
  };
  size_t begin = 0;  // of a line
  while (true) {
    const size_t end = text.find('\n', begin);
    if (end == absl::string_view::npos) {
      if (!at_end) return {};
      return {trimmed(text), text.size()};
    }
    const absl::string_view line = text.substr(begin, end - begin);
    const bool blank = line.empty() || line == "\r";
    if (blank || kind == DocumentKind::kLine) {
      return {trimmed(text.substr(0, end)), end + 1};
    }
    begin = end + 1;
  }
}

absl::Status EncodeDocuments(InputFile& input, const TokenizeOptions& options,
                             DocumentEncoder& encoder, TokenizeResult& result) {
  std::string text;
  bool more = true;
  while (more) {
    const int64_t before = static_cast<int64_t>(text.size());
    MTF_ASSIGN_OR_RETURN(more, input.Read(options.block_bytes, text));
    result.text_bytes += static_cast<int64_t>(text.size()) - before;
    absl::string_view rest = text;
    while (!rest.empty()) {
      const FirstDocument document =
          FindDocument(rest, options.document, !more);
      if (document.bytes == absl::string_view::npos) break;
      if (!document.text.empty()) {
        MTF_RETURN_IF_ERROR(encoder.Document(document.text));
      }
      rest.remove_prefix(document.bytes);
    }
    text.erase(0, text.size() - rest.size());
    if (static_cast<int64_t>(text.size()) > kMostDocumentBytes) {
      return TooLong(kMostDocumentBytes,
                     absl::StrCat("document ", result.documents));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DocumentKind> ParseDocumentKind(absl::string_view name) {
  if (name == "file") return DocumentKind::kFile;
  if (name == "line") return DocumentKind::kLine;
  if (name == "blank_line") return DocumentKind::kBlankLine;
  return absl::InvalidArgumentError(absl::StrCat(
      "--document is ", Quoted(name), ", which is not a kind of document",
      DetailLine("help",
                 "file: the whole text; line: each line; blank_line: the "
                 "lines between empty ones")));
}

absl::StatusOr<TokenizeResult> TokenizeFile(const train::Tokenizer& tokenizer,
                                            const std::string& input,
                                            const std::string& output,
                                            const TokenizeOptions& options) {
  TokenizeResult result;
  result.token_bytes = tokenizer.vocabulary_size() <= 1 << 16 ? 2 : 4;
  InputFile text(input);
  MTF_RETURN_IF_ERROR(text.Open());
  TokenFileWriter writer(output, result.token_bytes);
  MTF_RETURN_IF_ERROR(writer.Open());
  DocumentEncoder encoder(tokenizer, options, writer, result);
  MTF_RETURN_IF_ERROR(options.document == DocumentKind::kFile
                          ? EncodeWholeFile(text,
                                            tokenizer.SplitsAtLineBreaks(),
                                            options, encoder, result)
                          : EncodeDocuments(text, options, encoder, result));
  result.tokens = writer.tokens();
  MTF_RETURN_IF_ERROR(writer.Finish());
  return result;
}

}  // namespace mtf::tools
