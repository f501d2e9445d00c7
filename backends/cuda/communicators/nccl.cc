// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/communicators/nccl.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "backends/cuda/communicators/ordered_sums.h"
#include "backends/cuda/communicators/recorded_segment.h"
#include "backends/cuda/matmul/einsum.h"
#include "layouts/text_items.h"
#include "mtf/check.h"
#include "mtf/exceptions.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

using Stage = RecordedSegment::Stage;

std::string Environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// Returns the first error by rank, on every rank: an NCCL call may fail on one
// rank only, and the others would wait for it in the next collective.
absl::Status AgreeOn(Communicator& host, const absl::Status& status) {
  MTF_ASSIGN_OR_RETURN(
      const std::vector<std::string> errors,
      host.AllGatherText(status.ok() ? "" : std::string(status.message())));
  if (!status.ok()) return status;
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    if (errors[rank].empty()) continue;
    return absl::UnavailableError(
        absl::StrCat("rank ", rank, ": ", errors[rank]));
  }
  return absl::OkStatus();
}

class Nccl : public Connection {
 public:
  Nccl(std::shared_ptr<Runtime> runtime, Communicator& host)
      : Connection(std::move(runtime), host),
        sums_(this->runtime()),
        async_sums_(this->runtime()) {}

  absl::Status Join(const std::string& id) {
    absl::StatusOr<std::unique_ptr<NcclGroup>> world = runtime().JoinNccl(
        id, static_cast<int>(size()), static_cast<int>(rank()));
    MTF_RETURN_IF_ERROR(AgreeOn(host(), world.status()));
    world_ = *std::move(world);
    // Recording must be on or off for all ranks; see RunOrReplay.
    MTF_ASSIGN_OR_RETURN(const std::vector<std::string> off,
                         host().AllGatherText(RecordingIsOff() ? "off" : ""));
    records_ = std::count(off.begin(), off.end(), "off") == 0;
    return CheckTf32();
  }

  // Each group has its own rings and trees.
  bool reduces_in_order() const override { return false; }

  absl::Status PrepareCollective(CollectiveKind kind, const Group& group,
                                 int64_t count, DType dtype,
                                 ReduceKind reduce) override {
    const bool reduces = kind == CollectiveKind::kAllReduce ||
                         kind == CollectiveKind::kReduceScatter;
    if (!reduces || !InOrder(group, dtype, reduce)) return absl::OkStatus();
    return SumsOf(group).Prepare(kind, RanksIn(group), count, dtype, reduce);
  }

  absl::Status SettleChoices() override {
    MTF_ASSIGN_OR_RETURN(
        const std::string note,
        runtime().SettleMatmuls(static_cast<int>(rank()),
                                [this](const std::string& text) {
                                  return host().AllGatherText(text);
                                }));
    if (rank() == 0 && !note.empty()) {
      std::cerr << "note: " << note << std::endl;
    }
    return absl::OkStatus();
  }

  // Enqueued collectives wait for other ranks without notice to the host.
  bool can_wait_forever() const override { return true; }

  absl::Status RunOrReplay(const std::function<absl::Status()>& work,
                           std::unique_ptr<Replay>& replay) override;
  absl::Status Synchronize() override { return runtime().Synchronize(); }

 protected:
  absl::Status OpenGroup(const Group& group) override {
    for (const auto& [axes, clique] : cliques_) {
      if (axes == group.axes) return absl::OkStatus();
    }
    absl::StatusOr<std::unique_ptr<NcclGroup>> clique = runtime().SplitNccl(
        *world_, static_cast<int>(group.ranks[0]), group.index);
    MTF_RETURN_IF_ERROR(AgreeOn(host(), clique.status()));
    cliques_.emplace_back(group.axes, *std::move(clique));
    return absl::OkStatus();
  }
  absl::Status DoAllReduce(const Group& group,
                           absl::Span<const ReduceBuffer> buffers, DType dtype,
                           ReduceKind kind) override {
    std::vector<NcclGroup::ReduceBuffer> all;
    for (const ReduceBuffer& buffer : buffers) {
      all.push_back({buffer.in, buffer.out, buffer.count});
    }
    if (InOrder(group, dtype, kind)) {
      return SumsOf(group).AllReduce(Of(group), RanksIn(group), all, dtype,
                                     kind);
    }
    return Of(group).AllReduce(all, dtype, kind);
  }
  absl::Status DoAllGather(const Group& group, const void* in, void* out,
                           int64_t bytes) override {
    return Of(group).AllGather(in, out, bytes);
  }
  absl::Status DoReduceScatter(const Group& group, const void* in, void* out,
                               int64_t count, DType dtype,
                               ReduceKind kind) override {
    if (InOrder(group, dtype, kind)) {
      return SumsOf(group).ReduceScatter(Of(group), RanksIn(group), in, out,
                                         count, dtype, kind);
    }
    return Of(group).ReduceScatter(in, out, count, dtype, kind);
  }
  absl::Status DoAllToAll(const Group& group, const void* in, void* out,
                          int64_t bytes) override {
    return Of(group).AllToAll(in, out, bytes);
  }
  absl::Status DoPermute(const Group& group, const void* in, void* out,
                         int64_t bytes, int64_t source,
                         int64_t destination) override {
    return Of(group).Permute(
        in, out, bytes, static_cast<int>(mesh().Coordinate(source, group.axes)),
        static_cast<int>(mesh().Coordinate(destination, group.axes)));
  }

 private:
  // Replicas must be bitwise equal.
  absl::Status CheckTf32() {
    MTF_ASSIGN_OR_RETURN(const std::vector<std::string> allowed,
                         host().AllGatherText(Tf32IsAllowed() ? "1" : "0"));
    for (size_t rank = 1; rank < allowed.size(); ++rank) {
      if (allowed[rank] == allowed[0]) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "MTF_CUDA_TF32 is ", allowed[0], " on rank 0 and ", allowed[rank],
          " on rank ", rank, ", so replicas would differ",
          DetailLine("help",
                     "give all ranks one environment, as mpirun -x "
                     "MTF_CUDA_TF32 does")));
    }
    return absl::OkStatus();
  }

  static int RanksIn(const Group& group) {
    return static_cast<int>(group.ranks.size());
  }
  // Replicas must be bitwise equal, so other groups must add in the same order.
  static bool InOrder(const Group& group, DType dtype, ReduceKind kind) {
    return OrderedSums::IsNeeded(RanksIn(group), dtype, kind,
                                 group.replicated_outside);
  }
  OrderedSums& SumsOf(const Group& group) {
    return group.asynchronous ? async_sums_ : sums_;
  }
  NcclGroup& Of(const Group& group) {
    const auto it = std::find_if(
        cliques_.begin(), cliques_.end(),
        [&](const auto& clique) { return clique.first == group.axes; });
    MTF_CHECK(it != cliques_.end());
    return *it->second;
  }

  bool records_ = true;
  std::unique_ptr<NcclGroup> world_;  // the groups are split from it
  std::vector<std::pair<AxisList, std::unique_ptr<NcclGroup>>> cliques_;
  OrderedSums sums_, async_sums_;
};

// Each process records its own stream. NCCL requires that a collective is
// recorded by all ranks of its clique or by none, and that collectives recorded
// together are replayed together. Ranks reach each stage in the same step, and
// replay only if all have a recording.
absl::Status Nccl::RunOrReplay(const std::function<absl::Status()>& work,
                               std::unique_ptr<Replay>& replay) {
  RecordedSegment& segment = RecordedSegmentIn(replay);
  if (segment.stage == Stage::kNew || !records_) {
    MTF_RETURN_IF_ERROR(work());
    segment.stage = Stage::kHasRun;
    return absl::OkStatus();
  }
  if (segment.stage == Stage::kRecorded) {
    // A replay does not notice aborted cliques: their collectives would end at
    // once with undefined results.
    MTF_RETURN_IF_ERROR(world_->Poll());
    AddCounts(segment.counts);
    return segment.recording->Replay();
  }
  absl::Status status = runtime().BeginRecording();
  if (absl::IsUnimplemented(status)) return work();
  std::unique_ptr<Recording> recording;
  if (status.ok()) {
    status = CatchExceptions([&]() -> absl::Status {
      MTF_ASSIGN_OR_RETURN(segment.counts, Counted(work));
      return absl::OkStatus();
    });
    // Also after a failure, so that the stream runs again.
    absl::StatusOr<std::unique_ptr<Recording>> ended = runtime().EndRecording();
    status.Update(ended.status());
    if (ended.ok()) recording = *std::move(ended);
  }
  MTF_RETURN_IF_ERROR(AgreeOn(host(), status));
  segment.recording = std::move(recording);
  segment.stage = Stage::kRecorded;
  return segment.recording->Replay();
}

}  // namespace

std::string GpuSeat::ToText() const {
  return absl::StrCat(machine, "\n", gpu, "\n", host_id, "\n",
                      may_share ? "1" : "0");
}

GpuSeat GpuSeat::FromText(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '\n');
  GpuSeat seat;
  if (parts.size() != 4) return seat;
  seat.machine = parts[0];
  seat.gpu = parts[1];
  seat.host_id = parts[2];
  seat.may_share = parts[3] == "1";
  return seat;
}

absl::Status CheckOwnGpus(absl::Span<const GpuSeat> seats) {
  for (size_t a = 0; a < seats.size(); ++a) {
    for (size_t b = a + 1; b < seats.size(); ++b) {
      const GpuSeat& x = seats[a];
      const GpuSeat& y = seats[b];
      if (x.gpu.empty() || x.machine != y.machine || x.gpu != y.gpu) continue;
      if (x.may_share && y.may_share) continue;
      if (!x.host_id.empty() && !y.host_id.empty() && x.host_id != y.host_id) {
        continue;
      }
      return absl::FailedPreconditionError(absl::StrCat(
          "ranks ", a, " and ", b, " share one GPU, which NCCL refuses",
          DetailLine("gpu", x.gpu), DetailLine("host", Quoted(x.machine)),
          DetailLine("help",
                     "start one process without a launcher, whose virtual "
                     "devices share the GPU; or as many ranks as GPUs; or, to "
                     "test NCCL alone, give each rank its own NCCL_HOSTID")));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Connection>> ConnectNccl(
    std::shared_ptr<Runtime> runtime, Communicator& host) {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  GpuSeat mine;
  mine.machine = name;
  mine.gpu = runtime->info().uuid;
  mine.host_id = Environment("NCCL_HOSTID");
  mine.may_share = Environment("NCCL_MULTI_RANK_GPU_ENABLE") == "1";
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                       host.AllGatherText(mine.ToText()));
  std::vector<GpuSeat> seats;
  for (const std::string& text : texts) {
    seats.push_back(GpuSeat::FromText(text));
  }
  MTF_RETURN_IF_ERROR(CheckOwnGpus(seats));
  absl::StatusOr<std::string> id = std::string();
  if (host.rank() == 0) id = runtime->NewNcclId();
  if (absl::IsUnimplemented(id.status())) {
    id = absl::UnimplementedError(absl::StrCat(
        id.status().message(),
        DetailLine("help",
                   "start one process without a launcher: its ranks "
                   "share the GPU")));
  }
  MTF_RETURN_IF_ERROR(AgreeOn(host, id.status()));
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                       host.AllGatherText(*id));
  auto connection = std::make_unique<Nccl>(std::move(runtime), host);
  MTF_RETURN_IF_ERROR(connection->Join(ids[0]));
  return connection;
}

}  // namespace mtf::cuda
