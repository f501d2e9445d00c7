// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_FUSION_FIND_MAP_BATCHES_H_
#define BACKENDS_CUDA_FUSION_FIND_MAP_BATCHES_H_

#include <vector>

#include "lowering/program/program.h"

namespace mtf::cuda {

// Finds batches of maps that one kernel can compute: an optimizer's update of
// all parameters is one launch instead of three per parameter.
//
//   %m1 = map(%m, %g) ...      // [d_model, d_ff]
//   %w1 = map(%w, %m1) ...     // reads %m1 at the same element
//   %n1 = map(%n, %h) ...      // [vocab, d_model]: another section
//
// A batch is a list of sections. The maps of a section have results of the same
// dimensions in the same order, and each operand has these dimensions too or is
// a single number. No section reads another's results. A batch has at least two
// maps, no other instructions run between them, and none is `taken` by another
// kind of group. Maps of single numbers form batches of their own, because many
// later instructions read them.
std::vector<std::vector<int>> FindMapBatches(const Program& program,
                                             const std::vector<bool>& taken);

// Splits a batch into its sections, as indices into `batch`.
std::vector<std::vector<int>> SectionsOf(const Program& program,
                                         const std::vector<int>& batch);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_FIND_MAP_BATCHES_H_
