// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_FUSION_WINDOW_H_
#define LOWERING_FUSION_FUSION_WINDOW_H_

#include <cstddef>
#include <vector>

#include "lowering/program/is_no_op.h"
#include "lowering/program/program.h"

namespace mtf {

// How far groups may reach whose members do not stand side by side. A group
// runs where its first member stands, so that
//
//   * what later members read is made before that, and
//   * nothing is between but products, maps, reductions and what runs nothing:
//     no collective is kept waiting, nor left without what it was to run
//     beside.
class FusionWindow {
 public:
  explicit FusionWindow(const Program& program)
      : made_(program.values.size(), -1), run_(program.instructions.size()) {
    int run = 0;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      const bool there = IsNoOp(program, instruction);
      const auto& operands = instruction.operands;
      for (int result : instruction.results) {
        made_[result] = !there             ? static_cast<int>(i)
                        : operands.empty() ? -1
                                           : made_[operands[0]];
      }
      const bool between = there || instruction.opcode == Opcode::kEinsum ||
                           instruction.opcode == Opcode::kMap ||
                           instruction.opcode == Opcode::kReduce;
      run_[i] = between ? run : ++run;
    }
  }

  // Whether nothing between the two instructions keeps them apart.
  bool Joins(int first, int last) const { return run_[first] == run_[last]; }
  bool IsMadeBefore(int value, int instruction) const {
    return made_[value] < instruction;
  }

 private:
  std::vector<int> made_;  // by value: where it comes to be, -1 before the step
  // By instruction: equal where no group has to stop in between.
  std::vector<int> run_;
};

}  // namespace mtf

#endif  // LOWERING_FUSION_FUSION_WINDOW_H_
