// SPDX-License-Identifier: Apache-2.0
#include "train/tokenizers/bpe_model.h"

#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/tokenizers/unicode_text.h"

namespace mtf::train {
namespace {

constexpr int32_t kMerged = -1;
constexpr absl::string_view kMetaspace = "\xE2\x96\x81";

struct ByteCharacters {
  std::array<char32_t, 256> character;
  std::array<int, 324> byte;
};

// Printable bytes stand for themselves, the others for U+0100 and above in the
// order of their values.
ByteCharacters MakeByteCharacters() {
  ByteCharacters table;
  table.byte.fill(-1);
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    table.character[byte] = printable ? static_cast<char32_t>(byte) : next++;
    table.byte[table.character[byte]] = byte;
  }
  return table;
}

const ByteCharacters& Table() {
  static const ByteCharacters table = MakeByteCharacters();
  return table;
}

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 |
         static_cast<uint32_t>(right);
}

// Whether `a` comes after `b`: makes a heap whose front is the least.
bool IsAfter(const WordScratch::Candidate& a, const WordScratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

absl::Status MergeError(size_t number, const std::string& left,
                        const std::string& right, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(
      "merge ", number, " of ", Quoted(left), " and ", Quoted(right), " ",
      problem,
      DetailLine("help", "use vocabulary and merges of the same model")));
}

// A merge is "left right" in older files and ["left", "right"] in newer ones.
absl::StatusOr<BpeModel::Merges> ParseMerges(const JsonValue& json) {
  MTF_ASSIGN_OR_RETURN(const auto elements, json.Elements());
  BpeModel::Merges merges;
  merges.reserve(elements.size());
  for (const JsonValue& element : elements) {
    std::string left, right;
    if (element.IsArray()) {
      MTF_ASSIGN_OR_RETURN(const auto pair, element.Elements());
      if (pair.size() != 2) {
        return element.Error(
            absl::StrCat("has ", pair.size(), " parts; a merge has 2"),
            "write [\"left\", \"right\"]");
      }
      MTF_ASSIGN_OR_RETURN(left, pair[0].String());
      MTF_ASSIGN_OR_RETURN(right, pair[1].String());
    } else {
      MTF_ASSIGN_OR_RETURN(const std::string text, element.String());
      const size_t blank = text.find(' ');
      if (blank == std::string::npos ||
          text.find(' ', blank + 1) != std::string::npos) {
        return element.Error("is not a merge: it must have one blank",
                             "write \"left right\"");
      }
      left = text.substr(0, blank);
      right = text.substr(blank + 1);
    }
    merges.emplace_back(std::move(left), std::move(right));
  }
  return merges;
}

// Whether "\u2581" follows another character somewhere in `token`.
bool ReachesOverMetaspace(absl::string_view token) {
  size_t at = 0;
  while (absl::StartsWith(token.substr(at), kMetaspace)) {
    at += kMetaspace.size();
  }
  return absl::StrContains(token.substr(at), kMetaspace);
}

}  // namespace

char32_t CharacterOfByte(uint8_t byte) { return Table().character[byte]; }

int ByteOfCharacter(char32_t character) {
  return character < Table().byte.size() ? Table().byte[character] : -1;
}

bool BytesOfToken(absl::string_view token, std::string& bytes) {
  bytes.clear();
  for (size_t at = 0; at < token.size();) {
    const CodePoint point = DecodeUtf8(token, at);
    const int byte = ByteOfCharacter(point.code);
    if (byte < 0) return false;
    bytes.push_back(static_cast<char>(byte));
    at += point.bytes;
  }
  return true;
}

absl::StatusOr<BpeModel> BpeModel::Parse(const JsonValue& model,
                                         bool byte_level) {
  MTF_RETURN_IF_ERROR(model.CheckMembers(
      {"type", "dropout", "unk_token", "continuing_subword_prefix",
       "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges",
       "vocab", "merges"}));
  if (model["dropout"].exists()) {
    return model["dropout"].Unsupported(
        "asks for random merges, which are not supported",
        "set it to null: every text then has one encoding");
  }
  Options options;
  options.byte_level = byte_level;
  MTF_ASSIGN_OR_RETURN(options.byte_fallback,
                       model.Bool("byte_fallback", false));
  MTF_ASSIGN_OR_RETURN(options.fuse_unk, model.Bool("fuse_unk", false));
  MTF_ASSIGN_OR_RETURN(options.ignore_merges,
                       model.Bool("ignore_merges", false));
  MTF_ASSIGN_OR_RETURN(options.unk_token, model.String("unk_token", ""));
  MTF_ASSIGN_OR_RETURN(options.continuing_subword_prefix,
                       model.String("continuing_subword_prefix", ""));
  MTF_ASSIGN_OR_RETURN(options.end_of_word_suffix,
                       model.String("end_of_word_suffix", ""));
  MTF_ASSIGN_OR_RETURN(const JsonValue vocab, model.Get("vocab"));
  MTF_ASSIGN_OR_RETURN(Vocabulary vocabulary, ParseVocabulary(vocab));
  MTF_ASSIGN_OR_RETURN(const JsonValue list, model.Get("merges"));
  MTF_ASSIGN_OR_RETURN(const Merges merges, ParseMerges(list));
  absl::StatusOr<BpeModel> result =
      Create(std::move(vocabulary), merges, std::move(options));
  if (result.ok()) return result;
  return absl::Status(
      result.status().code(),
      model.Error("is wrong: ", result.status().message()).message());
}

absl::StatusOr<BpeModel> BpeModel::Create(Vocabulary vocabulary,
                                          const Merges& merges,
                                          Options options) {
  BpeModel model(std::move(vocabulary), std::move(options));
  MTF_RETURN_IF_ERROR(model.IndexSymbols());
  MTF_RETURN_IF_ERROR(model.AddMerges(merges));
  return model;
}

// Finds the ids of single bytes, of the unknown token and, for ignore_merges,
// of complete words.
absl::Status BpeModel::IndexSymbols() {
  const bool affixes = !options_.continuing_subword_prefix.empty() ||
                       !options_.end_of_word_suffix.empty();
  if (options_.byte_level && (affixes || options_.byte_fallback)) {
    return absl::UnimplementedError(absl::StrCat(
        "a model of bytes (ByteLevel) with byte_fallback, "
        "continuing_subword_prefix or end_of_word_suffix is not supported",
        DetailLine("help", "set them to false and null")));
  }
  if (!options_.unk_token.empty()) {
    unk_ = vocabulary_.Find(options_.unk_token);
    if (unk_ < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the unk_token ", Quoted(options_.unk_token),
                       " is not in the vocabulary",
                       DetailLine("help", "add it to the vocabulary")));
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    std::string name;
    if (options_.byte_level) {
      AppendUtf8(CharacterOfByte(byte), name);
    } else {
      name = absl::StrFormat("<0x%02X>", byte);
    }
    byte_ids_[byte] = vocabulary_.Find(name);
  }
  if (!options_.ignore_merges) return absl::OkStatus();
  std::string bytes;
  for (const auto& [token, id] : vocabulary_.ids) {
    if (!options_.byte_level) {
      words_[token] = id;
    } else if (BytesOfToken(token, bytes)) {
      words_[bytes] = id;
    }
  }
  return absl::OkStatus();
}

absl::Status BpeModel::AddMerges(const Merges& merges) {
  if (merges.size() > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError("there are more than 2^31 merges");
  }
  const std::string& prefix = options_.continuing_subword_prefix;
  splits_at_metaspace_ =
      !options_.byte_level && !options_.ignore_merges && prefix.empty() &&
      options_.end_of_word_suffix.empty() && vocabulary_.Find(kMetaspace) >= 0;
  merges_.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const auto& [left, right] = merges[i];
    const int32_t left_id = vocabulary_.Find(left);
    const int32_t right_id = vocabulary_.Find(right);
    if (left_id < 0 || right_id < 0) {
      return MergeError(
          i, left, right,
          absl::StrCat("names ", Quoted(left_id < 0 ? left : right),
                       ", which is not in the vocabulary"));
    }
    if (right.size() < prefix.size()) {
      return MergeError(i, left, right, "lacks continuing_subword_prefix");
    }
    const std::string merged = absl::StrCat(left, right.substr(prefix.size()));
    const int32_t id = vocabulary_.Find(merged);
    if (id < 0) {
      return MergeError(i, left, right,
                        absl::StrCat("makes ", Quoted(merged),
                                     ", which is not in the vocabulary"));
    }
    if (ReachesOverMetaspace(merged)) splits_at_metaspace_ = false;
    // The last of equal merges counts, as in the reference implementation.
    merges_[PairKey(left_id, right_id)] = {static_cast<uint32_t>(i), id};
  }
  return absl::OkStatus();
}

const BpeModel::Merge* BpeModel::FindMerge(int32_t left, int32_t right) const {
  const auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

absl::Status BpeModel::AddByteSymbols(absl::string_view word,
                                      WordScratch& scratch) const {
  for (size_t i = 0; i < word.size(); ++i) {
    const auto byte = static_cast<uint8_t>(word[i]);
    int32_t id = byte_ids_[byte];
    if (id < 0) {
      if (unk_ < 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the vocabulary has no token for the byte ", byte, " of ",
            Quoted(word),
            DetailLine("help", "use a vocabulary with all 256 bytes")));
      }
      const bool fused = options_.fuse_unk && !scratch.symbols.empty() &&
                         byte_ids_[static_cast<uint8_t>(word[i - 1])] < 0;
      if (fused) continue;
      id = unk_;
    }
    scratch.symbols.push_back({id, 0, 0});
  }
  return absl::OkStatus();
}

// Appends a symbol for each byte, unless one has no token.
bool BpeModel::AddFallbackSymbols(absl::string_view symbol,
                                  WordScratch& scratch) const {
  const auto id = [&](char byte) {
    return byte_ids_[static_cast<uint8_t>(byte)];
  };
  if (!options_.byte_fallback ||
      !std::all_of(symbol.begin(), symbol.end(),
                   [&](char byte) { return id(byte) >= 0; })) {
    return false;
  }
  for (const char byte : symbol) scratch.symbols.push_back({id(byte), 0, 0});
  return true;
}

absl::Status BpeModel::AddCharacterSymbols(absl::string_view word,
                                           WordScratch& scratch) const {
  bool pending_unk = false;  // written when it is known where it ends
  for (size_t at = 0; at < word.size();) {
    const size_t bytes = DecodeUtf8(word, at).bytes;
    absl::string_view symbol = word.substr(at, bytes);
    const bool last = at + bytes == word.size();
    if ((at > 0 && !options_.continuing_subword_prefix.empty()) ||
        (last && !options_.end_of_word_suffix.empty())) {
      scratch.text =
          absl::StrCat(at > 0 ? options_.continuing_subword_prefix : "", symbol,
                       last ? options_.end_of_word_suffix : "");
      symbol = scratch.text;
    }
    at += bytes;
    const int32_t id = vocabulary_.Find(symbol);
    if (id >= 0) {
      if (pending_unk) scratch.symbols.push_back({unk_, 0, 0});
      pending_unk = false;
      scratch.symbols.push_back({id, 0, 0});
    } else if (AddFallbackSymbols(symbol, scratch)) {
      continue;
    } else if (unk_ < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the vocabulary has neither ", Quoted(symbol),
          " nor a token for what is unknown",
          DetailLine("help", "name an unk_token in the tokenizer file")));
    } else {
      if (pending_unk && !options_.fuse_unk) {
        scratch.symbols.push_back({unk_, 0, 0});
      }
      pending_unk = true;
    }
  }
  if (pending_unk) scratch.symbols.push_back({unk_, 0, 0});
  return absl::OkStatus();
}

// Enqueues the merge of a symbol with the next one, if there is one.
void BpeModel::PushCandidate(int32_t left, WordScratch& scratch) const {
  const WordScratch::Symbol& symbol = scratch.symbols[left];
  if (symbol.next < 0) return;
  const Merge* merge = FindMerge(symbol.id, scratch.symbols[symbol.next].id);
  if (merge == nullptr) return;
  scratch.queue.push_back({merge->rank, left, merge->id});
}

// Pops merges in the order of rank and position. A merge makes those of its
// neighbours stale; they are recognized when they are popped, because the pair
// at their position has become another.
void BpeModel::MergeSymbols(WordScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& queue = scratch.queue;
  const auto count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[i].previous = i - 1;
    symbols[i].next = i + 1 < count ? i + 1 : -1;
  }
  queue.clear();
  for (int32_t i = 0; i < count; ++i) PushCandidate(i, scratch);
  std::make_heap(queue.begin(), queue.end(), IsAfter);
  const auto push = [&](int32_t left) {
    const size_t before = queue.size();
    PushCandidate(left, scratch);
    if (queue.size() > before) {
      std::push_heap(queue.begin(), queue.end(), IsAfter);
    }
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), IsAfter);
    const WordScratch::Candidate top = queue.back();
    queue.pop_back();
    WordScratch::Symbol& left = symbols[top.position];
    if (left.id == kMerged || left.next < 0) continue;
    WordScratch::Symbol& right = symbols[left.next];
    const Merge* merge = FindMerge(left.id, right.id);
    if (merge == nullptr || merge->id != top.id) continue;
    left.id = top.id;
    left.next = right.next;
    right.id = kMerged;
    if (left.next >= 0) symbols[left.next].previous = top.position;
    if (left.previous >= 0) push(left.previous);
    push(top.position);
  }
}

absl::Status BpeModel::Encode(absl::string_view word, WordScratch& scratch,
                              std::vector<int32_t>& ids) const {
  if (options_.ignore_merges) {
    const auto found = words_.find(word);
    if (found != words_.end()) {
      ids.push_back(found->second);
      return absl::OkStatus();
    }
  }
  if (word.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a word of ", word.size(), " bytes is too long",
                     DetailLine("help", "encode the text in shorter parts")));
  }
  scratch.symbols.clear();
  MTF_RETURN_IF_ERROR(options_.byte_level ? AddByteSymbols(word, scratch)
                                          : AddCharacterSymbols(word, scratch));
  MergeSymbols(scratch);
  for (const WordScratch::Symbol& symbol : scratch.symbols) {
    if (symbol.id != kMerged) ids.push_back(symbol.id);
  }
  return absl::OkStatus();
}

}  // namespace mtf::train
