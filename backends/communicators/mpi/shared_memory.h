// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_MPI_SHARED_MEMORY_H_
#define BACKENDS_COMMUNICATORS_MPI_SHARED_MEMORY_H_

#include <mpi.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace mtf {

// `bytes` of zeroed memory that all ranks of `comm`, on one host, share, at
// addresses of their own; it stays until the process ends. Null on every rank
// if any rank cannot have it: a container may have little shared memory, or
// none in common with its neighbours. Collective over `comm`.
//
// The memory is reserved here, so that no later store can fail for want of it.
// MPI_Win_allocate_shared does not do that, and waits for ever in Open MPI 4
// when one rank fails.
absl::StatusOr<void*> MakeSharedMemory(MPI_Comm comm, int64_t bytes);

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_MPI_SHARED_MEMORY_H_
