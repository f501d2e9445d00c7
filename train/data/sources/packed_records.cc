// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/packed_records.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf::train {

PackedRecords::PackedRecords(std::shared_ptr<const RecordSource> texts,
                             PackingOptions options)
    : texts_(std::move(texts)), options_(options), row_begins_{0} {}

absl::StatusOr<std::shared_ptr<const PackedRecords>> PackedRecords::Create(
    std::shared_ptr<const RecordSource> texts, PackingOptions options) {
  if (options.length < 2 ||
      options.length > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "texts are packed into rows of ", options.length, " tokens",
        DetailLine("help", "give PackingOptions a length of at least 2")));
  }
  if (options.open_rows < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("texts are packed into ", options.open_rows, " open rows",
                     DetailLine("help", "give PackingOptions at least 1")));
  }
  std::shared_ptr<PackedRecords> packed(
      new PackedRecords(std::move(texts), options));
  MTF_RETURN_IF_ERROR(packed->PackAll());
  return packed;
}

absl::Status PackedRecords::PackAll() {
  std::vector<OpenRow> open;
  for (int64_t i = 0; i < texts_->size(); ++i) {
    const absl::StatusOr<Record> text = texts_->Read(i);
    if (!text.ok()) {
      if (!absl::IsDataLoss(text.status()) || !options_.skip_bad_records) {
        return text.status();
      }
      bad_.Add(i, text.status());
      continue;
    }
    PackText(i, static_cast<int64_t>(text->tokens.size()), open);
  }
  for (OpenRow& row : open) Close(row);
  pieces_.shrink_to_fit();
  return absl::OkStatus();
}

void PackedRecords::PackText(int64_t text, int64_t size,
                             std::vector<OpenRow>& open) {
  // Positions in a text are stored in 32 bits.
  size = std::min<int64_t>(size, std::numeric_limits<int32_t>::max());
  for (int64_t begin = 0; begin < size; begin += options_.length) {
    const int64_t count = std::min(size - begin, options_.length);
    // A single token has no target.
    if (count < 2) break;
    OpenRow* best = nullptr;
    OpenRow* fullest = nullptr;
    for (OpenRow& row : open) {
      if (row.free >= count && (!best || row.free < best->free)) best = &row;
      if (!fullest || row.free < fullest->free) fullest = &row;
    }
    if (best == nullptr) {
      if (static_cast<int>(open.size()) < options_.open_rows) {
        best = &open.emplace_back();
      } else {
        Close(*fullest);
        best = fullest;
      }
      best->free = options_.length;
    }
    best->pieces.push_back(
        {text, static_cast<int32_t>(begin), static_cast<int32_t>(count)});
    best->free -= count;
    if (!options_.split_long) break;
  }
}

void PackedRecords::Close(OpenRow& row) {
  if (row.pieces.empty()) return;
  pieces_.insert(pieces_.end(), row.pieces.begin(), row.pieces.end());
  row_begins_.push_back(static_cast<int64_t>(pieces_.size()));
  row.pieces.clear();
}

absl::StatusOr<Record> PackedRecords::Read(int64_t index) const {
  Record row;
  for (int64_t i = row_begins_[index]; i < row_begins_[index + 1]; ++i) {
    const Piece& piece = pieces_[i];
    MTF_ASSIGN_OR_RETURN(const Record text, texts_->Read(piece.text));
    if (static_cast<int64_t>(text.tokens.size()) < piece.begin + piece.size) {
      return absl::DataLossError(absl::StrCat(
          texts_->NameOf(piece.text), " has ",
          Plural(text.tokens.size(), "token"), ", but had more before",
          DetailLine("help", "do not change files while they are read")));
    }
    const auto begin = text.tokens.begin() + piece.begin;
    row.tokens.insert(row.tokens.end(), begin, begin + piece.size);
    const auto segment = static_cast<int32_t>(i - row_begins_[index] + 1);
    row.segments.insert(row.segments.end(), piece.size, segment);
    for (int32_t j = 0; j < piece.size; ++j) row.positions.push_back(j);
  }
  return row;
}

std::string PackedRecords::NameOf(int64_t index) const {
  const int64_t first = row_begins_[index];
  const int64_t more = row_begins_[index + 1] - first - 1;
  return absl::StrCat(
      texts_->NameOf(pieces_[first].text),
      more == 0 ? "" : absl::StrCat(" packed with ", more, " more"));
}

}  // namespace mtf::train
