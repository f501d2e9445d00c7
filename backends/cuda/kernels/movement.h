// SPDX-License-Identifier: Apache-2.0
//
// Instructions that only move elements.
#ifndef BACKENDS_CUDA_KERNELS_MOVEMENT_H_
#define BACKENDS_CUDA_KERNELS_MOVEMENT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

KernelOr PrepareConstant(Runtime& runtime, const Binding& binding);
KernelOr PrepareReshape(Runtime& runtime, const Binding& binding);
KernelOr PrepareSlice(Runtime& runtime, const Binding& binding);
KernelOr PreparePad(Runtime& runtime, const Binding& binding);
KernelOr PrepareConcat(Runtime& runtime, const Binding& binding);
KernelOr PrepareMask(Runtime& runtime, const Binding& binding);
KernelOr PrepareAllSlice(Runtime& runtime, const Binding& binding);
KernelOr PrepareBlockCopy(Runtime& runtime, void* to, const void* from,
                          const BlockCopy& copy);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_MOVEMENT_H_
