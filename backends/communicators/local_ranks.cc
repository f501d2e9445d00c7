// SPDX-License-Identifier: Apache-2.0
//
// All ranks of a mesh as threads of one process.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <tuple>
#include <utility>

#include "backends/communicator.h"
#include "backends/communicators/group_collectives.h"
#include "backends/communicators/launcher.h"
#include "backends/communicators/rank_errors.h"
#include "backends/communicators/shared_memory_collectives.h"
#include "backends/communicators/wait_options.h"
#include "mtf/check.h"
#include "mtf/exceptions.h"
#include "mtf/status.h"

namespace mtf {
namespace {

// Two segments per rank fit into the second-level cache together with the data
// copied through them.
constexpr int64_t kSegmentBytes = 128 << 10;

constexpr double kLeastPatienceSeconds = 1, kMostPatienceSeconds = 10;

// State shared by the ranks of one LocalRanks.
class SharedState {
 public:
  explicit SharedState(int64_t ranks)
      : positions_(ranks),
        wait_(WaitOptions(static_cast<int>(ranks), AllowedCores())) {
    wait_.abort = &abort_;
    for (RankPositionSlot& slot : positions_) slots_.push_back(&slot);
  }

  // The memory of the group over `axes` whose first rank is `first_rank`.
  // Allocated by whichever rank of the group calls first.
  void* GroupMemory(const AxisList& axes, int64_t first_rank, int64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    Memory& memory = memories_[{{axes.begin(), axes.end()}, first_rank}];
    if (memory == nullptr) {
      memory.reset(::operator new(bytes, kAlignment));
      std::fill_n(static_cast<char*>(memory.get()), bytes, 0);
    }
    return memory.get();
  }

  const std::vector<RankPositionSlot*>& slots() const { return slots_; }
  void SetState(int64_t rank, RankState state) {
    positions_[rank].state.store(state, std::memory_order_release);
  }

  const WaitPolicy& wait() const { return wait_; }
  // How long a rank may still take after others timed out waiting for it.
  std::chrono::duration<double> Patience() const {
    return std::chrono::duration<double>(std::clamp(
        wait_.timeout_seconds, kLeastPatienceSeconds, kMostPatienceSeconds));
  }
  void Abort() { abort_.store(true, std::memory_order_release); }
  void Reset() { abort_.store(false, std::memory_order_release); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Delete {
    void operator()(void* p) const { ::operator delete(p, kAlignment); }
  };
  using Memory = std::unique_ptr<void, Delete>;

  std::mutex mutex_;
  std::map<std::pair<std::vector<int>, int64_t>, Memory> memories_;
  std::atomic<bool> abort_{false};
  std::vector<RankPositionSlot> positions_;
  std::vector<RankPositionSlot*> slots_;  // to `positions_`
  WaitPolicy wait_;
};

class LocalCommunicator : public GroupedCommunicator {
 public:
  LocalCommunicator(const Mesh& mesh, int64_t rank, SharedState& shared)
      : GroupedCommunicator(mesh, rank), shared_(shared) {
    KeepPositions(shared.slots());
    MTF_CHECK_OK(OpenWorld());
  }

  RankPlacement placement() const override {
    const int ranks = static_cast<int>(size());
    RankPlacement placement;
    placement.local_ranks = ranks;
    placement.threads = std::max(1, AllowedCores() / ranks);
    return placement;
  }

  // Called after a failure, while no rank is in a collective.
  void Reset() {
    SetPosition({});
    for (auto& group : groups_) group->Reset();
  }

 protected:
  absl::StatusOr<GroupCollectives*> MakeCollectives(
      const Group& group) override {
    SharedMemoryCollectives::Options options;
    options.segment_bytes = kSegmentBytes;
    options.wait = shared_.wait();
    options.slots = shared_.slots();
    const int64_t bytes = SharedMemoryCollectives::MemoryBytes(
        static_cast<int>(group.ranks.size()), &options.segment_bytes);
    groups_.push_back(std::make_unique<SharedMemoryCollectives>(
        group, shared_.GroupMemory(group.axes, group.ranks[0], bytes),
        options));
    return groups_.back().get();
  }

 private:
  SharedState& shared_;
  std::vector<std::unique_ptr<SharedMemoryCollectives>> groups_;
};

}  // namespace

struct LocalRanks::State {
  explicit State(const Mesh& mesh) : shared(mesh.num_devices()) {
    const int64_t ranks = mesh.num_devices();
    statuses.resize(ranks);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      communicators.push_back(
          std::make_unique<LocalCommunicator>(mesh, rank, shared));
    }
  }

  // Not in the constructor: if a thread cannot be created, the destructor must
  // run to end those that have started.
  void Start() {
    const auto ranks = static_cast<int64_t>(communicators.size());
    for (int64_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([this, rank] { Serve(rank); });
    }
  }

  ~State() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      stop = true;
    }
    wake.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  // The loop of a rank's thread: waits for a body, runs it, stores its status.
  void Serve(int64_t rank) {
    std::unique_lock<std::mutex> lock(mutex);
    for (int64_t served = 0;; ++served) {
      wake.wait(lock, [&] { return stop || runs > served; });
      if (stop) return;
      lock.unlock();
      absl::Status status =
          CatchExceptions([&] { return (*body)(*communicators[rank]); });
      if (!status.ok()) shared.Abort();
      // Releases ranks that wait for this one, which joins nothing more.
      shared.SetState(rank,
                      status.ok() ? RankState::kEnded : RankState::kFailed);
      lock.lock();
      timed_out = timed_out || absl::IsDeadlineExceeded(status);
      statuses[rank] = std::move(status);
      if (--running == 0 || timed_out) done.notify_all();
    }
  }

  SharedState shared;
  std::vector<std::unique_ptr<LocalCommunicator>> communicators;
  std::vector<std::thread> threads;

  std::mutex one_run;  // held for the duration of a Run
  std::mutex mutex;    // guards the members below
  std::condition_variable wake, done;
  const std::function<absl::Status(Communicator&)>* body = nullptr;
  int64_t runs = 0;
  int64_t running = 0;
  std::vector<absl::Status> statuses;
  bool timed_out = false;  // a rank timed out waiting for another in this run
  bool stop = false;
};

LocalRanks::LocalRanks(const Mesh& mesh)
    : state_(std::make_unique<State>(mesh)) {
  state_->Start();
}

LocalRanks::~LocalRanks() = default;

absl::Status LocalRanks::Run(
    const std::function<absl::Status(Communicator&)>& body) {
  State& state = *state_;
  std::lock_guard<std::mutex> one_run(state.one_run);
  std::unique_lock<std::mutex> lock(state.mutex);
  state.body = &body;
  state.running = static_cast<int64_t>(state.threads.size());
  state.timed_out = false;
  for (size_t rank = 0; rank < state.statuses.size(); ++rank) {
    state.statuses[rank] = absl::OkStatus();
    state.shared.SetState(static_cast<int64_t>(rank), RankState::kRunning);
  }
  ++state.runs;
  state.wake.notify_all();
  state.done.wait(lock, [&] { return state.running == 0 || state.timed_out; });
  if (state.running > 0) {
    // The remaining threads cannot be stopped and may use the caller's memory.
    const auto over = [&] { return state.running == 0; };
    if (!state.done.wait_for(lock, state.shared.Patience(), over)) {
      std::cerr << ErrorText(FirstCause(state.statuses)) << std::endl;
      AbortAllRanks(kTimeoutExitCode);
    }
  }
  const absl::Status error = FirstCause(state.statuses);
  if (!error.ok()) {
    // Ranks may have stopped in different collectives; reset all groups.
    state.shared.Reset();
    for (auto& communicator : state.communicators) communicator->Reset();
  }
  return error;
}

Communicator& LocalRanks::communicator(int64_t rank) {
  return *state_->communicators[rank];
}

}  // namespace mtf
