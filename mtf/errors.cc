// SPDX-License-Identifier: Apache-2.0
#include "mtf/errors.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtf {

std::string DescribeTensor(DType dtype, const Shape& shape) {
  return absl::StrCat(DTypeName(dtype), "[", shape.ToString(), "]");
}

std::string DescribeInputs(absl::Span<const Tensor> inputs) {
  size_t width = 0;
  for (const Tensor& input : inputs) {
    width = std::max(width, input.name().size());
  }
  std::string text;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = inputs[i].name();
    absl::StrAppend(&text, i == 0 ? "\n  inputs   " : "\n           ", name,
                    std::string(width - name.size() + 1, ' '),
                    inputs[i].valid()
                        ? DescribeTensor(inputs[i].dtype(), inputs[i].shape())
                        : "an empty Tensor");
  }
  return text;
}

std::string DescribePosition(const Shape& shape, int64_t position) {
  std::vector<std::string> coordinates(shape.rank());
  for (int i = shape.rank() - 1; i >= 0; --i) {
    const int64_t size = std::max<int64_t>(shape[i].size, 1);
    coordinates[i] = absl::StrCat(shape[i].name, "=", position % size);
    position /= size;
  }
  return absl::StrCat("[", absl::StrJoin(coordinates, ", "), "]");
}

absl::Status IndexOutOfRange(int64_t index, int64_t position,
                             const Shape& indices_shape,
                             absl::string_view indices_name,
                             const Dimension& dimension, absl::string_view kind,
                             absl::string_view operation_name,
                             const CallSite& site) {
  return absl::OutOfRangeError(absl::StrCat(
      "index ", index, " at ", DescribePosition(indices_shape, position),
      " of \"", indices_name, "\" is outside dimension \"", dimension.name,
      "\" of size ", dimension.size, " (", kind, " \"", operation_name, "\", ",
      site.ToString(), ")"));
}

absl::Status RowsOutOfRange(int64_t index, int64_t position,
                            const Shape& index_shape,
                            absl::string_view index_name, int64_t rows,
                            const Dimension& dimension,
                            absl::string_view operation_name,
                            const CallSite& site) {
  return absl::OutOfRangeError(absl::StrCat(
      "index ", index, " at ", DescribePosition(index_shape, position),
      " of \"", index_name, "\" is outside [0, ", dimension.size - rows, "]: ",
      rows, rows == 1 ? " row" : " rows", " of dimension \"", dimension.name,
      "\" of size ", dimension.size, rows == 1 ? " begins" : " begin",
      " there (\"", operation_name, "\", ", site.ToString(), ")"));
}

}  // namespace mtf
