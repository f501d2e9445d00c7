// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_MPI_MPI_PROCESS_H_
#define BACKENDS_COMMUNICATORS_MPI_MPI_PROCESS_H_

#include "absl/status/status.h"

namespace mtf {

// Initialises MPI for one communicating thread and finalises it when the
// process exits, after a call of `at_exit` with the exit status; does none of
// these if the program has initialised MPI itself. Waits have a deadline
// (job_watch.h).
//
// A process that exits with status 0 waits for the others in MPI_Finalize. With
// any other status it gives the others two seconds to exit too, as they do if
// all found the same error, and then aborts the job: a rank that waits for this
// one would wait forever.
absl::Status StartMpi(void (*at_exit)(int status));

// "Open MPI v4.1.4"
std::string MpiLibraryName();

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_MPI_MPI_PROCESS_H_
