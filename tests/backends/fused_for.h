// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_BACKENDS_FUSED_FOR_H_
#define TESTS_BACKENDS_FUSED_FOR_H_

#include "backends/backend.h"
#include "lowering/lower.h"
#include "lowering/verify/verify_program.h"
#include "tests/matchers.h"

namespace mtf::testing {

// `program`, lowered for no device, as a session lowers it for `device`.
inline Program FusedFor(const Device& device, const Program& program) {
  Program fused = program;
  EXPECT_OK(FuseFor(device.fusion(), fused));
  EXPECT_OK(VerifyProgram(fused));
  return fused;
}

}  // namespace mtf::testing

#endif  // TESTS_BACKENDS_FUSED_FOR_H_
