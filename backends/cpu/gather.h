// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_GATHER_H_
#define BACKENDS_CPU_GATHER_H_

#include <memory>

#include "backends/backend.h"

namespace mtf::cpu {

// Both report a valid index outside the whole dimension and take it, like an
// index of another rank's rows and like padding, as no row at all: gather
// writes zeros, scatter_add adds nothing.
std::unique_ptr<Kernel> PrepareGather(const Binding& binding);

// Adds in the row-major order of the indices, whatever the threads; float16 and
// bfloat16 add up in float.
std::unique_ptr<Kernel> PrepareScatterAdd(const Binding& binding);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_GATHER_H_
