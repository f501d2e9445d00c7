// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/mpi/mpi_collectives.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "absl/container/inlined_vector.h"
#include "backends/communicators/copy_bytes.h"
#include "backends/communicators/mpi/mpi_call.h"
#include "backends/communicators/rank_errors.h"
#include "backends/communicators/reduce_buffers.h"
#include "backends/communicators/reduce_in_order.h"
#include "backends/communicators/wait_options.h"
#include "mtf/status.h"

namespace mtf {
namespace {

// Up to this size every rank sends its whole input to every other and reduces
// all of it: more bytes, but one message latency less.
constexpr int64_t kSmallBytes = 4 << 10;

// The collectives of a group run in order, so one tag is enough.
constexpr int kTag = 0;

// Pointers to `count` blocks, `stride` bytes apart.
absl::InlinedVector<const void*, 16> Blocks(const std::byte* first, int count,
                                            int64_t stride) {
  absl::InlinedVector<const void*, 16> blocks(count);
  for (int i = 0; i < count; ++i) blocks[i] = first + i * stride;
  return blocks;
}

void Grow(std::vector<std::byte>& scratch, int64_t bytes) {
  if (static_cast<int64_t>(scratch.size()) < bytes) scratch.resize(bytes);
}

}  // namespace

MpiCollectives::MpiCollectives(const Communicator::Group& group, MPI_Comm comm,
                               int64_t chunk_bytes,
                               absl::Span<RankPositionSlot* const> slots)
    : group_(group),
      size_(static_cast<int>(group.ranks.size())),
      index_(group.index),
      comm_(comm),
      chunk_bytes_(chunk_bytes),
      slots_(slots),
      own_slot_(*slots[group.ranks[group.index]]) {}

absl::Status MpiCollectives::Announce(const CollectiveCall& unplaced) {
  const CollectiveCall call = AtPosition(unplaced, own_slot_);
  std::vector<CollectiveCall> calls(size_);
  MTF_RETURN_IF_MPI_ERROR(MPI_Allgather(&call, sizeof(call), MPI_BYTE,
                                        calls.data(), sizeof(call), MPI_BYTE,
                                        comm_));
  return CheckSameCall(group_, calls);
}

absl::Status MpiCollectives::SendReceive(const void* in, int destination,
                                         void* out, int source, int64_t bytes) {
  for (int64_t done = 0; done < bytes; done += chunk_bytes_) {
    const int n = static_cast<int>(std::min(chunk_bytes_, bytes - done));
    MTF_RETURN_IF_MPI_ERROR(
        MPI_Sendrecv(static_cast<const std::byte*>(in) + done, n, MPI_BYTE,
                     destination, kTag, static_cast<std::byte*>(out) + done, n,
                     MPI_BYTE, source, kTag, comm_, MPI_STATUS_IGNORE));
  }
  return absl::OkStatus();
}

absl::Status MpiCollectives::AllToAllBlocks(const std::byte* in,
                                            int64_t in_stride, std::byte* out,
                                            int64_t out_stride, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  const int n = static_cast<int>(std::min(bytes, chunk_bytes_));
  if (bytes * size_ <= chunk_bytes_ && out_stride == bytes) {
    // Use MPI's own algorithms if the counts fit.
    if (in_stride == 0) {
      const bool in_place = in == out + index_ * bytes;
      MTF_RETURN_IF_MPI_ERROR(MPI_Allgather(in_place ? MPI_IN_PLACE : in, n,
                                            MPI_BYTE, out, n, MPI_BYTE, comm_));
      return absl::OkStatus();
    }
    if (in_stride == bytes) {
      MTF_RETURN_IF_MPI_ERROR(
          MPI_Alltoall(in, n, MPI_BYTE, out, n, MPI_BYTE, comm_));
      return absl::OkStatus();
    }
  }
  // Pairwise: in step s, rank i of the group sends to rank i + s, so that all
  // links are busy and no rank receives from two at a time.
  std::byte* own = out + index_ * out_stride;
  const std::byte* from = in + index_ * in_stride;
  if (own != from) CopyBytes(own, from, bytes);
  for (int step = 1; step < size_; ++step) {
    const int destination = (index_ + step) % size_;
    const int source = (index_ + size_ - step) % size_;
    MTF_RETURN_IF_ERROR(SendReceive(in + destination * in_stride, destination,
                                    out + source * out_stride, source, bytes));
  }
  return absl::OkStatus();
}

absl::Status MpiCollectives::AllReduce(
    absl::Span<const Communicator::ReduceBuffer> buffers, DType dtype,
    ReduceKind kind) {
  const int64_t element = DTypeSize(dtype);
  int64_t total = 0;
  for (const Communicator::ReduceBuffer& buffer : buffers)
    total += buffer.count;
  MTF_RETURN_IF_ERROR(Announce(
      CallOf(CollectiveKind::kAllReduce, total, dtype, kind, buffers.size())));
  const bool small = total * element <= kSmallBytes;
  // A multiple of the number of ranks, so that shares are equal.
  const int64_t per_chunk =
      std::max<int64_t>(1, chunk_bytes_ / size_ / element) * size_;
  for (int64_t begin = 0; begin < total; begin += per_chunk) {
    const int64_t count = std::min(per_chunk, total - begin);
    // Equal shares with the last one padded, for a regular all_to_all.
    const int64_t share = small ? count : (count + size_ - 1) / size_;
    const int64_t share_bytes = share * element;
    Grow(mine_, std::max(count * element, small ? 0 : share_bytes * size_));
    Grow(theirs_, share_bytes * size_);
    PackBuffers(buffers, begin, count, element, mine_.data(), CopyBytes);
    MTF_RETURN_IF_ERROR(AllToAllBlocks(mine_.data(), small ? 0 : share_bytes,
                                       theirs_.data(), share_bytes,
                                       share_bytes));
    std::byte* sum = mine_.data() + (small ? 0 : index_ * share_bytes);
    ReduceInOrder(dtype, kind, Blocks(theirs_.data(), size_, share_bytes), sum,
                  share);
    if (!small) {
      MTF_RETURN_IF_ERROR(
          AllToAllBlocks(sum, 0, mine_.data(), share_bytes, share_bytes));
    }
    UnpackBuffers(mine_.data(), buffers, begin, count, element);
  }
  return absl::OkStatus();
}

absl::Status MpiCollectives::AllGather(const void* in, void* out,
                                       int64_t bytes) {
  MTF_RETURN_IF_ERROR(Announce(CallOf(CollectiveKind::kAllGather, bytes)));
  return AllToAllBlocks(static_cast<const std::byte*>(in), 0,
                        static_cast<std::byte*>(out), bytes, bytes);
}

absl::Status MpiCollectives::ReduceScatter(const void* in, void* out,
                                           int64_t count, DType dtype,
                                           ReduceKind kind) {
  const int64_t element = DTypeSize(dtype);
  MTF_RETURN_IF_ERROR(
      Announce(CallOf(CollectiveKind::kReduceScatter, count, dtype, kind, 1)));
  const int64_t per_chunk =
      std::max<int64_t>(1, chunk_bytes_ / size_ / element);
  for (int64_t begin = 0; begin < count; begin += per_chunk) {
    const int64_t n = std::min(per_chunk, count - begin);
    Grow(theirs_, n * element * size_);
    MTF_RETURN_IF_ERROR(AllToAllBlocks(
        static_cast<const std::byte*>(in) + begin * element, count * element,
        theirs_.data(), n * element, n * element));
    ReduceInOrder(dtype, kind, Blocks(theirs_.data(), size_, n * element),
                  static_cast<std::byte*>(out) + begin * element, n);
  }
  return absl::OkStatus();
}

absl::Status MpiCollectives::AllToAll(const void* in, void* out,
                                      int64_t bytes) {
  MTF_RETURN_IF_ERROR(Announce(CallOf(CollectiveKind::kAllToAll, bytes)));
  return AllToAllBlocks(static_cast<const std::byte*>(in), bytes,
                        static_cast<std::byte*>(out), bytes, bytes);
}

absl::Status MpiCollectives::Permute(const void* in, void* out, int64_t bytes,
                                     int source, int destination) {
  MTF_RETURN_IF_ERROR(
      Announce(CallOf(CollectiveKind::kCollectivePermute, bytes)));
  return SendReceive(in, destination, out, source, bytes);
}

absl::Status MpiCollectives::Barrier() { return Announce(BarrierCall()); }

std::vector<int64_t> MpiCollectives::MissingFromSignIn() const {
  const uint32_t mine = own_slot_.sign_ins.load(std::memory_order_relaxed);
  std::vector<int64_t> missing;
  for (int64_t rank : group_.ranks) {
    if (slots_[rank] != nullptr &&
        slots_[rank]->sign_ins.load(std::memory_order_acquire) < mine) {
      missing.push_back(rank);
    }
  }
  return missing;
}

std::optional<int64_t> MpiCollectives::RankWaitedForInVain() const {
  for (int64_t rank : group_.ranks) {
    if (slots_[rank] != nullptr &&
        WaitsInVain(own_slot_.state.load(), slots_[rank]->state.load())) {
      return rank;
    }
  }
  return std::nullopt;
}

absl::Status MpiCollectives::WaitForSignIns(MPI_Request* request,
                                            double timeout) const {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  constexpr int kYields = 1000;
  // The last message of a rank that has ended may still be on its way.
  constexpr Seconds kDelay(0.2);
  const Clock::time_point begin = Clock::now();
  std::optional<Clock::time_point> in_vain_since;
  int done = 0;
  for (int looks = 0;; ++looks) {
    MTF_RETURN_IF_MPI_ERROR(MPI_Test(request, &done, MPI_STATUS_IGNORE));
    if (done) return absl::OkStatus();
    if (looks < kYields) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    const Clock::time_point now = Clock::now();
    if (const std::optional<int64_t> rank = RankWaitedForInVain()) {
      if (!in_vain_since.has_value()) in_vain_since = now;
      if (now - *in_vain_since < kDelay) continue;
      if (slots_[*rank]->state == RankState::kFailed)
        return AnotherRankFailed();
      return RankHasEnded(*rank, group_.ranks[index_], sent_);
    }
    if (timeout > 0 && now - begin > Seconds(timeout)) {
      return RanksAreLate(group_.ranks[index_], timeout, MissingFromSignIn(),
                          sent_);
    }
  }
}

absl::StatusOr<bool> MpiCollectives::SignIn(uint64_t fingerprint) {
  own_slot_.sign_ins.fetch_add(1, std::memory_order_release);
  sent_ = SignInCall(fingerprint);
  received_.resize(size_);
  MPI_Request request;
  MTF_RETURN_IF_MPI_ERROR(MPI_Iallgather(&sent_, sizeof(sent_), MPI_BYTE,
                                         received_.data(), sizeof(sent_),
                                         MPI_BYTE, comm_, &request));
  MTF_RETURN_IF_ERROR(WaitForSignIns(&request, CollectiveTimeout()));
  return CompareSignIns(group_, received_);
}

}  // namespace mtf
