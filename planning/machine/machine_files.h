// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_MACHINE_MACHINE_FILES_H_
#define PLANNING_MACHINE_MACHINE_FILES_H_

#include <vector>

#include "absl/strings/string_view.h"

namespace mtf::internal {

// A file of lowering/machines/, built into the library.
struct MachineFile {
  absl::string_view name;  // "h200_x8" for h200_x8.machine
  absl::string_view text;
};

// All of them, by name. Defined in a source that CMake writes.
const std::vector<MachineFile>& MachineFiles();

}  // namespace mtf::internal

#endif  // PLANNING_MACHINE_MACHINE_FILES_H_
