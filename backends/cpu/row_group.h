// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_ROW_GROUP_H_
#define BACKENDS_CPU_ROW_GROUP_H_

#include <memory>

#include "absl/types/span.h"
#include "backends/backend.h"

namespace mtf::cpu {

// Prepares a group of maps and reductions over rows (lowering/passes/
// fuse_rows.h): a softmax, a norm or a loss, with its gradient. Threads divide
// the rows. Each takes a few of them through all members at a time and keeps
// the values between members in its cache.
//
// The order of every sum depends on extents only. A row is summed in its own
// order; sums over rows are first added in stripes of rows, then over stripes.
std::unique_ptr<Kernel> PrepareRowGroup(absl::Span<const Binding> members);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_ROW_GROUP_H_
