// SPDX-License-Identifier: Apache-2.0
//
// Kernels that move or add rows of one dimension: take_rows, place_rows,
// windows and fold_windows.
#ifndef BACKENDS_CUDA_KERNELS_ROWS_H_
#define BACKENDS_CUDA_KERNELS_ROWS_H_

#include "backends/cuda/kernels/movement.h"

namespace mtf::cuda {

KernelOr PrepareRows(Runtime& runtime, const Binding& binding);
KernelOr PrepareWindows(Runtime& runtime, const Binding& binding);
KernelOr PrepareFoldWindows(Runtime& runtime, const Binding& binding);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_ROWS_H_
