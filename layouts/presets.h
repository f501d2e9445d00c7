// SPDX-License-Identifier: Apache-2.0
#ifndef LAYOUTS_PRESETS_H_
#define LAYOUTS_PRESETS_H_

#include <vector>

#include "absl/strings/string_view.h"

namespace mtf::internal {

// A file of layouts/presets/, compiled into the library so that programs need
// no files at run time.
struct PresetFile {
  absl::string_view name;  // "zero3" for zero3.layout
  absl::string_view text;
};

// All presets, sorted by name. Defined in a source that CMake generates.
const std::vector<PresetFile>& PresetFiles();

}  // namespace mtf::internal

#endif  // LAYOUTS_PRESETS_H_
