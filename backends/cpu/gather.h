// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_GATHER_H_
#define BACKENDS_CPU_GATHER_H_

#include <memory>

#include "absl/types/span.h"
#include "backends/backend.h"

namespace mtf::cpu {

// An index outside the global dimension is reported as an error. For such an
// index, for one in another rank's shard and for padding, gather writes zeros
// and scatter_add adds nothing.
std::unique_ptr<Kernel> PrepareGather(const Binding& binding);

// Adds in the row-major order of the indices, for any number of threads. Sums
// of float16 and bfloat16 are in float.
std::unique_ptr<Kernel> PrepareScatterAdd(const Binding& binding);

// A scatter_add of floats fused with the addition of `group.addend`: adds the
// rows to the addend in place, or to a copy of it.
std::unique_ptr<Kernel> PrepareScatterAddGroup(
    const EpilogueGroup& group, absl::Span<const Binding> members);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_GATHER_H_
