// SPDX-License-Identifier: Apache-2.0
#ifndef TOOLS_PROGRAM_STAGE_H_
#define TOOLS_PROGRAM_STAGE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "lowering/program/program.h"

namespace mtf::tools {

// What a program may be dumped behind, in order: "emit_program" and the passes.
std::vector<std::string> StageNames();

// The stages, places in StageNames(), that a program may be of by what it has
// and lacks, whatever somebody wrote above it. Nothing fits where `first` is
// behind `last`: a reshard beside places in memory, say.
struct StageRange {
  size_t first = 0, last = 0;
  // Why no earlier and no later one, in words behind "the text"; "" where
  // nothing says so.
  std::string not_earlier, not_later;
};

// Of a program as ParseProgram gives it. Running the passes behind `first` on a
// program of any stage in the range gives what lowering gave: up to the next
// trace that a pass leaves, passes change nothing where they were run already.
StageRange StagesOf(const Program& program);

}  // namespace mtf::tools

#endif  // TOOLS_PROGRAM_STAGE_H_
