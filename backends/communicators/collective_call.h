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

// What a rank says it is about to do. The ranks of a group compare notes at
// every collective, because two that disagree would otherwise compute nonsense
// and report success. Plain bytes without padding, so that it can be sent.
struct CollectiveCall {
  uint8_t kind = 0;  // a CollectiveKind, or kBarrier
  uint8_t dtype = 0;
  uint8_t reduce = 0;
  uint8_t unused = 0;
  int32_t pieces = 0;
  int64_t count = 0;  // elements where there is a dtype, otherwise bytes

  static constexpr uint8_t kBarrier = 0xff;
  friend bool operator==(const CollectiveCall&,
                         const CollectiveCall&) = default;
  std::string ToString() const;  // "all_reduce sum of f32 x 8 in 2 pieces"
};
static_assert(sizeof(CollectiveCall) == 16);

CollectiveCall BarrierCall();
CollectiveCall CallOf(CollectiveKind kind, int64_t bytes);
CollectiveCall CallOf(CollectiveKind kind, int64_t count, DType dtype,
                      ReduceKind reduce, size_t pieces);

// kAborted, saying which ranks of `group` call what; OK if `calls`, one per
// place, are all the same.
absl::Status CheckSameCall(const Communicator::Group& group,
                           absl::Span<const CollectiveCall> calls);

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_COLLECTIVE_CALL_H_
