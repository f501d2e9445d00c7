// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/line_index.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace mtf::train {
namespace {

// The line of `bytes` that begins at `begin`, without its line break.
absl::string_view LineAt(absl::string_view bytes, size_t begin) {
  const absl::string_view rest = bytes.substr(begin);
  const void* end = std::memchr(rest.data(), '\n', rest.size());
  if (end == nullptr) return rest;
  return rest.substr(0, static_cast<const char*>(end) - rest.data());
}

bool IsBlankLine(absl::string_view line) {
  return std::all_of(line.begin(), line.end(), [](char character) {
    return absl::ascii_isspace(static_cast<unsigned char>(character));
  });
}

}  // namespace

LineIndex::LineIndex(std::vector<std::shared_ptr<const MappedFile>> files) {
  for (std::shared_ptr<const MappedFile>& file : files) {
    IndexedFile indexed = {std::move(file), size_, {}};
    const absl::string_view bytes = indexed.file->bytes();
    LinePosition position;
    // Some editors begin a file with a byte order mark.
    if (absl::StartsWith(bytes, "\xEF\xBB\xBF")) position.byte = 3;
    while (position.byte < bytes.size()) {
      const absl::string_view line = LineAt(bytes, position.byte);
      if (!IsBlankLine(line)) {
        if ((size_ - indexed.first_index) % kStride == 0) {
          indexed.entries.push_back(position);
        }
        ++size_;
      }
      position.byte += line.size() + 1;
      ++position.line;
    }
    files_.push_back(std::move(indexed));
  }
}

LineIndex::FoundLine LineIndex::Find(int64_t index) const {
  // The last file that begins at or before the line. Files without lines begin
  // where the next one does, so they are not the last.
  const auto after =
      std::upper_bound(files_.begin(), files_.end(), index,
                       [](int64_t value, const IndexedFile& file) {
                         return value < file.first_index;
                       });
  FoundLine found;
  found.file = &*(after - 1);
  const int64_t in_file = index - found.file->first_index;
  found.position = found.file->entries[in_file / kStride];
  const absl::string_view bytes = found.file->file->bytes();
  for (int64_t left = in_file % kStride;;) {
    found.text = LineAt(bytes, found.position.byte);
    if (!IsBlankLine(found.text) && left-- == 0) break;
    found.position.byte += found.text.size() + 1;
    ++found.position.line;
  }
  found.text = absl::StripSuffix(found.text, "\r");
  return found;
}

absl::string_view LineIndex::Line(int64_t index) const {
  return Find(index).text;
}

std::string LineIndex::NameOf(int64_t index) const {
  const FoundLine found = Find(index);
  return absl::StrCat(found.file->file->path(), ":", found.position.line);
}

}  // namespace mtf::train
