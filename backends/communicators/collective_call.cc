// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/collective_call.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtf {

CollectiveCall BarrierCall() { return {.kind = CollectiveCall::kBarrier}; }

CollectiveCall CallOf(CollectiveKind kind, int64_t bytes) {
  return {.kind = static_cast<uint8_t>(kind), .count = bytes};
}

CollectiveCall CallOf(CollectiveKind kind, int64_t count, DType dtype,
                      ReduceKind reduce, size_t buffers) {
  return {.kind = static_cast<uint8_t>(kind),
          .dtype = dtype,
          .reduce = static_cast<uint8_t>(reduce),
          .buffers = static_cast<int32_t>(buffers),
          .count = count};
}

std::string CollectiveCall::ToString() const {
  if (kind == kBarrier) return "barrier";
  const auto collective = static_cast<CollectiveKind>(kind);
  if (collective != CollectiveKind::kAllReduce &&
      collective != CollectiveKind::kReduceScatter) {
    return absl::StrCat(CollectiveName(collective), " of ", count, " bytes");
  }
  static constexpr const char* kReduceNames[] = {"sum", "max", "min"};
  return absl::StrCat(CollectiveName(collective), " ", kReduceNames[reduce],
                      " of ", DTypeName(static_cast<DType>(dtype)), " x ",
                      count, " in ", buffers,
                      buffers == 1 ? " buffer" : " buffers");
}

absl::Status CheckSameCall(const Communicator::Group& group,
                           absl::Span<const CollectiveCall> calls) {
  for (size_t i = 1; i < calls.size(); ++i) {
    if (calls[i] == calls[0]) continue;
    return absl::AbortedError(absl::StrCat(
        "ranks disagree on a collective: rank ", group.ranks[0], " calls ",
        calls[0].ToString(), ", rank ", group.ranks[i], " calls ",
        calls[i].ToString(), "\n  group  ranks ",
        absl::StrJoin(group.ranks, ","),
        "\n  help   every rank must run the same program on the same shapes"));
  }
  return absl::OkStatus();
}

}  // namespace mtf
