// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/communicators/loopback.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "backends/communicators/collective_call.h"
#include "backends/cuda/communicators/loopback_kernels.h"
#include "backends/cuda/communicators/recorded_segment.h"
#include "layouts/text_items.h"
#include "mtf/exceptions.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

using Stage = RecordedSegment::Stage;

// State shared by the virtual devices of one process. Each rank writes its slot
// before a meeting and reads the others' slots until the next one.
struct Meeting {
  Meeting(Runtime& runtime, int64_t ranks)
      : kernels(runtime), slots(ranks), stages(ranks) {}

  struct Slot {
    CollectiveCall call;
    absl::Span<const Communicator::ReduceBuffer> buffers;
    const void* in = nullptr;
    void* out = nullptr;
    int64_t destination = 0;
  };
  LoopbackKernels kernels;
  std::vector<Slot> slots;    // by rank
  std::vector<Stage> stages;  // by rank, of the next segment
  // Number of ranks that have enqueued the work to record, or failed to.
  std::atomic<int64_t> enqueued{0};
  // Written by rank 0 only.
  absl::Status began;
  std::shared_ptr<Recording> recording;
};

class Loopback : public Connection {
 public:
  Loopback(std::shared_ptr<Runtime> runtime, Communicator& host,
           std::shared_ptr<Meeting> meeting)
      : Connection(std::move(runtime), host), meeting_(std::move(meeting)) {}

  absl::Status RunOrReplay(const std::function<absl::Status()>& work,
                           std::unique_ptr<Replay>& replay) override;
  absl::Status Synchronize() override { return runtime().Synchronize(); }
  absl::Status PrepareCollective(CollectiveKind kind, const Group& group,
                                 int64_t count, DType dtype,
                                 ReduceKind reduce) override;

 protected:
  absl::Status OpenGroup(const Group& group) override;
  absl::Status DoAllReduce(const Group& group,
                           absl::Span<const ReduceBuffer> buffers, DType dtype,
                           ReduceKind kind) override;
  absl::Status DoAllGather(const Group& group, const void* in, void* out,
                           int64_t bytes) override;
  absl::Status DoReduceScatter(const Group& group, const void* in, void* out,
                               int64_t count, DType dtype,
                               ReduceKind kind) override;
  absl::Status DoAllToAll(const Group& group, const void* in, void* out,
                          int64_t bytes) override;
  absl::Status DoPermute(const Group& group, const void* in, void* out,
                         int64_t bytes, int64_t source,
                         int64_t destination) override;

 private:
  // Publishes `slot` to the group. When all have arrived, the first rank calls
  // `enqueue`. Returns after that.
  absl::Status Meet(const Group& group, const Meeting::Slot& slot,
                    const std::function<absl::Status()>& enqueue);
  // A meeting for a collective with one equal block per rank.
  absl::Status MeetForBlocks(const Group& group, const Meeting::Slot& slot,
                             const LoopbackCall& call);
  const Meeting::Slot& SlotOf(int64_t rank) const {
    return meeting_->slots[rank];
  }
  bool IsLeader() const { return rank() == 0; }
  absl::Status Record(const std::function<absl::Status()>& work,
                      RecordedSegment& segment);

  std::shared_ptr<Meeting> meeting_;
};

absl::Status Loopback::OpenGroup(const Group& group) {
  if (group.ranks.size() <= kMaxLoopbackRanks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a group of ", group.ranks.size(), " virtual devices over mesh axes ",
      mesh().AxisNames(group.axes),
      DetailLine("help", absl::StrCat("one GPU emulates at most ",
                                      kMaxLoopbackRanks))));
}

absl::Status Loopback::PrepareCollective(CollectiveKind kind,
                                         const Group& group, int64_t count,
                                         DType dtype, ReduceKind reduce) {
  if (group.ranks.size() < 2 || group.index != 0) return absl::OkStatus();
  LoopbackCall call = {.kind = kind,
                       .dtype = dtype,
                       .reduce = reduce,
                       .count = count,
                       .in = {},
                       .out = {}};
  call.in.resize(group.ranks.size());
  call.out.resize(group.ranks.size());
  return meeting_->kernels.Prepare(call);
}

absl::Status Loopback::Meet(const Group& group, const Meeting::Slot& slot,
                            const std::function<absl::Status()>& enqueue) {
  Meeting::Slot& mine = meeting_->slots[rank()];
  mine = slot;
  mine.call = AtPosition(slot.call, position_slot());
  const CollectiveCall call = mine.call;
  MTF_RETURN_IF_ERROR(host().Barrier());
  bool same = true;
  for (int64_t other : group.ranks) same &= SlotOf(other).call == call;
  if (!same) {
    std::vector<CollectiveCall> calls;
    for (int64_t other : group.ranks) calls.push_back(SlotOf(other).call);
    return CheckSameCall(group, calls);
  }
  if (group.index == 0) MTF_RETURN_IF_ERROR(enqueue());
  return host().Barrier();
}

absl::Status Loopback::MeetForBlocks(const Group& group,
                                     const Meeting::Slot& slot,
                                     const LoopbackCall& call) {
  return Meet(group, slot, [&] {
    LoopbackCall group_call = call;
    for (int64_t other : group.ranks) {
      group_call.in.push_back(SlotOf(other).in);
      // A permute writes to the destination's buffer.
      group_call.out.push_back(group_call.kind ==
                                       CollectiveKind::kCollectivePermute
                                   ? SlotOf(SlotOf(other).destination).out
                                   : SlotOf(other).out);
    }
    return meeting_->kernels.Enqueue(group_call);
  });
}

absl::Status Loopback::DoAllReduce(const Group& group,
                                   absl::Span<const ReduceBuffer> buffers,
                                   DType dtype, ReduceKind kind) {
  int64_t count = 0;
  for (const ReduceBuffer& buffer : buffers) count += buffer.count;
  Meeting::Slot slot;
  slot.call =
      CallOf(CollectiveKind::kAllReduce, count, dtype, kind, buffers.size());
  slot.buffers = buffers;
  return Meet(group, slot, [&]() -> absl::Status {
    for (size_t i = 0; i < buffers.size(); ++i) {
      LoopbackCall call = {.kind = CollectiveKind::kAllReduce,
                           .dtype = dtype,
                           .reduce = kind,
                           .count = buffers[i].count,
                           .in = {},
                           .out = {}};
      for (int64_t other : group.ranks) {
        call.in.push_back(SlotOf(other).buffers[i].in);
        call.out.push_back(SlotOf(other).buffers[i].out);
      }
      MTF_RETURN_IF_ERROR(meeting_->kernels.Enqueue(call));
    }
    return absl::OkStatus();
  });
}

absl::Status Loopback::DoAllGather(const Group& group, const void* in,
                                   void* out, int64_t bytes) {
  LoopbackCall call;
  call.kind = CollectiveKind::kAllGather;
  call.count = bytes;
  Meeting::Slot slot;
  slot.call = CallOf(call.kind, bytes);
  slot.in = in;
  slot.out = out;
  return MeetForBlocks(group, slot, call);
}

absl::Status Loopback::DoReduceScatter(const Group& group, const void* in,
                                       void* out, int64_t count, DType dtype,
                                       ReduceKind kind) {
  LoopbackCall call;
  call.kind = CollectiveKind::kReduceScatter;
  call.dtype = dtype;
  call.reduce = kind;
  call.count = count;
  Meeting::Slot slot;
  slot.call = CallOf(call.kind, count, dtype, kind, 1);
  slot.in = in;
  slot.out = out;
  return MeetForBlocks(group, slot, call);
}

absl::Status Loopback::DoAllToAll(const Group& group, const void* in, void* out,
                                  int64_t bytes) {
  LoopbackCall call;
  call.kind = CollectiveKind::kAllToAll;
  call.count = bytes;
  Meeting::Slot slot;
  slot.call = CallOf(call.kind, bytes);
  slot.in = in;
  slot.out = out;
  return MeetForBlocks(group, slot, call);
}

absl::Status Loopback::DoPermute(const Group& group, const void* in, void* out,
                                 int64_t bytes, int64_t /*source*/,
                                 int64_t destination) {
  LoopbackCall call;
  call.kind = CollectiveKind::kCollectivePermute;
  call.count = bytes;
  Meeting::Slot slot;
  slot.call = CallOf(call.kind, bytes);
  slot.in = in;
  slot.out = out;
  slot.destination = destination;
  return MeetForBlocks(group, slot, call);
}

absl::Status Loopback::RunOrReplay(const std::function<absl::Status()>& work,
                                   std::unique_ptr<Replay>& replay) {
  RecordedSegment& segment = RecordedSegmentIn(replay);
  // After a failure ranks may be at different stages: the earliest counts.
  // After this barrier the feeds of all ranks are enqueued.
  meeting_->stages[rank()] = segment.stage;
  MTF_RETURN_IF_ERROR(host().Barrier());
  const Stage stage =
      *std::min_element(meeting_->stages.begin(), meeting_->stages.end());
  // The meeting at the end keeps `stages` unchanged until all have read them.
  if (stage == Stage::kNew || RecordingIsOff()) {
    MTF_RETURN_IF_ERROR(work());
    segment.stage = Stage::kHasRun;
    return host().Barrier();
  }
  if (stage == Stage::kHasRun) {
    MTF_RETURN_IF_ERROR(Record(work, segment));
    if (segment.recording == nullptr) {  // this runtime cannot record
      MTF_RETURN_IF_ERROR(work());
      return host().Barrier();
    }
  } else {
    AddCounts(segment.counts);
  }
  if (IsLeader()) MTF_RETURN_IF_ERROR(segment.recording->Replay());
  return host().Barrier();
}

// Records the work of all ranks into each rank's `segment` and counts its
// collectives; leaves no recording if the runtime cannot record.
absl::Status Loopback::Record(const std::function<absl::Status()>& work,
                              RecordedSegment& segment) {
  segment.recording = nullptr;
  if (IsLeader()) {
    meeting_->recording = nullptr;
    meeting_->enqueued = 0;
    meeting_->began = runtime().BeginRecording();
  }
  MTF_RETURN_IF_ERROR(host().Barrier());
  if (absl::IsUnimplemented(meeting_->began)) {
    segment.stage = Stage::kHasRun;
    return host().Barrier();
  }
  MTF_RETURN_IF_ERROR(meeting_->began);
  absl::Status recorded = CatchExceptions([&]() -> absl::Status {
    MTF_ASSIGN_OR_RETURN(segment.counts, Counted(work));
    return absl::OkStatus();
  });
  ++meeting_->enqueued;
  if (recorded.ok()) recorded = host().Barrier();
  if (IsLeader()) {
    // After a failure of another rank some ranks may still enqueue work that
    // must not run. They no longer wait for others, so this ends soon. If rank
    // 0 itself failed they may be waiting for it, so it must not wait for them.
    while (absl::IsAborted(recorded) && meeting_->enqueued < size()) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    // Also after a failure, so that the stream runs again.
    absl::StatusOr<std::unique_ptr<Recording>> ended = runtime().EndRecording();
    MTF_RETURN_IF_ERROR(recorded);
    MTF_RETURN_IF_ERROR(ended.status());
    meeting_->recording = *std::move(ended);
  }
  MTF_RETURN_IF_ERROR(recorded);
  MTF_RETURN_IF_ERROR(host().Barrier());
  segment.recording = meeting_->recording;
  segment.stage = Stage::kRecorded;
  return host().Barrier();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> ConnectLoopback(
    std::shared_ptr<Runtime> runtime, Communicator& host) {
  // Rank 0 creates the shared state; the others receive its address.
  std::shared_ptr<Meeting> meeting;
  if (host.rank() == 0) {
    meeting = std::make_shared<Meeting>(*runtime, host.size());
  }
  MTF_ASSIGN_OR_RETURN(
      const std::vector<std::string> addresses,
      host.AllGatherText(absl::StrCat(reinterpret_cast<uintptr_t>(&meeting))));
  uint64_t address = 0;
  if (!absl::SimpleAtoi(addresses[0], &address)) {
    return absl::InternalError(
        absl::StrCat("not an address: ", Quoted(addresses[0])));
  }
  std::shared_ptr<Meeting> shared =
      *reinterpret_cast<const std::shared_ptr<Meeting>*>(address);
  // Rank 0 keeps it alive until all have it.
  MTF_RETURN_IF_ERROR(host.Barrier());
  return std::make_unique<Loopback>(std::move(runtime), host,
                                    std::move(shared));
}

}  // namespace mtf::cuda
