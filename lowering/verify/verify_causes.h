// SPDX-License-Identifier: Apache-2.0
//
// A part of VerifyProgram: the causes of collectives.
#ifndef LOWERING_VERIFY_VERIFY_CAUSES_H_
#define LOWERING_VERIFY_VERIFY_CAUSES_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// Checks the causes of one instruction, "for{d_ff/model rule 0}": only reshards
// and collectives have causes, the axis can shard the dimension, and the rule
// exists and shards the dimension over the axis. Returns kInternal; the caller
// adds the instruction.
absl::Status VerifyCauses(const Program& program,
                          const Instruction& instruction);

}  // namespace mtf::internal

#endif  // LOWERING_VERIFY_VERIFY_CAUSES_H_
