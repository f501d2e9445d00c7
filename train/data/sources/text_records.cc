// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/text_records.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/data/sources/line_index.h"
#include "train/data/sources/text_fields.h"

namespace mtf::train {
namespace {

constexpr size_t kMostTextBytes = size_t{64} << 20;

class TextRecords final : public RecordSource {
 public:
  TextRecords(std::vector<std::shared_ptr<const MappedFile>> files,
              std::shared_ptr<const Tokenizer> tokenizer,
              TextRecordsOptions options)
      : tokenizer_(std::move(tokenizer)), options_(std::move(options)) {
    if (options_.format == TextFormat::kFiles) {
      files_ = std::move(files);
    } else {
      lines_ = std::make_unique<const LineIndex>(std::move(files));
    }
    names_ = {options_.field};
    if (!options_.target_field.empty()) names_.push_back(options_.target_field);
  }

  int64_t size() const override {
    return lines_ ? lines_->size() : static_cast<int64_t>(files_.size());
  }

  std::string NameOf(int64_t index) const override {
    return lines_ ? lines_->NameOf(index) : files_[index]->path();
  }

  absl::StatusOr<Record> Read(int64_t index) const override {
    Record record;
    const absl::Status status = ReadTexts(index, record);
    if (status.ok()) return record;
    // A failure of the tokenizer is one of this text.
    return absl::DataLossError(
        absl::StrCat("bad record ", NameOf(index), ": ", status.message()));
  }

 private:
  absl::Status ReadTexts(int64_t index, Record& record) const {
    absl::string_view text =
        lines_ ? lines_->Line(index) : files_[index]->bytes();
    // LineIndex skips the byte order mark of a file by itself.
    if (!lines_) absl::ConsumePrefix(&text, "\xEF\xBB\xBF");
    if (text.size() > kMostTextBytes) {
      return absl::DataLossError(absl::StrCat(
          "it has ", text.size(), " bytes; the limit is ", kMostTextBytes));
    }
    const bool json = options_.format == TextFormat::kJsonLines;
    // The parser of JSON checks this by itself.
    if (options_.utf8 && !json) {
      const size_t byte = FirstInvalidUtf8(text);
      if (byte != absl::string_view::npos) {
        return absl::DataLossError(
            absl::StrCat("byte ", byte, " is not valid UTF-8"));
      }
    }
    if (!json && options_.format != TextFormat::kPairs) {
      return Tokenize(text, record.tokens);
    }
    MTF_ASSIGN_OR_RETURN(
        const std::vector<std::string> texts,
        json ? JsonTextFields(text, names_) : TabbedPair(text));
    MTF_RETURN_IF_ERROR(Tokenize(texts[0], record.tokens));
    return texts.size() == 1 ? absl::OkStatus()
                             : Tokenize(texts[1], record.targets);
  }

  absl::Status Tokenize(absl::string_view text,
                        std::vector<int32_t>& tokens) const {
    MTF_ASSIGN_OR_RETURN(tokens, tokenizer_->Encode(text));
    const SpecialTokens special = tokenizer_->special_tokens();
    if (options_.bos) tokens.insert(tokens.begin(), special.bos);
    if (options_.eos) tokens.push_back(special.eos);
    return absl::OkStatus();
  }

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const TextRecordsOptions options_;
  std::vector<std::string> names_;  // of the fields of JSON
  // One of these holds the texts.
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::unique_ptr<const LineIndex> lines_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const RecordSource>> OpenTextRecords(
    const std::vector<std::string>& paths,
    std::shared_ptr<const Tokenizer> tokenizer,
    const TextRecordsOptions& options) {
  const SpecialTokens special = tokenizer->special_tokens();
  if ((options.bos && special.bos == SpecialTokens::kNone) ||
      (options.eos && special.eos == SpecialTokens::kNone)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the tokenizer has no token for the ",
        options.bos && special.bos == SpecialTokens::kNone ? "beginning"
                                                           : "end",
        " of a text",
        DetailLine("help", "leave out .bos or .eos of TextRecordsOptions")));
  }
  std::vector<std::shared_ptr<const MappedFile>> files;
  for (const std::string& path : paths) {
    MTF_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file,
                         MappedFile::Open(path, "text"));
    files.push_back(std::move(file));
  }
  return std::make_shared<const TextRecords>(std::move(files),
                                             std::move(tokenizer), options);
}

}  // namespace mtf::train
