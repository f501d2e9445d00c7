// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_WAIT_OPTIONS_H_
#define BACKENDS_COMMUNICATORS_WAIT_OPTIONS_H_

#include "backends/communicators/group_barrier.h"

namespace mtf {

// How `local_ranks` ranks on `cores` cores wait for each other.
//
// They give up after CollectiveTimeout().
WaitPolicy WaitOptions(int local_ranks, int cores);

// Seconds after which a rank that waits for others in a collective gives up
// with an error that names them; 0 waits for ever. What SetCollectiveTimeout
// said last, or MTF_COLLECTIVE_TIMEOUT, or ten minutes: a rank may be reading
// data or writing a checkpoint meanwhile. Groups keep what they were made with;
// a negative number takes back what was set.
double CollectiveTimeout();
void SetCollectiveTimeout(double seconds);

inline constexpr char kCollectiveTimeoutHelp[] =
    "--collective_timeout or MTF_COLLECTIVE_TIMEOUT sets the seconds, 0 waits "
    "for ever";

// The payload of a timeout that holds the ranks waited for, "1,3".
inline constexpr char kMissingRanks[] = "mtf/missing_ranks";

// The status of a process that ends because of it: that of train::ExitCode for
// kDeadlineExceeded.
inline constexpr int kTimeoutExitCode = 75;

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_WAIT_OPTIONS_H_
