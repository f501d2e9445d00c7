// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_EXECUTOR_FED_INDICES_H_
#define BACKENDS_EXECUTOR_FED_INDICES_H_

#include <cstdint>
#include <map>
#include <optional>

#include "lowering/program/program.h"
#include "mtf/host_tensor.h"

namespace mtf {

// For each input (by its value id) that is used as indices: the smallest size
// of a dimension that it indexes.
using IndexLimits = std::map<int, int64_t>;

// The limits of all fed indices of a program, so that the host can check before
// a step whether the step can fail. Every index of a gather, scatter_add or
// check_index must be a fed input, moved but not computed with, or the result of a top_k over a
// dimension of at most the size of the indexed one, which is always in range;
// otherwise nullopt.
std::optional<IndexLimits> FindFedIndices(const Program& program);

// Whether every element of `indices`, i32 or i64, is in [0, limit).
bool AllWithin(const HostTensor& indices, int64_t limit);

}  // namespace mtf

#endif  // BACKENDS_EXECUTOR_FED_INDICES_H_
