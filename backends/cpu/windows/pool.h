// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_WINDOWS_POOL_H_
#define BACKENDS_CPU_WINDOWS_POOL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/backend.h"

namespace mtf::cpu {

// Prepares the members of a PoolGroup (lowering/passes/fuse_pools.h): windows
// that are reduced along one dimension after the other, or the gradient of one
// such reduction. Threads divide the windows, or the rows of the gradient. The
// order of every sum is that of the windows, so results do not depend on the
// number of threads.
absl::StatusOr<std::unique_ptr<Kernel>> PreparePool(
    const FusedGroup& group, absl::Span<const Binding> members);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_WINDOWS_POOL_H_
