// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/collective_call.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"

namespace mtf {

CollectiveCall BarrierCall() { return {.kind = CollectiveCall::kBarrier}; }

CollectiveCall SignInCall(uint64_t fingerprint) {
  return {.kind = CollectiveCall::kSignIn,
          .count = static_cast<int64_t>(fingerprint)};
}

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
  if (kind == kSignIn) return "sign-in";
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

CollectiveCall AtPosition(CollectiveCall call, const RankPositionSlot& slot) {
  const uint64_t word = slot.word.load(std::memory_order_relaxed);
  // The position of a rank that has ended is where it ended.
  const bool runs =
      slot.state.load(std::memory_order_relaxed) == RankState::kRunning;
  call.position = runs && RankPosition::Unpack(word).inside ? word : 0;
  return call;
}

namespace {

// A rank whose call differs from those of most others, and one of the others.
struct Disagreement {
  size_t odd = 0, other = 0;  // indices in the group
};

std::optional<Disagreement> FindDisagreement(
    absl::Span<const CollectiveCall> calls) {
  for (size_t i = 1; i < calls.size(); ++i) {
    if (calls[i] == calls[0]) continue;
    // If ranks 1 and 2 agree, rank 0 is the odd one.
    const bool first_is_odd = i + 1 < calls.size() && calls[i] == calls[i + 1];
    return first_is_odd ? Disagreement{0, i} : Disagreement{i, 0};
  }
  return std::nullopt;
}

// "rank 1 runs step 5 of program 2, where rank 0 runs step 6".
std::string PositionsText(int64_t odd_rank, const RankPosition& odd,
                          int64_t other_rank, const RankPosition& other) {
  const std::string odd_name = absl::StrCat("rank ", odd_rank);
  const std::string other_name = absl::StrCat(", where rank ", other_rank);
  if (!odd.inside || !other.inside) {
    const RankPosition& inside = odd.inside ? odd : other;
    const std::string step = absl::StrCat(" runs step ", inside.step,
                                          " of program ", inside.program);
    const std::string outside = " is outside of a step";
    return absl::StrCat(odd_name, odd.inside ? step : outside, other_name,
                        other.inside ? step : outside);
  }
  if (odd.program != other.program) {
    return absl::StrCat(odd_name, " runs step ", odd.step, " of program ",
                        odd.program, other_name, " runs step ", other.step,
                        " of program ", other.program);
  }
  if (odd.step != other.step) {
    return absl::StrCat(odd_name, " runs step ", odd.step, " of program ",
                        odd.program, other_name, " runs step ", other.step);
  }
  return absl::StrCat(odd_name, " is at collective ", odd.collective,
                      " of step ", odd.step, " of program ", odd.program,
                      other_name, " is at ", other.collective);
}

}  // namespace

absl::Status CheckSameCall(const Communicator::Group& group,
                           absl::Span<const CollectiveCall> calls) {
  const std::optional<Disagreement> found = FindDisagreement(calls);
  if (!found.has_value()) return absl::OkStatus();
  const auto [odd, other] = *found;
  const auto call_of = [&](size_t i) {
    return absl::StrCat("rank ", group.ranks[i], " calls ",
                        calls[i].ToString());
  };
  const std::string both = absl::StrCat(call_of(std::min(odd, other)), ", ",
                                        call_of(std::max(odd, other)));
  const bool same_position = calls[odd].position == calls[other].position;
  return absl::AbortedError(absl::StrCat(
      same_position
          ? absl::StrCat("ranks disagree on a collective: ", both)
          : absl::StrCat(
                PositionsText(group.ranks[odd],
                              RankPosition::Unpack(calls[odd].position),
                              group.ranks[other],
                              RankPosition::Unpack(calls[other].position)),
                DetailLine("calls", both)),
      DetailLine("group",
                 absl::StrCat("ranks ", absl::StrJoin(group.ranks, ","))),
      DetailLine("help",
                 same_position
                     ? "every rank must run the same program on the same shapes"
                     : "every rank must make the same calls of Run in the "
                       "same order")));
}

absl::StatusOr<bool> CompareSignIns(const Communicator::Group& group,
                                    absl::Span<const CollectiveCall> calls) {
  bool same = true, sign_ins = true;
  for (const CollectiveCall& call : calls) {
    same &= call == calls[0];
    sign_ins &= call.kind == CollectiveCall::kSignIn;
  }
  if (!sign_ins) return CheckSameCall(group, calls);
  return same;
}

}  // namespace mtf
