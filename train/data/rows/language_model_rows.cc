// SPDX-License-Identifier: Apache-2.0
#include "train/data/rows/language_model_rows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"

namespace mtf::train {

std::vector<RowInfo> LanguageModelRows::rows() const {
  const Shape shape = {options_.length};
  std::vector<RowInfo> rows = {{"tokens", shape}, {"targets", shape}};
  if (options_.weights) rows.push_back({"weights", shape, kFloat32});
  if (options_.segments) {
    rows.push_back({"segments", shape});
    rows.push_back({"positions", shape});
  }
  return rows;
}

absl::Status LanguageModelRows::Write(const Record& record, int64_t,
                                      int64_t row,
                                      absl::Span<HostTensor> feeds) const {
  const bool packed = !record.segments.empty();
  if (packed && (record.segments.size() != record.tokens.size() ||
                 record.positions.size() != record.tokens.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a packed record has ", Plural(record.tokens.size(), "token"), ", ",
        Plural(record.segments.size(), "segment number"), " and ",
        Plural(record.positions.size(), "position"),
        DetailLine("help", "give each token one of both")));
  }
  const int64_t length = options_.length.size;
  const auto given = static_cast<int64_t>(record.tokens.size());
  const int64_t count = std::min(length, packed || record.missing
                                             ? given
                                             : std::max<int64_t>(given - 1, 0));
  if (!options_.weights && (packed || record.missing || count < length)) {
    return absl::InvalidArgumentError(absl::StrCat(
        packed           ? "packed texts"
        : record.missing ? "missing records"
                         : absl::StrCat("a record of ", Plural(given, "token"),
                                        " in a row of length ", length),
        packed ? " need weights" : " needs weights",
        DetailLine("help",
                   "set .weights of LanguageModelRows, and give them "
                   "to the loss")));
  }
  const auto tokens = RowOf<int32_t>(feeds[0], row);
  const auto targets = RowOf<int32_t>(feeds[1], row);
  absl::Span<float> weights;
  if (options_.weights) weights = RowOf<float>(feeds[2], row);
  std::fill(tokens.begin(), tokens.end(), options_.pad);
  std::fill(targets.begin(), targets.end(), options_.pad);
  for (int64_t i = 0; i < count; ++i) {
    tokens[i] = record.tokens[i];
    const bool has_target =
        i + 1 < given &&
        (!packed || record.segments[i + 1] == record.segments[i]);
    if (has_target) targets[i] = record.tokens[i + 1];
    if (options_.weights) weights[i] = has_target ? 1.0f : 0.0f;
  }
  if (options_.segments) {
    const auto segments = RowOf<int32_t>(feeds[feeds.size() - 2], row);
    const auto positions = RowOf<int32_t>(feeds[feeds.size() - 1], row);
    for (int64_t i = 0; i < count; ++i) {
      segments[i] = packed ? record.segments[i] : 1;
      positions[i] = packed ? record.positions[i] : static_cast<int32_t>(i);
    }
  }
  return absl::OkStatus();
}

}  // namespace mtf::train
