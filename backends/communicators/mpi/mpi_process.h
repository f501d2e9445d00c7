// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_MPI_MPI_PROCESS_H_
#define BACKENDS_COMMUNICATORS_MPI_MPI_PROCESS_H_

#include "absl/status/status.h"

namespace mtf {

// Starts MPI for this process, for one communicating thread, and ends it when
// the process exits; does neither if the program has started MPI itself.
//
// At exit with status 0 the process waits for the others in MPI_Finalize. With
// any other status it gives them two seconds to fail too, as they do when all
// found the same error, and otherwise ends the job: a rank that waits for this
// one would wait for ever.
absl::Status StartMpi();

// "Open MPI v4.1.4"
std::string MpiLibraryName();

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_MPI_MPI_PROCESS_H_
