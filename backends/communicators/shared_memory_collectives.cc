// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/shared_memory_collectives.h"

#include <algorithm>
#include <new>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/communicators/copy_bytes.h"
#include "backends/communicators/pieces.h"
#include "backends/communicators/reduce_in_order.h"
#include "backends/communicators/wait_options.h"
#include "layouts/text_items.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf {
namespace {

constexpr int64_t kLine = 64;

// Above this size an all_reduce is shared out among more than two ranks, which
// costs a second meeting.
constexpr int64_t kSmallBytes = 8 << 10;

// Results larger than this are out of the caches before anyone reads them, so
// they need not go through them.
constexpr int64_t kLargeResult = 8 << 20;

using Pointers = absl::InlinedVector<const void*, 16>;

absl::Status AbortedError() {
  return absl::AbortedError("another rank failed");
}

const std::byte* Bytes(const void* p) {
  return static_cast<const std::byte*>(p);
}

// How to copy parts of a result of `bytes` to where it goes.
decltype(CopyBytes)* CopyOfResult(int64_t bytes) {
  return bytes > kLargeResult ? StreamBytes : CopyBytes;
}

}  // namespace

// One chunk of every rank's blocks, readable until the next meeting.
struct SharedMemoryCollectives::Chunk {
  const SharedMemoryCollectives* owner;
  const std::byte* in;
  int64_t block_bytes;
  int64_t stride = 0;  // between blocks in a segment
  uint64_t turn = 0;
  int64_t offset = 0;  // of the chunk in a block
  int64_t bytes = 0;   // of one block

  const std::byte* Block(int place, int64_t block) const {
    if (place == owner->place_) return in + block * block_bytes + offset;
    return owner->segment(place, turn) + block * stride;
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
      place_(group.place),
      options_(options),
      // Zeroed memory is a barrier at rest and empty slots; making them here
      // again would wipe what a faster rank has written already.
      barrier_(static_cast<GroupBarrier*>(memory)),
      slots_(static_cast<std::byte*>(memory) + kLine),
      segments_(slots_ + 2 * size_ * sizeof(Slot)) {
  static_assert(sizeof(GroupBarrier) <= kLine);
}

SharedMemoryCollectives::Slot& SharedMemoryCollectives::slot(
    int place, uint64_t turn) const {
  return reinterpret_cast<Slot*>(slots_)[2 * place + (turn & 1)];
}

std::byte* SharedMemoryCollectives::segment(int place, uint64_t turn) const {
  return segments_ + (2 * place + (turn & 1)) * options_.segment_bytes;
}

absl::Status SharedMemoryCollectives::Meet(const CollectiveCall& call) {
  Slot& mine = slot(place_, turn_);
  mine.call = call;
  mine.meeting.store(turn_ + 1, std::memory_order_relaxed);
  switch (barrier_->Arrive(size_, options_.wait)) {
    case GroupBarrier::Outcome::kPassed:
      break;
    case GroupBarrier::Outcome::kBroken:
      return AbortedError();
    case GroupBarrier::Outcome::kTimedOut:
      return TimeoutError();
  }
  const uint64_t turn = turn_++;
  bool same = true;
  for (int p = 0; p < size_; ++p) same &= slot(p, turn).call == call;
  if (same) return absl::OkStatus();
  std::vector<CollectiveCall> calls;
  for (int p = 0; p < size_; ++p) calls.push_back(slot(p, turn).call);
  return CheckSameCall(group_, calls);
}

absl::Status SharedMemoryCollectives::TimeoutError() const {
  std::vector<int64_t> missing;
  for (int p = 0; p < size_; ++p) {
    if (slot(p, turn_).meeting.load(std::memory_order_relaxed) != turn_ + 1) {
      missing.push_back(group_.ranks[p]);
    }
  }
  absl::Status error = absl::DeadlineExceededError(absl::StrCat(
      "rank ", group_.ranks[place_], " waited ", options_.wait.timeout_seconds,
      " s for rank ", absl::StrJoin(missing, ", "), " to join ",
      slot(place_, turn_).call.ToString(),
      DetailLine("help", kCollectiveTimeoutHelp)));
  error.SetPayload(kMissingRanks, absl::Cord(absl::StrJoin(missing, ",")));
  return error;
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
      if (blocks > 1 && b == place_) continue;  // only this rank reads it
      StreamBytes(segment(place_, turn_) + b * chunk.stride,
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
        for (int p = 0; p < size_; ++p) sources[p] = chunk.Block(p, place_);
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
               chunk.Block(p, place_), chunk.bytes);
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
    absl::Span<const Communicator::Piece> pieces, DType dtype,
    ReduceKind kind) {
  int64_t total = 0;
  for (const Communicator::Piece& piece : pieces) total += piece.count;
  const CollectiveCall call =
      CallOf(CollectiveKind::kAllReduce, total, dtype, kind, pieces.size());
  const int64_t per_chunk = options_.segment_bytes / DTypeSize(dtype);
  int64_t begin = 0;
  do {  // once for nothing too: the others may have something
    const int64_t n = std::min(per_chunk, total - begin);
    MTF_RETURN_IF_ERROR(AllReduceChunk(call, pieces, begin, n, dtype, kind));
    begin += n;
  } while (begin < total);
  return absl::OkStatus();
}

absl::Status SharedMemoryCollectives::AllReduceChunk(
    const CollectiveCall& call, absl::Span<const Communicator::Piece> pieces,
    int64_t begin, int64_t n, DType dtype, ReduceKind kind) {
  const int64_t size = DTypeSize(dtype);
  // Everyone reduces everything: one meeting, and with two ranks fewer bytes
  // moved than by sharing the work. Otherwise each rank reduces its part, and
  // then all copy all parts. Only others read this rank's segment.
  const bool share = size_ > 2 && n * size > kSmallBytes;
  const int64_t part = share ? PartBegin(n, size_, place_) : 0;
  const int64_t end = share ? PartBegin(n, size_, place_ + 1) : n;
  const uint64_t turn = turn_;
  std::byte* mine = segment(place_, turn);
  PackPieces(pieces, begin, share ? part : n, size, mine, StreamBytes);
  PackPieces(pieces, begin + end, n - end, size, mine + end * size,
             StreamBytes);
  MTF_RETURN_IF_ERROR(Meet(call));
  Pointers sources(size_);
  ForEachPart(pieces, begin + part, end - part,
              [&](size_t i, int64_t first, int64_t before, int64_t count) {
                const int64_t offset = (part + before) * size;
                for (int p = 0; p < size_; ++p) {
                  sources[p] = segment(p, turn) + offset;
                }
                sources[place_] = Bytes(pieces[i].in) + first * size;
                std::byte* out =
                    static_cast<std::byte*>(pieces[i].out) + first * size;
                ReduceInOrder(dtype, kind, sources, out, count);
                if (share) StreamBytes(mine + offset, out, count * size);
              });
  if (!share) return absl::OkStatus();
  // Whoever passed the first meeting comes to this one.
  if (barrier_->Arrive(size_, options_.wait) !=
      GroupBarrier::Outcome::kPassed) {
    return AbortedError();
  }
  for (int p = 0; p < size_; ++p) {
    if (p == place_) continue;
    const int64_t first = PartBegin(n, size_, p);
    UnpackPieces(segment(p, turn) + first * size, pieces, begin + first,
                 PartBegin(n, size_, p + 1) - first, size);
  }
  return absl::OkStatus();
}

void SharedMemoryCollectives::Reset() {
  turn_ = 0;
  barrier_->Reset();
}

}  // namespace mtf
