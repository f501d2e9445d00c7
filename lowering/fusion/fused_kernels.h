// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_FUSED_KERNELS_H_
#define LOWERING_FUSION_FUSED_KERNELS_H_

#include <cstdint>
#include <vector>

#include "lowering/program/program.h"

namespace mtf {

// How a device that fuses runs a program, by instruction.
struct FusedKernels {
  // The instruction that begins the kernel it belongs to, or -1 where nothing
  // is fused: collectives, moves, and what has no kernel.
  std::vector<int> kernel;
  // What it adds to the bytes that its kernel reads and writes in memory.
  std::vector<int64_t> bytes;
};

// Instructions of the elementwise kind (map, reduce, random, mask) join whom
// they read; what only their kernel reads stays on chip.
//
//   %m = reduce(%x) max          a softmax reads its logits once and writes
//   %e = map(%x, %m) exp         its result once
//   %s = reduce(%e) sum
//   %p = map(%e, %s) div
//   %y = einsum(%p, %v)
//   %z = map(%x, %y) add         begins another kernel: it waits for the
//   product
//
// They do not join where something else has to run in between, or where the
// operand is a reduction of so much that a kernel would wait for all others. A
// kernel of maps alone over the result of an einsum that nobody else reads, and
// over what was there before, is its epilogue: bias and activation, or the sum
// that a gradient is added to.
//
// Instructions that are `taken`, by place, are kernels of others: fused
// attention. Empty: none is.
FusedKernels FindFusedKernels(const Program& program,
                              const std::vector<bool>& taken = {});

// Whether `instruction` is a reduction of so much that what reads its result
// waits for all of a kernel.
bool IsLongReduce(const Program& program, const Instruction& instruction);

}  // namespace mtf

#endif  // LOWERING_FUSION_FUSED_KERNELS_H_
