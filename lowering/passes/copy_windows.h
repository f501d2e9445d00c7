// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_COPY_WINDOWS_H_
#define LOWERING_PASSES_COPY_WINDOWS_H_

#include <vector>

#include "lowering/program/program.h"

namespace mtf {

// Windows, with the place_rows before them, to be copied to their reader.
struct WindowsCopy {
  int reader = -1;  // instruction
  // The results of the instructions to copy, each of which reads the one before
  // and `reader` the last; then those of the copies.
  std::vector<int> results;
};

// Inserts copies before their readers, so that one kernel can take both and no
// windows are kept in memory for a late reader. Removes windows that nothing
// reads any more. Instructions move; existing groups keep their members.
void CopyWindows(std::vector<WindowsCopy*> copies, Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_COPY_WINDOWS_H_
