// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_MPI_SHARED_MEMORY_H_
#define BACKENDS_COMMUNICATORS_MPI_SHARED_MEMORY_H_

#include <mpi.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace mtf {

// Allocates `bytes` of zeroed memory shared by all ranks of `comm`, which are
// on one host. Addresses differ between ranks; the memory is kept until the
// process ends. Null on every rank if it cannot be mapped on some rank: a
// container may have little shared memory, or none in common with other
// containers. Collective over `comm`.
//
// The memory is committed here, so that no later store can fail.
// MPI_Win_allocate_shared does not commit it, and in Open MPI 4 waits forever
// if one rank fails.
absl::StatusOr<void*> MakeSharedMemory(MPI_Comm comm, int64_t bytes);

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_MPI_SHARED_MEMORY_H_
