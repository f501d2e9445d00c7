// SPDX-License-Identifier: Apache-2.0
#ifndef TOOLS_PROGRAM_STAGE_H_
#define TOOLS_PROGRAM_STAGE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "lowering/program/program.h"

namespace mtf::tools {

// The stages after which a program may be dumped, in order: "emit_program" and
// the passes.
std::vector<std::string> StageNames();

// The stages, as indices into StageNames(), that a program can be of according
// to the instructions and attributes it has. No stage matches if `first` is
// greater than `last`: for example, if a program has both a reshard and
// buffers.
struct StageRange {
  size_t first = 0, last = 0;
  // Why the program is of no earlier and of no later stage, as a predicate of
  // "the text": "has a wait". "" if nothing excludes one.
  std::string not_earlier, not_later;
};

// The stages of a program that ParseProgram returned. Running the passes after
// `first` on a program of any stage in the range gives the result of lowering:
// passes that have run already change nothing until the next pass that leaves a
// trace in the program.
StageRange StagesOf(const Program& program);

}  // namespace mtf::tools

#endif  // TOOLS_PROGRAM_STAGE_H_
