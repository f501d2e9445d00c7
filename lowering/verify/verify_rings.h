// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_VERIFY_VERIFY_RINGS_H_
#define LOWERING_VERIFY_VERIFY_RINGS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// Checks that shards of other ranks, and rows in stripes, are read only by the
// steps of a ring that expect them, and by maps and collectives that keep them
// so. If not, `bad` receives the instruction. The shapes and layouts have been
// checked.
absl::Status VerifyRings(const Program& program, int* bad);

}  // namespace mtf::internal

#endif  // LOWERING_VERIFY_VERIFY_RINGS_H_
