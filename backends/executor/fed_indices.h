// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_EXECUTOR_FED_INDICES_H_
#define BACKENDS_EXECUTOR_FED_INDICES_H_

#include <cstdint>
#include <map>
#include <optional>

#include "lowering/program/program.h"
#include "mtf/host_tensor.h"

namespace mtf {

// For each input (by its value) that is used as indices: the smallest size of
// a dimension that it picks places from.
using IndexLimits = std::map<int, int64_t>;

// The limits of a program all of whose indices are fed or found: nothing but
// movement lies between an input and a gather or scatter_add, so that the host
// can tell before a step whether the step can fail, and the places that a top_k
// finds in a dimension of no more elements are good ones. nullopt where some
// are computed.
std::optional<IndexLimits> FindFedIndices(const Program& program);

// Whether every element of `indices`, i32 or i64, is in [0, limit).
bool AllWithin(const HostTensor& indices, int64_t limit);

}  // namespace mtf

#endif  // BACKENDS_EXECUTOR_FED_INDICES_H_
