// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/shared_memory_collectives.h"

#include <algorithm>
#include <new>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "backends/communicators/copy_bytes.h"
#include "backends/communicators/rank_errors.h"
#include "backends/communicators/reduce_buffers.h"
#include "backends/communicators/reduce_in_order.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf {
namespace {

constexpr int64_t kLine = 64;

// Above this size, and with more than two ranks, each rank of an all_reduce
// reduces a share, at the cost of a second barrier.
constexpr int64_t kSmallBytes = 8 << 10;

// Larger results are evicted from the caches before they are read, so they are
// written by streaming stores.
constexpr int64_t kLargeResult = 8 << 20;

using Pointers = absl::InlinedVector<const void*, 16>;

const std::byte* Bytes(const void* p) {
  return static_cast<const std::byte*>(p);
}

// The function that copies to a result of `bytes`.
decltype(CopyBytes)* CopyOfResult(int64_t bytes) {
  return bytes > kLargeResult ? StreamBytes : CopyBytes;
}

}  // namespace

// One chunk of every rank's blocks, readable until the next barrier.
struct SharedMemoryCollectives::Chunk {
  const SharedMemoryCollectives* owner;
  const std::byte* in;
  int64_t block_bytes;
  int64_t stride = 0;  // between blocks in a segment
  uint64_t turn = 0;
  int64_t offset = 0;  // of the chunk in a block
  int64_t bytes = 0;   // of the chunk in each block

  // The chunk of block `block` of rank `index` of the group.
  const std::byte* Block(int index, int64_t block) const {
    if (index == owner->index_) return in + block * block_bytes + offset;
    return owner->segment(index, turn) + block * stride;
  }
};

int64_t SharedMemoryCollectives::MemoryBytes(int size, int64_t* segment_bytes) {
  *segment_bytes = std::max(*segment_bytes, size * kLine);
  *segment_bytes = (*segment_bytes + kLine - 1) / kLine * kLine;
  const int64_t slot_bytes = sizeof(Slot);
  return kLine + 2 * size * (slot_bytes + *segment_bytes);
}

SharedMemoryCollectives::SharedMemoryCollectives(
    const Communicator::Group& group, void* memory, const Options& options)
    : group_(group),
      size_(static_cast<int>(group.ranks.size())),
      index_(group.index),
      options_(options),
      // Zeroed memory is a valid initial state. Constructing the objects here
      // would overwrite what a faster rank has already written.
      barrier_(static_cast<GroupBarrier*>(memory)),
      slots_(static_cast<std::byte*>(memory) + kLine),
      segments_(slots_ + 2 * size_ * sizeof(Slot)) {
  static_assert(sizeof(GroupBarrier) <= kLine);
  for (int64_t rank : group_.ranks) positions_.push_back(options_.slots[rank]);
}

SharedMemoryCollectives::Slot& SharedMemoryCollectives::slot(
    int index, uint64_t turn) const {
  return reinterpret_cast<Slot*>(slots_)[2 * index + (turn & 1)];
}

std::byte* SharedMemoryCollectives::segment(int index, uint64_t turn) const {
  return segments_ + (2 * index + (turn & 1)) * options_.segment_bytes;
}

absl::Status SharedMemoryCollectives::Announce(const CollectiveCall& call) {
  Slot& mine = slot(index_, turn_);
  mine.call = call;
  mine.round.store(turn_ + 1, std::memory_order_relaxed);
  MTF_RETURN_IF_ERROR(WaitForAll(turn_));
  ++turn_;
  return absl::OkStatus();
}

std::vector<CollectiveCall> SharedMemoryCollectives::AnnouncedCalls() const {
  std::vector<CollectiveCall> calls;
  for (int p = 0; p < size_; ++p) calls.push_back(slot(p, turn_ - 1).call);
  return calls;
}

absl::Status SharedMemoryCollectives::Meet(const CollectiveCall& unplaced) {
  const CollectiveCall call = AtPosition(unplaced, *positions_[index_]);
  MTF_RETURN_IF_ERROR(Announce(call));
  bool same = true;
  for (int p = 0; p < size_; ++p) same &= slot(p, turn_ - 1).call == call;
  return same ? absl::OkStatus() : CheckSameCall(group_, AnnouncedCalls());
}

absl::StatusOr<bool> SharedMemoryCollectives::SignIn(uint64_t fingerprint) {
  MTF_RETURN_IF_ERROR(Announce(SignInCall(fingerprint)));
  return CompareSignIns(group_, AnnouncedCalls());
}

absl::Status SharedMemoryCollectives::WaitForAll(uint64_t turn) {
  const auto is_hopeless = [&] {
    for (int p : Missing(turn)) {
      if (WaitsInVain(StateOf(index_), StateOf(p))) return true;
    }
    return false;
  };
  switch (barrier_->Arrive(size_, options_.wait, is_hopeless)) {
    case GroupBarrier::Outcome::kPassed:
      return absl::OkStatus();
    case GroupBarrier::Outcome::kTimedOut:
      return TimeoutError(turn);
    case GroupBarrier::Outcome::kHopeless:
      return HopelessError(turn);
    case GroupBarrier::Outcome::kBroken:
      break;
  }
  return AnotherRankFailed();
}

RankState SharedMemoryCollectives::StateOf(int index) const {
  const RankPositionSlot* slot = positions_[index];
  return slot == nullptr ? RankState::kRunning
                         : slot->state.load(std::memory_order_acquire);
}

std::vector<int> SharedMemoryCollectives::Missing(uint64_t turn) const {
  std::vector<int> missing;
  for (int p = 0; p < size_; ++p) {
    if (slot(p, turn).round.load(std::memory_order_relaxed) != turn + 1) {
      missing.push_back(p);
    }
  }
  return missing;
}

absl::Status SharedMemoryCollectives::TimeoutError(uint64_t turn) const {
  std::vector<int64_t> missing;
  for (int p : Missing(turn)) missing.push_back(group_.ranks[p]);
  return RanksAreLate(group_.ranks[index_], options_.wait.timeout_seconds,
                      missing, slot(index_, turn).call);
}

absl::Status SharedMemoryCollectives::HopelessError(uint64_t turn) const {
  for (int p : Missing(turn)) {
    const RankState state = StateOf(p);
    if (state == RankState::kRunning || state == RankState::kFailed) continue;
    const CollectiveCall& call = slot(index_, turn).call;
    return RankHasEnded(group_.ranks[p], group_.ranks[index_], call);
  }
  return AnotherRankFailed();
}

absl::Status SharedMemoryCollectives::ForEachChunk(
    const CollectiveCall& call, const void* in, int64_t blocks,
    int64_t block_bytes, absl::FunctionRef<void(const Chunk&)> use) {
  Chunk chunk{.owner = this, .in = Bytes(in), .block_bytes = block_bytes};
  chunk.stride = options_.segment_bytes / blocks / kLine * kLine;
  do {
    chunk.bytes = std::min(chunk.stride, block_bytes - chunk.offset);
    chunk.turn = turn_;
    for (int64_t b = 0; b < blocks && chunk.bytes > 0; ++b) {
      if (blocks > 1 && b == index_) continue;  // only this rank reads it
      StreamBytes(segment(index_, turn_) + b * chunk.stride,
                  Bytes(in) + b * block_bytes + chunk.offset, chunk.bytes);
    }
    MTF_RETURN_IF_ERROR(Meet(call));
    if (chunk.bytes > 0) use(chunk);
    chunk.offset += chunk.bytes;
  } while (chunk.offset < block_bytes);
  return absl::OkStatus();
}

absl::Status SharedMemoryCollectives::AllGather(const void* in, void* out,
                                                int64_t bytes) {
  const auto copy = CopyOfResult(size_ * bytes);
  return ForEachChunk(CallOf(CollectiveKind::kAllGather, bytes), in, 1, bytes,
                      [&](const Chunk& chunk) {
                        for (int p = 0; p < size_; ++p) {
                          std::byte* to = static_cast<std::byte*>(out) +
                                          p * bytes + chunk.offset;
                          const std::byte* from = chunk.Block(p, 0);
                          if (to != from) copy(to, from, chunk.bytes);
                        }
                      });
}

absl::Status SharedMemoryCollectives::ReduceScatter(const void* in, void* out,
                                                    int64_t count, DType dtype,
                                                    ReduceKind kind) {
  const int64_t size = DTypeSize(dtype);
  return ForEachChunk(
      CallOf(CollectiveKind::kReduceScatter, count, dtype, kind, 1), in, size_,
      count * size, [&](const Chunk& chunk) {
        Pointers sources(size_);
        for (int p = 0; p < size_; ++p) sources[p] = chunk.Block(p, index_);
        ReduceInOrder(dtype, kind, sources,
                      static_cast<std::byte*>(out) + chunk.offset,
                      chunk.bytes / size);
      });
}

absl::Status SharedMemoryCollectives::AllToAll(const void* in, void* out,
                                               int64_t bytes) {
  const auto copy = CopyOfResult(size_ * bytes);
  return ForEachChunk(
      CallOf(CollectiveKind::kAllToAll, bytes), in, size_, bytes,
      [&](const Chunk& chunk) {
        for (int p = 0; p < size_; ++p) {
          copy(static_cast<std::byte*>(out) + p * bytes + chunk.offset,
               chunk.Block(p, index_), chunk.bytes);
        }
      });
}

absl::Status SharedMemoryCollectives::Permute(const void* in, void* out,
                                              int64_t bytes, int source, int) {
  const auto copy = CopyOfResult(bytes);
  return ForEachChunk(CallOf(CollectiveKind::kCollectivePermute, bytes), in, 1,
                      bytes, [&](const Chunk& chunk) {
                        copy(static_cast<std::byte*>(out) + chunk.offset,
                             chunk.Block(source, 0), chunk.bytes);
                      });
}

absl::Status SharedMemoryCollectives::Barrier() { return Meet(BarrierCall()); }

absl::Status SharedMemoryCollectives::AllReduce(
    absl::Span<const Communicator::ReduceBuffer> buffers, DType dtype,
    ReduceKind kind) {
  int64_t total = 0;
  for (const Communicator::ReduceBuffer& buffer : buffers)
    total += buffer.count;
  const CollectiveCall call =
      CallOf(CollectiveKind::kAllReduce, total, dtype, kind, buffers.size());
  const int64_t per_chunk = options_.segment_bytes / DTypeSize(dtype);
  int64_t begin = 0;
  do {  // at least once: all ranks must compare their calls
    const int64_t n = std::min(per_chunk, total - begin);
    MTF_RETURN_IF_ERROR(AllReduceChunk(call, buffers, begin, n, dtype, kind));
    begin += n;
  } while (begin < total);
  return absl::OkStatus();
}

absl::Status SharedMemoryCollectives::AllReduceChunk(
    const CollectiveCall& call,
    absl::Span<const Communicator::ReduceBuffer> buffers, int64_t begin,
    int64_t n, DType dtype, ReduceKind kind) {
  const int64_t size = DTypeSize(dtype);
  // With two ranks or few bytes every rank reduces all elements: one barrier,
  // and with two ranks fewer bytes than sharing the work. Otherwise each rank
  // reduces its share, and all ranks copy the shares of the others. A rank does
  // not read its own segment, so its own share need not be copied there.
  const bool share = size_ > 2 && n * size > kSmallBytes;
  const int64_t first_own = share ? ShareBegin(n, size_, index_) : 0;
  const int64_t end = share ? ShareBegin(n, size_, index_ + 1) : n;
  const uint64_t turn = turn_;
  std::byte* mine = segment(index_, turn);
  PackBuffers(buffers, begin, share ? first_own : n, size, mine, StreamBytes);
  PackBuffers(buffers, begin + end, n - end, size, mine + end * size,
              StreamBytes);
  MTF_RETURN_IF_ERROR(Meet(call));
  Pointers sources(size_);
  ForEachSpan(buffers, begin + first_own, end - first_own,
              [&](size_t i, int64_t first, int64_t before, int64_t count) {
                const int64_t offset = (first_own + before) * size;
                for (int p = 0; p < size_; ++p) {
                  sources[p] = segment(p, turn) + offset;
                }
                sources[index_] = Bytes(buffers[i].in) + first * size;
                std::byte* out =
                    static_cast<std::byte*>(buffers[i].out) + first * size;
                ReduceInOrder(dtype, kind, sources, out, count);
                if (share) StreamBytes(mine + offset, out, count * size);
              });
  if (!share) return absl::OkStatus();
  // Every rank that passed the first barrier reaches this one.
  MTF_RETURN_IF_ERROR(WaitForAll(turn));
  for (int p = 0; p < size_; ++p) {
    if (p == index_) continue;
    const int64_t first = ShareBegin(n, size_, p);
    UnpackBuffers(segment(p, turn) + first * size, buffers, begin + first,
                  ShareBegin(n, size_, p + 1) - first, size);
  }
  return absl::OkStatus();
}

void SharedMemoryCollectives::Reset() {
  turn_ = 0;
  for (uint64_t turn : {0, 1}) slot(index_, turn).round.store(0);
  barrier_->Reset();
}

}  // namespace mtf
