// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_RANDOM_H_
#define BACKENDS_CPU_RANDOM_H_

#include <memory>

#include "backends/backend.h"

namespace mtf::cpu {

// Writes the random numbers of mtf/philox.h, indexed by global element. All
// elements are computed by the same code, so that their bits depend neither on
// the layout nor on the threads.
std::unique_ptr<Kernel> PrepareRandom(const Binding& binding);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_RANDOM_H_
