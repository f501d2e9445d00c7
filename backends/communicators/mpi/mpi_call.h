// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_MPI_MPI_CALL_H_
#define BACKENDS_COMMUNICATORS_MPI_MPI_CALL_H_

#include <mpi.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// Makes an MPI call and on failure returns a Status with the name of the
// function, the text of its error code and the rank of this process. Every MPI
// call of the library uses this macro.
#define MTF_RETURN_IF_MPI_ERROR(call)                         \
  do {                                                        \
    const int mtf_mpi_code_ = (call);                         \
    if (mtf_mpi_code_ != MPI_SUCCESS) {                       \
      return ::mtf::internal::MpiError(mtf_mpi_code_, #call); \
    }                                                         \
  } while (false)

namespace mtf::internal {

// kInternal "MPI_Allgather failed on rank 3: MPI_ERR_COUNT: invalid count".
absl::Status MpiError(int code, absl::string_view call);

}  // namespace mtf::internal

#endif  // BACKENDS_COMMUNICATORS_MPI_MPI_CALL_H_
