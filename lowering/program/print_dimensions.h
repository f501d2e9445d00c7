// SPDX-License-Identifier: Apache-2.0
//
// A part of PrintProgram: what the text must state about dimensions because its
// values do not show it.
#ifndef LOWERING_PROGRAM_PRINT_DIMENSIONS_H_
#define LOWERING_PROGRAM_PRINT_DIMENSIONS_H_

#include <string>

#include "lowering/program/program.h"

namespace mtf::internal {

// Up to two lines:
//
//   tied{memory_length:length}   other names of a dimension, each with its first
//   grains{d_model:data}        axes that may shard a dimension, so that it is
//                               padded for them, though no value here is
//                               sharded
//
// `with_rules`: the text has rules and causes, whose names count too.
std::string PrintDimensions(const Program& program, bool with_rules);

}  // namespace mtf::internal

#endif  // LOWERING_PROGRAM_PRINT_DIMENSIONS_H_
