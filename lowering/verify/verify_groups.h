// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_VERIFY_VERIFY_GROUPS_H_
#define LOWERING_VERIFY_VERIFY_GROUPS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// Checks that the groups are disjoint, in order, and of the instructions that
// their kind has, and that each can run at its first member: all that it reads
// is computed before that or by an earlier member. If not, `bad` receives the
// first member. The instructions have been checked.
absl::Status VerifyGroups(const Program& program, int* bad);

}  // namespace mtf::internal

#endif  // LOWERING_VERIFY_VERIFY_GROUPS_H_
