// SPDX-License-Identifier: Apache-2.0
//
// A part of VerifyProgram: where values are stored.
#ifndef LOWERING_VERIFY_VERIFY_BUFFERS_H_
#define LOWERING_VERIFY_VERIFY_BUFFERS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// Checks the buffers of a program that passes VerifyOverlap:
//   * Every value has an aligned buffer within the arena, or the storage of a
//     variable of its type and layout.
//   * The arena ends with its last buffer.
//   * The commit is the first instruction that changes a variable, and follows
//     all instructions that can fail.
//   * No instruction writes over a value that is still needed: read later, used
//     by an asynchronous collective in flight, or written to a variable. An
//     instruction may work in place.
// A program without buffers passes. Returns kInternal and sets `bad` to the
// index of the instruction at fault, or to a constant of verify_program.h.
absl::Status VerifyBuffers(const Program& program, int* bad);

}  // namespace mtf::internal

#endif  // LOWERING_VERIFY_VERIFY_BUFFERS_H_
