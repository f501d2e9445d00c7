// SPDX-License-Identifier: Apache-2.0
#include "train/data/batch_source.h"

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"

namespace mtf::train {

absl::Status BatchSource::CheckRows(int64_t first, int64_t last) const {
  if (first >= 0 && first <= last && last <= batch_size()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "rows ", first, " to ", last, " of a batch of ", batch_size(),
      DetailLine("help", "rows count from 0; the last is not included")));
}

}  // namespace mtf::train
