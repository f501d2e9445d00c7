// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_SCAN_H_
#define BACKENDS_CPU_SCAN_H_

#include <memory>

#include "backends/backend.h"

namespace mtf::cpu {

// Sums of floats are in float and sequential along the dimension. Adjacent
// lines are processed together.
std::unique_ptr<Kernel> PrepareScan(const Binding& binding);
std::unique_ptr<Kernel> PrepareReduceBlocks(const Binding& binding);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_SCAN_H_
