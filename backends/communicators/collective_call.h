// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_COLLECTIVE_CALL_H_
#define BACKENDS_COMMUNICATORS_COLLECTIVE_CALL_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "backends/communicator.h"

namespace mtf {

// Describes the collective that a rank is about to run. The ranks of a group
// compare these at every collective: a mismatch would otherwise produce wrong
// results without an error. Plain bytes without padding, so that it can be
// sent.
struct CollectiveCall {
  uint8_t kind = 0;  // a CollectiveKind, or kBarrier
  uint8_t dtype = 0;
  uint8_t reduce = 0;
  uint8_t unused = 0;
  int32_t buffers = 0;
  int64_t count = 0;  // elements for reductions, bytes for the others

  static constexpr uint8_t kBarrier = 0xff;
  friend bool operator==(const CollectiveCall&,
                         const CollectiveCall&) = default;
  std::string ToString() const;  // "all_reduce sum of f32 x 8 in 2 buffers"
};
static_assert(sizeof(CollectiveCall) == 16);

CollectiveCall BarrierCall();
CollectiveCall CallOf(CollectiveKind kind, int64_t bytes);
CollectiveCall CallOf(CollectiveKind kind, int64_t count, DType dtype,
                      ReduceKind reduce, size_t buffers);

// OK if all `calls`, one per rank of `group`, are equal; otherwise kAborted
// with two ranks and their calls.
absl::Status CheckSameCall(const Communicator::Group& group,
                           absl::Span<const CollectiveCall> calls);

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_COLLECTIVE_CALL_H_
