// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/shared_memory_collectives.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/communicators/pieces.h"
#include "backends/communicators/reduce_in_order.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf {
namespace {

constexpr int64_t kLine = 64;

// Above this size an all_reduce is shared out among more than two ranks, which
// costs a second meeting.
constexpr int64_t kSmallBytes = 8 << 10;

// Elements that AllReduceInPlace reduces at a time, before it hands them out:
// a part of the first-level cache.
constexpr int64_t kInPlaceBlock = 2048;

using Pointers = absl::InlinedVector<const void*, 16>;

const std::byte* Bytes(const void* p) {
  return static_cast<const std::byte*>(p);
}

}  // namespace

// One chunk of every rank's blocks, readable until the next meeting.
struct SharedMemoryCollectives::Chunk {
  const SharedMemoryCollectives* owner;
  const std::byte* in;
  int64_t block_bytes;
  bool direct;
  int64_t stride = 0;  // between blocks in a segment
  uint64_t turn = 0;
  int64_t offset = 0;  // of the chunk in a block
  int64_t bytes = 0;   // of one block

  const std::byte* Block(int place, int64_t block) const {
    if (place == owner->place_) return in + block * block_bytes + offset;
    if (direct) {
      const void* buffer = owner->slot(place, turn).buffer;
      return Bytes(buffer) + block * block_bytes + offset;
    }
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

absl::Status SharedMemoryCollectives::Meet(const CollectiveCall& call,
                                           const void* buffer) {
  Slot& mine = slot(place_, turn_);
  mine.call = call;
  mine.buffer = buffer;
  mine.meeting.store(turn_ + 1, std::memory_order_relaxed);
  switch (barrier_->Arrive(size_, options_.wait)) {
    case GroupBarrier::Outcome::kPassed:
      break;
    case GroupBarrier::Outcome::kBroken:
      return absl::AbortedError("another rank failed");
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

void SharedMemoryCollectives::Leave() {
  barrier_->Arrive(size_, {.spins = options_.wait.spins});
}

absl::Status SharedMemoryCollectives::TimeoutError() const {
  std::vector<int64_t> missing;
  for (int p = 0; p < size_; ++p) {
    if (slot(p, turn_).meeting.load(std::memory_order_relaxed) != turn_ + 1) {
      missing.push_back(group_.ranks[p]);
    }
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "rank ", group_.ranks[place_], " waited ", options_.wait.timeout_seconds,
      " s for rank ", absl::StrJoin(missing, ", "), " to join ",
      slot(place_, turn_).call.ToString(),
      "\n  help  MTF_COLLECTIVE_TIMEOUT sets the seconds, 0 waits for ever"));
}

absl::Status SharedMemoryCollectives::ForEachChunk(
    const CollectiveCall& call, const void* in, int64_t blocks,
    int64_t block_bytes, absl::FunctionRef<void(const Chunk&)> use) {
  Chunk chunk{.owner = this,
              .in = Bytes(in),
              .block_bytes = block_bytes,
              .direct = options_.peers_readable &&
                        blocks * block_bytes > options_.segment_bytes};
  if (chunk.direct) {
    chunk.bytes = block_bytes;
    chunk.turn = turn_;
    MTF_RETURN_IF_ERROR(Meet(call, in));
    use(chunk);
    Leave();
    return absl::OkStatus();
  }
  chunk.stride = options_.segment_bytes / blocks / kLine * kLine;
  do {
    chunk.bytes = std::min(chunk.stride, block_bytes - chunk.offset);
    chunk.turn = turn_;
    for (int64_t b = 0; b < blocks && chunk.bytes > 0; ++b) {
      if (blocks > 1 && b == place_) continue;  // only this rank reads it
      std::memcpy(segment(place_, turn_) + b * chunk.stride,
                  Bytes(in) + b * block_bytes + chunk.offset, chunk.bytes);
    }
    MTF_RETURN_IF_ERROR(Meet(call, nullptr));
    if (chunk.bytes > 0) use(chunk);
    chunk.offset += chunk.bytes;
  } while (chunk.offset < block_bytes);
  return absl::OkStatus();
}

absl::Status SharedMemoryCollectives::AllGather(const void* in, void* out,
                                                int64_t bytes) {
  return ForEachChunk(CallOf(CollectiveKind::kAllGather, bytes), in, 1, bytes,
                      [&](const Chunk& chunk) {
                        for (int p = 0; p < size_; ++p) {
                          std::byte* to = static_cast<std::byte*>(out) +
                                          p * bytes + chunk.offset;
                          const std::byte* from = chunk.Block(p, 0);
                          if (to != from) std::memcpy(to, from, chunk.bytes);
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
  return ForEachChunk(
      CallOf(CollectiveKind::kAllToAll, bytes), in, size_, bytes,
      [&](const Chunk& chunk) {
        for (int p = 0; p < size_; ++p) {
          std::memcpy(static_cast<std::byte*>(out) + p * bytes + chunk.offset,
                      chunk.Block(p, place_), chunk.bytes);
        }
      });
}

absl::Status SharedMemoryCollectives::Permute(const void* in, void* out,
                                              int64_t bytes, int source, int) {
  return ForEachChunk(CallOf(CollectiveKind::kCollectivePermute, bytes), in, 1,
                      bytes, [&](const Chunk& chunk) {
                        std::memcpy(static_cast<std::byte*>(out) + chunk.offset,
                                    chunk.Block(source, 0), chunk.bytes);
                      });
}

absl::Status SharedMemoryCollectives::Barrier() {
  return Meet(BarrierCall(), nullptr);
}

absl::Status SharedMemoryCollectives::AllReduce(
    absl::Span<const Communicator::Piece> pieces, DType dtype,
    ReduceKind kind) {
  int64_t total = 0;
  for (const Communicator::Piece& piece : pieces) total += piece.count;
  const CollectiveCall call =
      CallOf(CollectiveKind::kAllReduce, total, dtype, kind, pieces.size());
  if (options_.peers_readable && total * DTypeSize(dtype) > kSmallBytes) {
    return AllReduceInPlace(call, pieces, total, dtype, kind);
  }
  return AllReduceThroughSegments(call, pieces, total, dtype, kind);
}

// Each rank reduces its part of the elements and writes it into the outputs of
// all. `in` may be `out`: nobody else reads this part.
absl::Status SharedMemoryCollectives::AllReduceInPlace(
    const CollectiveCall& call, absl::Span<const Communicator::Piece> pieces,
    int64_t total, DType dtype, ReduceKind kind) {
  const int64_t size = DTypeSize(dtype);
  const uint64_t turn = turn_;
  MTF_RETURN_IF_ERROR(Meet(call, pieces.data()));
  absl::InlinedVector<const Communicator::Piece*, 16> of_place(size_);
  for (int p = 0; p < size_; ++p) {
    of_place[p] = static_cast<const Communicator::Piece*>(slot(p, turn).buffer);
  }
  Pointers sources(size_);
  alignas(kLine) std::byte sum[kInPlaceBlock * 8];
  const int64_t end = PartBegin(total, size_, place_ + 1);
  for (int64_t begin = PartBegin(total, size_, place_); begin < end;
       begin += kInPlaceBlock) {
    ForEachPart(pieces, begin, std::min(kInPlaceBlock, end - begin),
                [&](size_t i, int64_t first, int64_t, int64_t n) {
                  for (int p = 0; p < size_; ++p) {
                    sources[p] = Bytes(of_place[p][i].in) + first * size;
                  }
                  ReduceInOrder(dtype, kind, sources, sum, n);
                  for (int p = 0; p < size_; ++p) {
                    std::memcpy(static_cast<std::byte*>(of_place[p][i].out) +
                                    first * size,
                                sum, n * size);
                  }
                });
  }
  Leave();
  return absl::OkStatus();
}

absl::Status SharedMemoryCollectives::AllReduceThroughSegments(
    const CollectiveCall& call, absl::Span<const Communicator::Piece> pieces,
    int64_t total, DType dtype, ReduceKind kind) {
  const int64_t size = DTypeSize(dtype);
  const int64_t per_chunk = options_.segment_bytes / size;
  Pointers sources(size_);
  int64_t begin = 0;
  do {
    const int64_t n = std::min(per_chunk, total - begin);
    const uint64_t turn = turn_;
    PackPieces(pieces, begin, n, size, segment(place_, turn));
    MTF_RETURN_IF_ERROR(Meet(call, nullptr));
    if (size_ <= 2 || n * size <= kSmallBytes) {
      // Everyone reduces everything: one meeting, and with two ranks fewer
      // bytes moved than by sharing the work.
      ForEachPart(pieces, begin, n,
                  [&](size_t i, int64_t first, int64_t before, int64_t count) {
                    for (int p = 0; p < size_; ++p) {
                      sources[p] = segment(p, turn) + before * size;
                    }
                    ReduceInOrder(
                        dtype, kind, sources,
                        static_cast<std::byte*>(pieces[i].out) + first * size,
                        count);
                  });
    } else {
      // Each rank reduces its part, in place, and then all copy all parts.
      const int64_t first = PartBegin(n, size_, place_);
      for (int p = 0; p < size_; ++p) {
        sources[p] = segment(p, turn) + first * size;
      }
      ReduceInOrder(dtype, kind, sources, segment(place_, turn) + first * size,
                    PartBegin(n, size_, place_ + 1) - first);
      Leave();
      for (int p = 0; p < size_; ++p) {
        const int64_t part = PartBegin(n, size_, p);
        UnpackPieces(segment(p, turn) + part * size, pieces, begin + part,
                     PartBegin(n, size_, p + 1) - part, size);
      }
    }
    begin += n;
  } while (begin < total);
  return absl::OkStatus();
}

void SharedMemoryCollectives::Reset() {
  turn_ = 0;
  barrier_->Reset();
}

}  // namespace mtf
