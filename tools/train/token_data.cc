// SPDX-License-Identifier: Apache-2.0
#include "tools/train/token_data.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/read_file.h"
#include "mtf/status.h"
#include "train/data/record_batches.h"
#include "train/data/rows/language_model_rows.h"
#include "train/data/rows/masked_rows.h"
#include "train/data/sentence_pairs.h"
#include "train/data/sources/bad_records.h"
#include "train/data/sources/mapped_file.h"
#include "train/data/sources/megatron_tokens.h"
#include "train/data/sources/record_order.h"
#include "train/data/sources/text_records.h"
#include "train/data/sources/token_files.h"
#include "train/data/sources/token_windows.h"
#include "train/data/text_dataset.h"

namespace mtf::tools {
namespace {

// Texts that were tokenized, in memory.
class TokenizedText final : public train::TokenStream {
 public:
  TokenizedText(std::vector<int32_t> tokens, std::string name)
      : tokens_(std::move(tokens)), name_(std::move(name)) {}

  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  absl::Status Read(int64_t begin, absl::Span<int32_t> tokens) const override {
    std::copy_n(tokens_.begin() + begin, tokens.size(), tokens.begin());
    return absl::OkStatus();
  }
  std::string name() const override { return name_; }

 private:
  const std::vector<int32_t> tokens_;
  const std::string name_;
};

absl::StatusOr<std::string> TextOf(const std::string& path) {
  if (path == "bible") {
    MTF_ASSIGN_OR_RETURN(const train::TextDataset text,
                         train::TextDataset::KingJames());
    return text.text();
  }
  constexpr int64_t kMostBytes = int64_t{1} << 31;
  return ReadPlainFile(path, "text", kMostBytes);
}

bool IsTokens(const std::string& path) {
  return absl::EndsWith(path, ".bin") || absl::EndsWith(path, ".idx");
}

// Adds texts, with the end of a text between two of them.
class TokenAppender {
 public:
  // `vocabulary` is the model's, which need not know the end of a text.
  TokenAppender(int64_t vocabulary, const TokenDataOptions& options)
      : options_(options),
        eos_(options.tokenizer->special_tokens().eos),
        has_eos_(options.separates && eos_ >= 0 && eos_ < vocabulary) {}

  absl::Status AddFile(const std::string& path) {
    if (absl::EndsWith(path, ".jsonl")) return AddJsonLines(path);
    MTF_ASSIGN_OR_RETURN(const std::string text, TextOf(path));
    MTF_ASSIGN_OR_RETURN(const std::vector<int32_t> encoded,
                         options_.tokenizer->Encode(text));
    Add(encoded);
    return absl::OkStatus();
  }
  std::vector<int32_t> Take() { return std::move(tokens_); }

 private:
  void Add(const std::vector<int32_t>& text) {
    if (!tokens_.empty() && has_eos_) tokens_.push_back(eos_);
    tokens_.insert(tokens_.end(), text.begin(), text.end());
  }

  absl::Status AddJsonLines(const std::string& path) {
    // Does not own the tokenizer, which outlives it.
    const std::shared_ptr<const train::Tokenizer> tokenizer(
        std::shared_ptr<void>(), options_.tokenizer);
    MTF_ASSIGN_OR_RETURN(
        const auto texts,
        train::OpenTextRecords({path}, tokenizer,
                               {.format = train::TextFormat::kJsonLines,
                                .field = options_.text_field}));
    train::BadRecordLog bad;
    for (int64_t i = 0; i < texts->size(); ++i) {
      const absl::StatusOr<train::Record> text = texts->Read(i);
      if (absl::IsDataLoss(text.status()) && options_.skip_bad_records) {
        bad.Add(i, text.status());
        continue;
      }
      MTF_RETURN_IF_ERROR(text.status());
      Add(text->tokens);
    }
    const std::string report = bad.report().ToString();
    if (!report.empty() && options_.on_notice != nullptr) {
      options_.on_notice(absl::StrCat("left out ", report));
    }
    return absl::OkStatus();
  }

  const TokenDataOptions& options_;
  const int32_t eos_;
  const bool has_eos_;
  std::vector<int32_t> tokens_;
};

// Texts have a tokenizer, files of tokens none.
absl::Status CheckNotMixed(const std::vector<std::string>& paths) {
  const auto tokens = std::find_if(paths.begin(), paths.end(), &IsTokens),
             text = std::find_if_not(paths.begin(), paths.end(), &IsTokens);
  if (tokens == paths.end() || text == paths.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      Quoted(*text), " is a text, but ", Quoted(*tokens),
      " is a file of tokens",
      DetailLine("help", "list either texts or files of tokens (.bin)")));
}

// Files of tokens in their order: those of Megatron-LM, NAME.bin with NAME.idx,
// of which patterns may list both, and others.
absl::StatusOr<std::shared_ptr<const train::TokenStream>> OpenTokenFiles(
    const std::vector<std::string>& paths, int64_t vocabulary) {
  std::vector<train::TokenArray> joined;
  for (const std::string& path : paths) {
    const std::string prefix = path.substr(0, path.size() - 4);
    const std::string tokens = absl::StrCat(prefix, ".bin");
    if (path != tokens && std::count(paths.begin(), paths.end(), tokens) > 0) {
      continue;
    }
    if (path == tokens &&
        !std::filesystem::exists(absl::StrCat(prefix, ".idx"))) {
      MTF_ASSIGN_OR_RETURN(
          joined.emplace_back(),
          train::TokenFiles::OpenOne(path, train::TokenType::kUint16));
      continue;
    }
    MTF_ASSIGN_OR_RETURN(const auto set,
                         train::MegatronTokens::Open(prefix, vocabulary));
    MTF_ASSIGN_OR_RETURN(const std::vector<train::TokenArray> arrays,
                         set->Arrays());
    joined.insert(joined.end(), arrays.begin(), arrays.end());
  }
  return train::TokenFiles::Of(std::move(joined), vocabulary);
}

// A stream and one more token. Windows have the token that follows them, which
// nothing of pictures and masked texts predicts, so without one more the last
// picture would not be read.
class EndedStream final : public train::TokenStream {
 public:
  explicit EndedStream(std::shared_ptr<const train::TokenStream> stream)
      : stream_(std::move(stream)) {}

  int64_t size() const override { return stream_->size() + 1; }
  absl::Status Read(int64_t begin, absl::Span<int32_t> tokens) const override {
    if (begin + static_cast<int64_t>(tokens.size()) == size()) {
      tokens.back() = 0;
      tokens.remove_suffix(1);
    }
    return stream_->Read(begin, tokens);
  }
  std::string name() const override { return stream_->name(); }

 private:
  const std::shared_ptr<const train::TokenStream> stream_;
};

// Windows of `length` tokens that nothing has to follow.
absl::StatusOr<std::shared_ptr<const train::TokenWindows>> WholeWindows(
    std::shared_ptr<const train::TokenStream> stream, int64_t length,
    absl::string_view what) {
  if (stream->size() < length) {
    return absl::OutOfRangeError(absl::StrCat(
        stream->name(), " has ", Plural(stream->size(), "token"), ", but ",
        what, " needs ", length, DetailLine("help", "name a longer file")));
  }
  return train::TokenWindows::Create(
      std::make_shared<EndedStream>(std::move(stream)), length);
}

absl::StatusOr<std::shared_ptr<const train::BatchSource>> BatchesOfPictures(
    std::shared_ptr<const train::TokenStream> stream, const Dimension& batch,
    const Dimension& length, const train::EpochOrderOptions& order_options,
    bool once) {
  MTF_ASSIGN_OR_RETURN(
      const auto windows,
      WholeWindows(std::move(stream), length.size, "a picture"));
  MTF_ASSIGN_OR_RETURN(const auto order,
                       train::EpochOrder(windows, order_options));
  const auto rows = std::make_shared<train::LanguageModelRows>(
      train::LanguageModelOptions{.length = length, .weights = once});
  return train::RecordBatches::Create(order, rows,
                                      {.batch = batch, .once = once});
}

}  // namespace

absl::StatusOr<std::shared_ptr<const train::TokenStream>> OpenTokenData(
    const std::string& names, int64_t vocabulary,
    const TokenDataOptions& options) {
  std::vector<std::string> paths = {names};
  if (names != "bible") {
    MTF_ASSIGN_OR_RETURN(paths, train::DataFiles(names));
  }
  MTF_RETURN_IF_ERROR(CheckNotMixed(paths));
  if (IsTokens(paths[0])) return OpenTokenFiles(paths, vocabulary);
  if (options.tokenizer == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(paths[0]), " is a text, and there is no tokenizer",
        DetailLine("help", "give --tokenizer, or a .bin file of tokens")));
  }
  TokenAppender texts(vocabulary, options);
  for (const std::string& path : paths) {
    MTF_RETURN_IF_ERROR(texts.AddFile(path));
  }
  std::vector<int32_t> tokens = texts.Take();
  if (tokens.size() < 2) {
    return absl::OutOfRangeError(
        absl::StrCat("the text ", Quoted(names), " has ",
                     Plural(static_cast<int64_t>(tokens.size()), "token"),
                     ", but a window needs at least 2",
                     DetailLine("help", "give a longer text")));
  }
  return std::make_shared<TokenizedText>(std::move(tokens),
                                         absl::StrCat("text ", Quoted(names)));
}

absl::StatusOr<std::shared_ptr<const train::BatchSource>> HeldOutWindows(
    std::shared_ptr<const train::TokenStream> stream, const Dimension& batch,
    const Dimension& length) {
  MTF_ASSIGN_OR_RETURN(const auto windows, train::TokenWindows::Create(
                                               std::move(stream), length.size));
  MTF_ASSIGN_OR_RETURN(const auto order,
                       train::EpochOrder(windows, {.shuffle = false}));
  const auto rows = std::make_shared<train::LanguageModelRows>(
      train::LanguageModelOptions{.length = length, .weights = true});
  return train::RecordBatches::Create(order, rows,
                                      {.batch = batch, .once = true});
}

absl::StatusOr<std::shared_ptr<const train::BatchSource>> PicturesOfTokens(
    std::shared_ptr<const train::TokenStream> stream, const Dimension& batch,
    const Dimension& length, uint32_t seed) {
  return BatchesOfPictures(std::move(stream), batch, length, {.seed = seed},
                           /*once=*/false);
}

absl::StatusOr<std::shared_ptr<const train::BatchSource>>
HeldOutPicturesOfTokens(std::shared_ptr<const train::TokenStream> stream,
                        const Dimension& batch, const Dimension& length) {
  return BatchesOfPictures(std::move(stream), batch, length, {.shuffle = false},
                           /*once=*/true);
}

absl::StatusOr<std::shared_ptr<const train::BatchSource>> MaskedWindows(
    std::shared_ptr<const train::TokenStream> stream, const Dimension& batch,
    const Dimension& length, const MaskedWindowsOptions& options) {
  constexpr int32_t kNone = train::SpecialTokens::kNone;
  const train::Tokenizer* const tokenizer = options.tokenizer;
  const train::SpecialTokens special = tokenizer == nullptr
                                           ? train::SpecialTokens()
                                           : tokenizer->special_tokens();
  if (special.mask == kNone) {
    return absl::InvalidArgumentError(absl::StrCat(
        tokenizer == nullptr ? "there is no tokenizer"
                             : "the tokenizer has no mask",
        ", but a masked language model needs a token to hide others",
        DetailLine("help",
                   "give the folder or the vocab.txt of a BERT as "
                   "--tokenizer")));
  }
  MTF_ASSIGN_OR_RETURN(
      const auto rows,
      train::MaskedRows::Create({.length = length,
                                 .vocabulary = tokenizer->vocabulary_size(),
                                 .special = special,
                                 .pairs = options.pairs,
                                 .seed = options.seed}));
  const int64_t ends = (special.bos == kNone ? 0 : 1) +
                       (special.eos == kNone ? 0 : (options.pairs ? 2 : 1));
  MTF_ASSIGN_OR_RETURN(
      const auto windows,
      WholeWindows(std::move(stream), length.size - ends, "a row"));
  MTF_ASSIGN_OR_RETURN(auto order,
                       train::EpochOrder(windows, {.shuffle = !options.once,
                                                   .seed = options.seed}));
  if (options.pairs) {
    MTF_ASSIGN_OR_RETURN(order,
                         train::SentencePairs(std::move(order), options.seed));
  }
  return train::RecordBatches::Create(order, rows,
                                      {.batch = batch, .once = options.once});
}

}  // namespace mtf::tools
