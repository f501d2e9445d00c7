// SPDX-License-Identifier: Apache-2.0
//
// Kernels of instructions that only move elements.
#ifndef BACKENDS_CPU_MOVEMENT_H_
#define BACKENDS_CPU_MOVEMENT_H_

#include <memory>

#include "backends/backend.h"

namespace mtf::cpu {

std::unique_ptr<Kernel> PrepareConstant(const Binding& binding);
std::unique_ptr<Kernel> PrepareReshape(const Binding& binding);
std::unique_ptr<Kernel> PrepareSlice(const Binding& binding);
std::unique_ptr<Kernel> PreparePad(const Binding& binding);
std::unique_ptr<Kernel> PrepareConcat(const Binding& binding);
std::unique_ptr<Kernel> PrepareMask(const Binding& binding);
std::unique_ptr<Kernel> PrepareAllSlice(const Binding& binding);
std::unique_ptr<Kernel> PrepareBlockCopy(void* to, const void* from,
                                         const BlockCopy& copy);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_MOVEMENT_H_
