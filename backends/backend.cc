// SPDX-License-Identifier: Apache-2.0
#include "backends/backend.h"

#include <tuple>

#include "backends/communicator.h"

namespace mtf {

void StepContext::Report(int64_t instruction, int64_t position, int64_t index) {
  if (std::tie(instruction, position) <
      std::tie(error.instruction, error.position)) {
    error = {instruction, position, index};
  }
}

absl::StatusOr<std::unique_ptr<Communicator>> Device::Connect(
    Communicator& /*host*/) {
  return nullptr;
}

}  // namespace mtf
