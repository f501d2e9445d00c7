// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_SLICED_ROWS_H_
#define MTF_SLICED_ROWS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "mtf/shape.h"

namespace mtf {

// The rows that Emitter::DynamicSlice selects and UpdateSlice replaces in a
// value along `dimension`. In `rows`, the shape of the selected rows, they have
// the dimension called `dimension`, or one that `value` lacks, or none. Returns
// the index of that dimension in `rows`, or -1.
inline int FindRowsDimension(const Shape& value, const Shape& rows,
                             absl::string_view dimension) {
  for (int i = 0; i < rows.rank(); ++i) {
    if (rows[i].name == dimension || !value.Contains(rows[i].name)) return i;
  }
  return -1;
}

// The number of rows.
inline int64_t CountRows(const Shape& value, const Shape& rows,
                         absl::string_view dimension) {
  const int i = FindRowsDimension(value, rows, dimension);
  return i < 0 ? 1 : rows[i].size;
}

}  // namespace mtf

#endif  // MTF_SLICED_ROWS_H_
