// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_FUSED_KERNELS_H_
#define PLANNING_COST_FUSED_KERNELS_H_

#include <cstdint>
#include <vector>

#include "lowering/program/program.h"

namespace mtf {

// How the estimate of time and the bounds of the search assume that a device
// which fuses instructions runs a program: elementwise instructions are fused
// as far as possible, more than the groups of the program (fused_group.h) are.
// Machine files are fitted to measured steps under this assumption.
struct FusedKernels {
  // By instruction: the first instruction of its kernel, or -1 if it is not
  // part of a fused kernel: collectives, data movement and no-ops.
  std::vector<int> kernel;
  // By instruction: the bytes that it adds to the memory traffic of its kernel.
  std::vector<int64_t> bytes;
};

// Groups instructions into kernels. Elementwise instructions (map, reduce,
// random, mask) join the kernels of their operands; values that only their
// kernel reads stay on chip.
//
//   %m = reduce(%x) max          a softmax reads its logits once and writes
//   %e = map(%x, %m) exp         its result once
//   %s = reduce(%e) sum
//   %p = map(%e, %s) div
//   %y = einsum(%p, %v)
//   %z = map(%x, %y) add         begins another kernel: it waits for the einsum
//
// An instruction does not join a kernel if another kernel has to run in
// between, or if the operand is a reduction so long that the kernel would have
// to wait for all of its threads. A kernel of maps alone over the result of an
// einsum, with no other reader and only operands computed before the einsum, is
// the epilogue of the einsum: bias and activation, or the sum that a gradient
// is added to. The members of a convolution (ConvolutionGroup) join no kernel.
FusedKernels FindFusedKernels(const Program& program);

}  // namespace mtf

#endif  // PLANNING_COST_FUSED_KERNELS_H_
