// SPDX-License-Identifier: Apache-2.0
#include "train/data/rows/pair_rows.h"

#include <algorithm>

namespace mtf::train {

std::vector<RowInfo> PairRows::rows() const {
  return {{"inputs", {options_.inputs_length}},
          {"decoder_inputs", {options_.targets_length}},
          {"targets", {options_.targets_length}},
          {"weights", {options_.targets_length}, kFloat32}};
}

absl::Status PairRows::Write(const Record& record, int64_t, int64_t row,
                             absl::Span<HostTensor> feeds) const {
  const auto inputs = RowOf<int32_t>(feeds[0], row);
  const auto decoder_inputs = RowOf<int32_t>(feeds[1], row);
  const auto targets = RowOf<int32_t>(feeds[2], row);
  const auto weights = RowOf<float>(feeds[3], row);
  for (const auto& tokens : {inputs, decoder_inputs, targets}) {
    std::fill(tokens.begin(), tokens.end(), options_.pad);
  }
  if (!decoder_inputs.empty()) decoder_inputs[0] = options_.start;
  std::copy_n(record.tokens.begin(),
              std::min(record.tokens.size(), inputs.size()), inputs.begin());
  const size_t count = std::min(record.targets.size(), targets.size());
  for (size_t i = 0; i < count; ++i) {
    targets[i] = record.targets[i];
    weights[i] = 1;
    if (i + 1 < targets.size()) decoder_inputs[i + 1] = record.targets[i];
  }
  return absl::OkStatus();
}

}  // namespace mtf::train
