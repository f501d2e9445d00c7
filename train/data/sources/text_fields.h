// SPDX-License-Identifier: Apache-2.0
//
// Internal: the texts of a line.
#ifndef TRAIN_DATA_SOURCES_TEXT_FIELDS_H_
#define TRAIN_DATA_SOURCES_TEXT_FIELDS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtf::train {

// The index of the first byte that is not part of valid UTF-8 (RFC 3629: no
// overlong forms, no surrogates, at most U+10FFFF), or npos.
size_t FirstInvalidUtf8(absl::string_view text);

// The values of the string fields called `names` of the JSON object `line`, in
// their order; the last one of a field that occurs twice. Other fields are
// checked and not kept, so the memory is that of the values. kDataLoss, without
// the name of the record.
absl::StatusOr<std::vector<std::string>> JsonTextFields(
    absl::string_view line, const std::vector<std::string>& names);

// The two columns of a line with a tab between. kDataLoss, without the name of
// the record, for another number of columns.
absl::StatusOr<std::vector<std::string>> TabbedPair(absl::string_view line);

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_TEXT_FIELDS_H_
