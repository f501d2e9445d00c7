// SPDX-License-Identifier: Apache-2.0
//
// The part of the printer that knows what a text must say of dimensions, where
// its values do not show it. Not for others: they call PrintProgram.
#ifndef LOWERING_PROGRAM_PRINT_DIMENSIONS_H_
#define LOWERING_PROGRAM_PRINT_DIMENSIONS_H_

#include <string>

#include "lowering/program/program.h"

namespace mtf::internal {

// Two lines, or "" for each that says nothing:
//
//   tied{block_length:length}   names of one dimension, the first name last
//   grains{d_model:data}        axes that a dimension may be cut over, though
//                               no value here is: its padding follows from them
//
// `with_rules` where the text has rules and causes, whose names count too.
std::string PrintDimensions(const Program& program, bool with_rules);

}  // namespace mtf::internal

#endif  // LOWERING_PROGRAM_PRINT_DIMENSIONS_H_
