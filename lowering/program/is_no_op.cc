// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/is_no_op.h"

#include "lowering/program/reshape_layout.h"

namespace mtf {

bool IsView(const Program& program, const Instruction& instruction) {
  const ProgramValue& from = program.values[instruction.operands[0]];
  const ProgramValue& to = program.values[instruction.results[0]];
  const auto full = [&program](const ProgramValue& value) {
    for (const Dimension& dim : value.shape) {
      if (program.grains.ExtentOf(dim) != dim.size) return false;
    }
    return true;
  };
  // Without padding, row-major order is all there is.
  return (full(from) && full(to)) || IsRelabel(from, to);
}

}  // namespace mtf
