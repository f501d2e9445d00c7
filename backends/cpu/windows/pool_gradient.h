// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_WINDOWS_POOL_GRADIENT_H_
#define BACKENDS_CPU_WINDOWS_POOL_GRADIENT_H_

#include <memory>

#include "absl/types/span.h"
#include "backends/backend.h"
#include "lowering/program/pool_spec.h"

namespace mtf::cpu {

// Prepares the gradient of a reduction of windows (pool.h).
std::unique_ptr<Kernel> PreparePoolGradient(const PoolGradientSpec& spec,
                                            absl::Span<const Binding> members);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_WINDOWS_POOL_GRADIENT_H_
