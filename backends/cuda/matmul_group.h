// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_MATMUL_GROUP_H_
#define BACKENDS_CUDA_MATMUL_GROUP_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/scratch.h"
#include "lowering/program.h"

namespace mtf::cuda {

// An einsum and the maps behind it that a matmul does before it writes:
//
//   %y = einsum(%h, %w) sum{d_ff}        %z = map(%x, %y) add
//   %y = einsum(%h, %w) sum{d_model}     %z = map(%y, %bias) add
//   %y = einsum(%h, %w) sum{d_model}     %z = map(%y) gelu
//
// a sum with another tensor, a bias, gelu, or what of them goes together. What
// gelu is of is written too where somebody else reads it.
struct MatmulGroup {
  std::vector<int> members;  // the einsum, then maps
  MatmulProblem::Epilogue epilogue = MatmulProblem::Epilogue::kNone;
  // Values; -1 where there is none.
  int result = -1, addend = -1, bias = -1, kept = -1;
};

// Groups whose einsum is one matmul without a copy of its result. Between
// members stands nothing that runs. They share no instruction, nor one that is
// `taken`.
std::vector<MatmulGroup> FindMatmulGroups(const Program& program,
                                          const std::vector<bool>& taken);

// One kernel for the members of such a group; null where they are none, where
// the buffers do not allow it, or the libraries have nothing for it.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareMatmulGroup(
    Runtime& runtime, Scratch& scratch, absl::Span<const Binding> members);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_MATMUL_GROUP_H_
