// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_RANDOM_H_
#define BACKENDS_CPU_RANDOM_H_

#include <memory>

#include "backends/backend.h"

namespace mtf::cpu {

// The Philox numbers of mtf/philox.h by global element. Each element is
// computed alike, so its bits depend on neither layout nor threads.
std::unique_ptr<Kernel> PrepareRandom(const Binding& binding);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_RANDOM_H_
