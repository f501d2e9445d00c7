// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_COLLECTIVE_CALL_H_
#define BACKENDS_COMMUNICATORS_COLLECTIVE_CALL_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/communicator.h"

namespace mtf {

// Describes the collective that a rank is about to run, and at which position
// of which program. The ranks of a group compare these at every collective: a
// mismatch would otherwise produce wrong results without an error, for example
// if a rank runs one step more than the others. Plain bytes without padding, so
// that it can be sent.
struct CollectiveCall {
  uint8_t kind = 0;  // a CollectiveKind, kBarrier or kSignIn
  uint8_t dtype = 0;
  uint8_t reduce = 0;
  uint8_t unused = 0;
  int32_t buffers = 0;
  int64_t count = 0;  // elements for reductions, bytes for the others
  // The RankPosition as a word; 0 outside of a program's collectives.
  uint64_t position = 0;

  static constexpr uint8_t kBarrier = 0xff, kSignIn = 0xfe;
  friend bool operator==(const CollectiveCall&,
                         const CollectiveCall&) = default;
  std::string ToString() const;  // "all_reduce sum of f32 x 8 in 2 buffers"
};
static_assert(sizeof(CollectiveCall) == 24);

CollectiveCall BarrierCall();
CollectiveCall SignInCall(uint64_t fingerprint);
CollectiveCall CallOf(CollectiveKind kind, int64_t bytes);
CollectiveCall CallOf(CollectiveKind kind, int64_t count, DType dtype,
                      ReduceKind reduce, size_t buffers);

// `call` at the position that its rank has published in `slot`.
CollectiveCall AtPosition(CollectiveCall call, const RankPositionSlot& slot);

// OK if all `calls`, one per rank of `group`, are equal; otherwise kAborted
// with two ranks, their positions if these differ, and their calls.
absl::Status CheckSameCall(const Communicator::Group& group,
                           absl::Span<const CollectiveCall> calls);

// Whether all `calls` are sign-ins with the same fingerprint; the error of
// CheckSameCall if some are other calls.
absl::StatusOr<bool> CompareSignIns(const Communicator::Group& group,
                                    absl::Span<const CollectiveCall> calls);

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_COLLECTIVE_CALL_H_
