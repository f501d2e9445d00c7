// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/fuse_reduce_scatters.h"

#include <vector>

#include "lowering/program/readers.h"

namespace mtf {

absl::Status FuseReduceScatters(Program& program) {
  const std::vector<int> readers = CountReaders(program);
  const std::vector<int> producers = FindProducers(program);
  std::vector<bool> dead(program.instructions.size(), false);
  for (Instruction& slice : program.instructions) {
    if (slice.opcode != Opcode::kAllSlice) continue;
    const int sum = slice.operands[0];
    if (readers[sum] != 1 || producers[sum] < 0) continue;
    // The slice becomes a reduce_scatter of the operand of the all_reduce.
    const Instruction& reduce = program.instructions[producers[sum]];
    if (reduce.opcode != Opcode::kAllReduce || reduce.operands.size() != 1) {
      continue;
    }
    const auto& summed = reduce.Get<CollectiveAttributes>();
    auto& scattered = slice.Get<CollectiveAttributes>();
    if (SetOf(summed.axes) != SetOf(scattered.axes)) continue;
    dead[producers[sum]] = true;
    slice.opcode = Opcode::kReduceScatter;
    slice.operands = {reduce.operands[0]};
    scattered.reduction = summed.reduction;
    slice.causes = reduce.causes;
  }
  EraseInstructions(dead, program);
  return absl::OkStatus();
}

}  // namespace mtf
