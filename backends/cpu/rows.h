// SPDX-License-Identifier: Apache-2.0
//
// Kernels that move or add rows of one dimension: take_rows, place_rows,
// windows and fold_windows.
#ifndef BACKENDS_CPU_ROWS_H_
#define BACKENDS_CPU_ROWS_H_

#include <memory>

#include "backends/backend.h"

namespace mtf::cpu {

std::unique_ptr<Kernel> PrepareRows(const Binding& binding);
std::unique_ptr<Kernel> PrepareWindows(const Binding& binding);
std::unique_ptr<Kernel> PrepareFoldWindows(const Binding& binding);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_ROWS_H_
