// SPDX-License-Identifier: Apache-2.0
#include "backends/communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mtf/status.h"

namespace mtf {
namespace {

bool Contains(const Communicator::Group& group, int64_t rank) {
  return std::find(group.ranks.begin(), group.ranks.end(), rank) !=
         group.ranks.end();
}

absl::Status CheckSize(CollectiveKind kind, int64_t size) {
  if (size >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(CollectiveName(kind), " of ", size, " elements or bytes"));
}

}  // namespace

absl::StatusOr<const Communicator::Group*> Communicator::GroupOver(
    const AxisList& axes, bool replicated_outside, bool asynchronous) {
  replicated_outside = replicated_outside && !reduces_in_order();
  // If every sum is in rank order anyway, the flags need no separate groups.
  asynchronous = asynchronous && !reduces_in_order();
  for (const auto& group : groups_) {
    if (group->axes == axes && group->asynchronous == asynchronous &&
        group->replicated_outside == replicated_outside) {
      return group.get();
    }
  }
  for (int i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= mesh_.num_axes() ||
        axes.Prefix(i).Contains(axes[i])) {
      return absl::InvalidArgumentError(absl::StrCat(
          "axes ", absl::StrJoin(axes, ","), " of mesh \"", mesh_.ToString(),
          "\" name an axis twice or one that ", "the mesh lacks"));
    }
  }
  auto group = std::make_unique<Group>();
  group->id = static_cast<int>(groups_.size());
  group->axes = axes;
  group->ranks = mesh_.Group(rank_, axes);
  group->index = static_cast<int>(mesh_.Coordinate(rank_, axes));
  group->replicated_outside = replicated_outside;
  group->asynchronous = asynchronous;
  if (group->ranks.size() > 1) MTF_RETURN_IF_ERROR(OpenGroup(*group));
  groups_.push_back(std::move(group));
  return groups_.back().get();
}

std::optional<RankPosition> Communicator::PositionOf(int64_t rank) const {
  const RankPositionSlot* slot = rank == rank_ ? position_ : nullptr;
  if (slot == nullptr && rank >= 0 &&
      rank < static_cast<int64_t>(positions_.size())) {
    slot = positions_[rank];
  }
  if (slot == nullptr) return std::nullopt;
  return RankPosition::Unpack(slot->word.load(std::memory_order_relaxed));
}

void Communicator::KeepPositions(std::vector<RankPositionSlot*> slots) {
  positions_ = std::move(slots);
  if (positions_[rank_] != nullptr) position_ = positions_[rank_];
  SetPosition({});
}

void Communicator::SharePositions(const Communicator& other) {
  positions_ = other.positions_;
  position_ = other.position_;
}

void Communicator::AddCounts(const CollectiveCounts& counts) {
  for (const auto& [key, more] : counts) {
    CollectiveCount& count = counts_[key];
    count.calls += more.calls;
    count.bytes += more.bytes;
  }
}

absl::StatusOr<bool> Communicator::SignIn(uint64_t fingerprint) {
  const std::string mine = absl::StrCat(fingerprint);
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> all, AllGatherText(mine));
  return std::count(all.begin(), all.end(), mine) == size();
}

absl::Status Communicator::DoCopy(const void* in, void* out, int64_t bytes) {
  if (in != out && bytes > 0) std::memcpy(out, in, bytes);
  return absl::OkStatus();
}

void Communicator::Count(CollectiveKind kind, const Group& group,
                         int64_t operand_bytes) {
  CollectiveCount& count = counts_[{kind, SetOf(group.axes)}];
  ++count.calls;
  count.bytes +=
      WireBytes(kind, static_cast<int64_t>(group.ranks.size()), operand_bytes);
}

absl::Status Communicator::AllReduce(const Group& group,
                                     absl::Span<const ReduceBuffer> buffers,
                                     DType dtype, ReduceKind kind) {
  int64_t bytes = 0;
  for (const ReduceBuffer& buffer : buffers) {
    MTF_RETURN_IF_ERROR(CheckSize(CollectiveKind::kAllReduce, buffer.count));
    bytes += buffer.count * DTypeSize(dtype);
  }
  Count(CollectiveKind::kAllReduce, group, bytes);
  if (group.ranks.size() > 1) return DoAllReduce(group, buffers, dtype, kind);
  for (const ReduceBuffer& buffer : buffers) {
    MTF_RETURN_IF_ERROR(
        DoCopy(buffer.in, buffer.out, buffer.count * DTypeSize(dtype)));
  }
  return absl::OkStatus();
}

absl::Status Communicator::AllGather(const Group& group, const void* in,
                                     void* out, int64_t bytes) {
  MTF_RETURN_IF_ERROR(CheckSize(CollectiveKind::kAllGather, bytes));
  Count(CollectiveKind::kAllGather, group, bytes);
  if (group.ranks.size() == 1) return DoCopy(in, out, bytes);
  return DoAllGather(group, in, out, bytes);
}

absl::Status Communicator::ReduceScatter(const Group& group, const void* in,
                                         void* out, int64_t count, DType dtype,
                                         ReduceKind kind) {
  MTF_RETURN_IF_ERROR(CheckSize(CollectiveKind::kReduceScatter, count));
  const int64_t bytes = count * DTypeSize(dtype);
  Count(CollectiveKind::kReduceScatter, group,
        bytes * static_cast<int64_t>(group.ranks.size()));
  if (group.ranks.size() == 1) return DoCopy(in, out, bytes);
  return DoReduceScatter(group, in, out, count, dtype, kind);
}

absl::Status Communicator::AllToAll(const Group& group, const void* in,
                                    void* out, int64_t bytes) {
  MTF_RETURN_IF_ERROR(CheckSize(CollectiveKind::kAllToAll, bytes));
  Count(CollectiveKind::kAllToAll, group,
        bytes * static_cast<int64_t>(group.ranks.size()));
  if (group.ranks.size() == 1) return DoCopy(in, out, bytes);
  return DoAllToAll(group, in, out, bytes);
}

absl::Status Communicator::Permute(const Group& group, const void* in,
                                   void* out, int64_t bytes, int64_t source,
                                   int64_t destination) {
  MTF_RETURN_IF_ERROR(CheckSize(CollectiveKind::kCollectivePermute, bytes));
  if (!Contains(group, source) || !Contains(group, destination)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "collective_permute from rank ", source, " to rank ", destination,
        " in the group of ranks ", absl::StrJoin(group.ranks, ",")));
  }
  Count(CollectiveKind::kCollectivePermute, group, bytes);
  if (group.ranks.size() == 1) return DoCopy(in, out, bytes);
  return DoPermute(group, in, out, bytes, source, destination);
}

}  // namespace mtf
