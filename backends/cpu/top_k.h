// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_TOP_K_H_
#define BACKENDS_CPU_TOP_K_H_

#include <memory>

#include "backends/backend.h"

namespace mtf::cpu {

// A small k is found by insertion into a sorted list during one pass; a large k
// by selection from a copy of the line, then sorting.
std::unique_ptr<Kernel> PrepareTopK(const Binding& binding);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_TOP_K_H_
