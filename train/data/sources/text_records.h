// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_TEXT_RECORDS_H_
#define TRAIN_DATA_SOURCES_TEXT_RECORDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/sources/record.h"
#include "train/tokenizers/tokenizer.h"

namespace mtf::train {

enum class TextFormat : uint8_t {
  kLines,      // every line is a text
  kFiles,      // every file is a text
  kJsonLines,  // every line is a JSON object with the text in a field
  kPairs,      // every line is an input, a tab and a target
};

struct TextRecordsOptions {
  TextFormat format = TextFormat::kLines;
  // Of JSON lines: the field of the text, and that of the target; without the
  // latter, records are not pairs.
  std::string field = "text";
  std::string target_field = "";
  // Put the special tokens of the tokenizer around inputs and targets.
  bool bos = false;
  bool eos = false;
  // Texts must be valid UTF-8. JSON always is.
  bool utf8 = true;
};

// Texts in files, read by memory map and tokenized when they are read. Record
// has `tokens`, and `targets` of pairs. Lines of white space are left out.
//
//   MTF_ASSIGN_OR_RETURN(const auto files, DataFiles("corpus/*.jsonl"));
//   MTF_ASSIGN_OR_RETURN(
//       auto texts, OpenTextRecords(files, tokenizer,
//                                   {.format = TextFormat::kJsonLines}));
//
// Errors are those of MappedFile::Open, and kInvalidArgument if the tokenizer
// has no token that the options ask for. Bad records: text that is not UTF-8 or
// that the tokenizer rejects, a line that is not a JSON object or lacks the
// field, or not two columns, and texts of over 64 MiB.
absl::StatusOr<std::shared_ptr<const RecordSource>> OpenTextRecords(
    const std::vector<std::string>& paths,
    std::shared_ptr<const Tokenizer> tokenizer,
    const TextRecordsOptions& options = {});

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_TEXT_RECORDS_H_
