// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_DYNAMIC_SLICE_H_
#define BACKENDS_CPU_DYNAMIC_SLICE_H_

#include <memory>

#include "backends/backend.h"

namespace mtf::cpu {

// Copies the index. Reports an element that is out of range and writes 0 for
// it, as for padding.
std::unique_ptr<Kernel> PrepareCheckIndex(const Binding& binding);

// Writes zeros for rows in other ranks' shards and for padding.
std::unique_ptr<Kernel> PrepareDynamicSlice(const Binding& binding);

// Writes the rows in this rank's shard. Copies the other rows first, unless the
// result is in the memory of the value.
std::unique_ptr<Kernel> PrepareUpdateSlice(const Binding& binding);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_DYNAMIC_SLICE_H_
