// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_LONG_REDUCE_H_
#define LOWERING_FUSION_LONG_REDUCE_H_

#include <algorithm>
#include <cstdint>

#include "lowering/program/program.h"

namespace mtf {

// Whether `instruction` is a reduction so long that its readers must wait for
// all threads of a kernel: longer than what the threads of one block can reduce
// together, which is more than any row of a layer norm or softmax.
inline bool IsLongReduce(const Program& program,
                         const Instruction& instruction) {
  constexpr int64_t kMaxBlockReduction = 1 << 16;
  const auto* reduce = instruction.Find<ReduceAttributes>();
  if (reduce == nullptr) return false;
  int64_t elements = 1;
  for (int64_t extent : reduce->iteration_local) elements *= extent;
  const int64_t results =
      program.values[instruction.results[0]].local_elements();
  return elements > kMaxBlockReduction * std::max<int64_t>(1, results);
}

}  // namespace mtf

#endif  // LOWERING_FUSION_LONG_REDUCE_H_
