// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_TOP_K_H_
#define BACKENDS_CPU_TOP_K_H_

#include <memory>

#include "backends/backend.h"

namespace mtf::cpu {

// Few are kept sorted while a line goes by; many are selected from a copy of
// it, then sorted.
std::unique_ptr<Kernel> PrepareTopK(const Binding& binding);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_TOP_K_H_
