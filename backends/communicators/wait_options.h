// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_WAIT_OPTIONS_H_
#define BACKENDS_COMMUNICATORS_WAIT_OPTIONS_H_

#include "backends/communicators/group_barrier.h"

namespace mtf {

// How `local_ranks` ranks on `cores` cores wait for each other. Waits time out
// after CollectiveTimeout().
WaitPolicy WaitOptions(int local_ranks, int cores);

// Seconds after which a rank that waits in a collective fails with an error
// that names the missing ranks; 0 waits forever. The value of the last call of
// SetCollectiveTimeout, else of MTF_COLLECTIVE_TIMEOUT, else ten minutes, since
// another rank may be reading data or writing a checkpoint. Existing groups
// keep their timeout; a negative number removes the value set before.
double CollectiveTimeout();
void SetCollectiveTimeout(double seconds);

inline constexpr char kCollectiveTimeoutHelp[] =
    "--collective_timeout or MTF_COLLECTIVE_TIMEOUT sets the seconds, 0 waits "
    "forever";

// Key of the Status payload of a timeout that lists the missing ranks, "1,3".
inline constexpr char kMissingRanks[] = "mtf/missing_ranks";

// Exit status of a process that ends after a timeout: train::ExitCode of
// kDeadlineExceeded.
inline constexpr int kTimeoutExitCode = 75;

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_WAIT_OPTIONS_H_
