// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_FUSION_WINDOW_H_
#define LOWERING_FUSION_FUSION_WINDOW_H_

#include <cstddef>
#include <vector>

#include "lowering/program/fused_group.h"
#include "lowering/program/is_no_op.h"
#include "lowering/program/program.h"

namespace mtf {

// The windows within which instructions that are not adjacent may form a group.
// A group runs at its first member, so
//
// * the operands of later members must be computed before that, and
// * only einsums, maps, reductions, no-ops and copies to the device may separate
//   the members: no collective is delayed, and none loses the compute that it
//   was to overlap with.
class FusionWindow {
 public:
  explicit FusionWindow(const Program& program)
      : computed_at_(FindComputedAt(program)),
        window_(program.instructions.size()) {
    int window = 0;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      const bool in_window = IsNoOp(program, instruction) ||
                             instruction.opcode == Opcode::kEinsum ||
                             instruction.opcode == Opcode::kCopyToDevice ||
                             HasExpression(instruction);
      window_[i] = in_window ? window : ++window;
    }
  }

  // Whether no instruction that ends a window separates the two.
  bool InSameWindow(int first, int last) const {
    return window_[first] == window_[last];
  }
  bool IsComputedBefore(int value, int instruction) const {
    return computed_at_[value] < instruction;
  }

 private:
  std::vector<int> computed_at_;  // by value: instruction, -1 before the step
  // By instruction: equal within one window.
  std::vector<int> window_;
};

}  // namespace mtf

#endif  // LOWERING_FUSION_FUSION_WINDOW_H_
