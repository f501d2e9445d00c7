// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/token_windows.h"

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf::train {

absl::Status CheckWindow(const TokenStream& stream, int64_t length) {
  if (length >= 1 && length < stream.size()) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(
      stream.name(), " has ", Plural(stream.size(), "token"),
      ", but a window of length ", length, " needs ", length + 1,
      DetailLine("help", length < 1 ? "use a length of at least 1"
                                    : "name a longer file, or use a smaller "
                                      "length")));
}

absl::StatusOr<std::shared_ptr<const TokenWindows>> TokenWindows::Create(
    std::shared_ptr<const TokenStream> stream, int64_t length) {
  MTF_RETURN_IF_ERROR(CheckWindow(*stream, length));
  return std::shared_ptr<const TokenWindows>(
      new TokenWindows(std::move(stream), length));
}

absl::StatusOr<Record> TokenWindows::Read(int64_t index) const {
  Record record;
  record.tokens.resize(length_ + 1);
  MTF_RETURN_IF_ERROR(
      stream_->Read(index * length_, absl::MakeSpan(record.tokens)));
  return record;
}

std::string TokenWindows::NameOf(int64_t index) const {
  return absl::StrCat(stream_->name(), ": tokens from ", index * length_);
}

}  // namespace mtf::train
