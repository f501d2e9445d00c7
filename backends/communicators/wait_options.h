// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_WAIT_OPTIONS_H_
#define BACKENDS_COMMUNICATORS_WAIT_OPTIONS_H_

#include "backends/communicators/group_barrier.h"

namespace mtf {

// How `local_ranks` ranks on `cores` cores wait for each other.
//
// MTF_COLLECTIVE_TIMEOUT: seconds after which a rank that waits for others
// gives up with an error that names them; 0 waits for ever. 1800 by default:
// a rank may be reading data or writing a checkpoint meanwhile. It counts where
// ranks share memory; MPI's own messages between hosts wait for ever.
WaitPolicy WaitOptions(int local_ranks, int cores);

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_WAIT_OPTIONS_H_
