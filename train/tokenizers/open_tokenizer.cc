// SPDX-License-Identifier: Apache-2.0
#include "train/tokenizers/open_tokenizer.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/tokenizers/byte_tokenizer.h"
#include "train/tokenizers/json_value.h"
#include "train/tokenizers/pipeline_tokenizer.h"
#include "train/tokenizers/sentencepiece_tokenizer.h"

namespace mtf::train {
namespace {

using Opened = absl::StatusOr<std::unique_ptr<Tokenizer>>;

constexpr absl::string_view kSentencePieceNames[] = {
    "spiece.model", "tokenizer.model", "sentencepiece.bpe.model"};

bool Exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

bool IsFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// `path` with another last component.
std::string Sibling(const std::string& path, absl::string_view name) {
  const size_t slash = path.rfind('/');
  return absl::StrCat(
      slash == std::string::npos ? "" : path.substr(0, slash + 1), name);
}

template <class Kind>
Opened AsTokenizer(absl::StatusOr<std::unique_ptr<Kind>> opened) {
  if (!opened.ok()) return std::move(opened).status();
  return std::unique_ptr<Tokenizer>(*std::move(opened));
}

Opened OpenBpeFiles(const std::string& vocab, const std::string& merges) {
  for (const std::string& path : {vocab, merges}) {
    if (Exists(path)) continue;
    return absl::NotFoundError(
        absl::StrCat("there is no ", Quoted(path), " beside ",
                     Quoted(path == vocab ? merges : vocab),
                     DetailLine("help",
                                "byte pair encoding needs vocab.json and "
                                "merges.txt in one folder")));
  }
  const std::string added = Sibling(vocab, "added_tokens.json");
  if (Exists(added)) {
    return absl::UnimplementedError(absl::StrCat(
        "cannot read the added tokens of ", Quoted(added),
        DetailLine("help",
                   "use the tokenizer.json of the model, which has them too")));
  }
  return AsTokenizer(PipelineTokenizer::ReadBpeFiles(vocab, merges));
}

Opened OpenFile(const std::string& path) {
  if (absl::EndsWith(path, "vocab.json")) {
    return OpenBpeFiles(path, Sibling(path, "merges.txt"));
  }
  if (absl::EndsWith(path, "merges.txt")) {
    return OpenBpeFiles(Sibling(path, "vocab.json"), path);
  }
  if (absl::EndsWith(path, ".json")) {
    return AsTokenizer(PipelineTokenizer::ReadJson(path));
  }
  if (absl::EndsWith(path, ".model")) {
    return AsTokenizer(SentencePieceTokenizer::ReadFile(path));
  }
  if (absl::EndsWith(path, ".txt")) {
    return AsTokenizer(PipelineTokenizer::ReadWordPieceFile(path));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the name of the tokenizer file ", Quoted(path),
                   " does not say what it "
                   "is",
                   DetailLine("help",
                              "its end must be .json (tokenizer.json), .model "
                              "(SentencePiece) or .txt (vocab.txt of BERT)")));
}

Opened OpenFolder(const std::string& folder) {
  const auto file = [&](absl::string_view name) {
    return absl::StrCat(folder, absl::EndsWith(folder, "/") ? "" : "/", name);
  };
  std::string sentencepiece;
  for (const absl::string_view name : kSentencePieceNames) {
    if (sentencepiece.empty() && Exists(file(name))) sentencepiece = file(name);
  }
  const std::string json = file("tokenizer.json");
  if (Exists(json)) {
    if (sentencepiece.empty()) return OpenFile(json);
    MTF_ASSIGN_OR_RETURN(const JsonValue value, JsonValue::ReadFile(json));
    MTF_ASSIGN_OR_RETURN(const std::string type,
                         value["model"].String("type", ""));
    return OpenFile(type == "Unigram" ? sentencepiece : json);
  }
  if (!sentencepiece.empty()) return OpenFile(sentencepiece);
  for (const absl::string_view name : {"vocab.json", "vocab.txt"}) {
    if (Exists(file(name))) return OpenFile(file(name));
  }
  return absl::NotFoundError(absl::StrCat(
      "the folder ", Quoted(folder), " has no tokenizer",
      DetailLine("help",
                 "it needs tokenizer.json, spiece.model, tokenizer.model, "
                 "vocab.json with merges.txt, or vocab.txt")));
}

}  // namespace

Opened OpenTokenizer(const std::string& path) {
  if (path == "bytes") return std::make_unique<ByteTokenizer>();
  if (IsFolder(path)) return OpenFolder(path);
  if (Exists(path)) return OpenFile(path);
  return absl::NotFoundError(absl::StrCat(
      "there is no tokenizer ", Quoted(path),
      DetailLine("help",
                 "name a folder with a tokenizer.json, a file, or \"bytes\" "
                 "for one token per byte")));
}

}  // namespace mtf::train
