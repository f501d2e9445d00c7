// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_FUSION_FIND_MAP_BATCHES_H_
#define BACKENDS_CUDA_FUSION_FIND_MAP_BATCHES_H_

#include <vector>

#include "lowering/program/program.h"

namespace mtf::cuda {

// Runs of maps that one kernel can compute: what an optimizer does to all
// parameters is one launch instead of three for each of them.
//
//   %m1 = map(%m, %g) ...      // [d_model, d_ff]
//   %w1 = map(%w, %m1) ...     // reads %m1 at its own place
//   %n1 = map(%n, %h) ...      // [vocab, d_model]: another section
//
// A batch is a list of sections; the maps of a section have results of the same
// dimensions in the same order, and each operand either has them too or is one
// number. A section reads what another one makes nowhere in a batch. A batch
// has two maps or more and nothing that runs between them, and no instruction
// that is `taken` by a group of another kind. Single numbers keep to
// themselves, because what follows reads them everywhere.
std::vector<std::vector<int>> FindMapBatches(const Program& program,
                                             const std::vector<bool>& taken);

// The sections of a batch, as places in it.
std::vector<std::vector<int>> SectionsOf(const Program& program,
                                         const std::vector<int>& batch);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_FIND_MAP_BATCHES_H_
