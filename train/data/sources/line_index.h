// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_LINE_INDEX_H_
#define TRAIN_DATA_SOURCES_LINE_INDEX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "train/data/sources/mapped_file.h"

namespace mtf::train {

// The lines of mapped files that have more than white space, by number. Opening
// reads the files once to count lines; the index takes half a byte per line.
class LineIndex {
 public:
  explicit LineIndex(std::vector<std::shared_ptr<const MappedFile>> files);

  int64_t size() const { return size_; }

  // Line `index` without its end ("\n" or "\r\n"). The text is valid as long as
  // this object.
  absl::string_view Line(int64_t index) const;

  // "a.txt:17", by the number of the line in its file, from 1.
  std::string NameOf(int64_t index) const;

 private:
  static constexpr int64_t kStride = 32;
  // Where a line begins, and its number in the file, from 1.
  struct LinePosition {
    size_t byte = 0;
    int64_t line = 1;
  };
  struct IndexedFile {
    std::shared_ptr<const MappedFile> file;
    int64_t first_index = 0;            // of the first line of the file
    std::vector<LinePosition> entries;  // of every kStride-th line
  };
  // A line that is not blank.
  struct FoundLine {
    const IndexedFile* file = nullptr;
    LinePosition position;
    absl::string_view text;
  };
  FoundLine Find(int64_t index) const;

  std::vector<IndexedFile> files_;
  int64_t size_ = 0;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_LINE_INDEX_H_
