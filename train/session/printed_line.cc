// SPDX-License-Identifier: Apache-2.0
#include "train/session/printed_line.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"

namespace mtf::train {

std::string PrintedLine(const Observation& print, const HostTensor& first) {
  const Tensor& x = print.of;
  std::string line = print.text.empty() ? "" : absl::StrCat(print.text, ": ");
  absl::StrAppend(&line, x.name(), " ", DescribeTensor(x.dtype(), x.shape()),
                  " =");
  const int64_t size = x.shape().num_elements();
  const int64_t count = std::min(print.count, size);
  const bool integer = !IsFloat(x.dtype());
  const std::vector<double> elements = first.ToDoubles();
  for (int64_t i = 0; i < count; ++i) {
    // Integers have all digits.
    if (integer) {
      absl::StrAppend(&line, " ", static_cast<int64_t>(elements[i]));
    } else {
      absl::StrAppend(&line, " ", elements[i]);
    }
  }
  return count < size ? absl::StrCat(line, " ...") : line;
}

}  // namespace mtf::train
