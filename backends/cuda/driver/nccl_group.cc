// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/nccl_group.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cuda/driver/check.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

ncclDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case kFloat32:
      return ncclFloat32;
    case kBFloat16:
      return ncclBfloat16;
    case kFloat16:
      return ncclFloat16;
    case kInt32:
      return ncclInt32;
    case kInt64:
      return ncclInt64;
    case kBool:
      return ncclUint8;
  }
  return ncclUint8;
}

// A sum of bools, stored as 0 and 1, is a logical or.
ncclRedOp_t OperatorOf(ReduceKind kind, DType dtype) {
  switch (kind) {
    case ReduceKind::kSum:
      return dtype == kBool ? ncclMax : ncclSum;
    case ReduceKind::kMax:
      return ncclMax;
    case ReduceKind::kMin:
      return ncclMin;
  }
  return ncclSum;
}

// Calls `work`, which waits for other processes, on its own thread, and waits
// at most `seconds` for it (0: forever). A thread that does not return is
// abandoned with the objects it holds.
absl::Status CallWithin(double seconds, const std::string& what,
                        std::function<absl::Status()> work) {
  if (seconds <= 0) return work();
  struct Shared {
    std::mutex mutex;
    std::condition_variable done;
    bool finished = false;
    absl::Status status;
  };
  auto shared = std::make_shared<Shared>();
  std::thread thread([shared, work = std::move(work)] {
    absl::Status status = work();
    std::lock_guard<std::mutex> lock(shared->mutex);
    shared->status = std::move(status);
    shared->finished = true;
    shared->done.notify_all();
  });
  std::unique_lock<std::mutex> lock(shared->mutex);
  if (shared->done.wait_for(lock, std::chrono::duration<double>(seconds),
                            [&] { return shared->finished; })) {
    lock.unlock();
    thread.join();
    return shared->status;
  }
  thread.detach();
  return absl::DeadlineExceededError(absl::StrCat(
      what, " waited ", seconds, " seconds on ", Where(),
      " for other processes; MTF_COLLECTIVE_TIMEOUT sets the seconds"));
}

// How long an error waits for cliques to be aborted. The GPU is free
// immediately, but the call returns only when no recording contains a
// collective of the clique, and recordings live as long as their programs.
constexpr double kAbortSeconds = 2;

// Aborts all concurrently: the work of one may wait for another's.
void Abort(std::vector<ncclComm_t> communicators, int ordinal) {
  if (communicators.empty()) return;
  CallWithin(kAbortSeconds, "ncclCommAbort", [=] {
    std::vector<std::thread> threads;
    for (ncclComm_t communicator : communicators) {
      threads.emplace_back([=] {
        cudaSetDevice(ordinal);
        ncclCommAbort(communicator);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return absl::OkStatus();
  }).IgnoreError();
}

}  // namespace

class CudaNcclGroup : public NcclGroup {
 public:
  CudaNcclGroup(NcclGroups& groups, Gpu& gpu, ncclComm_t communicator)
      : groups_(groups), gpu_(gpu), communicator_(communicator) {}

  absl::Status Init() {
    MTF_RETURN_IF_ERROR(
        MTF_NCCL(communicator_, ncclCommUserRank(communicator_, &place_)));
    MTF_RETURN_IF_ERROR(
        MTF_NCCL(communicator_, ncclCommCount(communicator_, &size_)));
    for (cudaEvent_t* event : {&before_, &after_}) {
      MTF_RETURN_IF_ERROR(
          MTF_CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming)));
    }
    return absl::OkStatus();
  }

  ~CudaNcclGroup() override {
    groups_.Remove(this);
    gpu_.Enter();
    for (cudaEvent_t event : {before_, after_}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    if (communicator_ == nullptr) return;
    // After an error others may wait in a collective that never completes.
    if (gpu_.has_failed()) {
      Abort({communicator_}, gpu_.ordinal());
    } else {
      ncclCommDestroy(communicator_);
    }
  }

  absl::Status AllReduce(absl::Span<const ReduceBuffer> buffers, DType dtype,
                         ReduceKind kind) override {
    return Enqueue("all_reduce", [&]() -> absl::Status {
      for (const ReduceBuffer& buffer : buffers) {
        MTF_RETURN_IF_ERROR(MTF_NCCL(
            communicator_,
            ncclAllReduce(buffer.in, buffer.out, buffer.count, TypeOf(dtype),
                          OperatorOf(kind, dtype), communicator_, stream())));
      }
      return absl::OkStatus();
    });
  }

  absl::Status AllGather(const void* in, void* out, int64_t bytes) override {
    return Enqueue("all_gather", [&] {
      return MTF_NCCL(communicator_, ncclAllGather(in, out, bytes, ncclUint8,
                                                   communicator_, stream()));
    });
  }

  absl::Status ReduceScatter(const void* in, void* out, int64_t count,
                             DType dtype, ReduceKind kind) override {
    return Enqueue("reduce_scatter", [&] {
      return MTF_NCCL(
          communicator_,
          ncclReduceScatter(in, out, count, TypeOf(dtype),
                            OperatorOf(kind, dtype), communicator_, stream()));
    });
  }

  absl::Status AllToAll(const void* in, void* out, int64_t bytes) override {
    return Enqueue("all_to_all", [&]() -> absl::Status {
      for (int rank = 0; rank < size_; ++rank) {
        MTF_RETURN_IF_ERROR(
            Send(static_cast<const char*>(in) + rank * bytes, bytes, rank));
        MTF_RETURN_IF_ERROR(
            Receive(static_cast<char*>(out) + rank * bytes, bytes, rank));
      }
      return absl::OkStatus();
    });
  }

  absl::Status Permute(const void* in, void* out, int64_t bytes, int source,
                       int destination) override {
    return Enqueue("collective_permute", [&]() -> absl::Status {
      // Also to this rank itself: NCCL copies.
      MTF_RETURN_IF_ERROR(Send(in, bytes, destination));
      return Receive(out, bytes, source);
    });
  }

  absl::Status Poll() override { return groups_.Poll(); }

  absl::Status CheckNotAborted() const {
    if (communicator_ != nullptr) return absl::OkStatus();
    return absl::AbortedError(absl::StrCat(last_, " was aborted on ", Where(),
                                           ", because another clique failed"));
  }
  // NCCL's asynchronous error, if any.
  absl::Status AsyncError() {
    MTF_RETURN_IF_ERROR(CheckNotAborted());
    ncclResult_t error = ncclSuccess;
    MTF_RETURN_IF_ERROR(
        MTF_NCCL(communicator_, ncclCommGetAsyncError(communicator_, &error)));
    if (error == ncclSuccess || error == ncclInProgress)
      return absl::OkStatus();
    return CheckNccl(error, last_.c_str(), communicator_);
  }
  // Releases the communicator, which the caller must destroy.
  ncclComm_t Release() { return std::exchange(communicator_, nullptr); }
  ncclComm_t communicator() const { return communicator_; }

 private:
  cudaStream_t stream() const { return gpu_.communication_stream(); }

  absl::Status Send(const void* data, int64_t bytes, int rank) {
    return MTF_NCCL(communicator_, ncclSend(data, bytes, ncclUint8, rank,
                                            communicator_, stream()));
  }
  absl::Status Receive(void* data, int64_t bytes, int rank) {
    return MTF_NCCL(communicator_, ncclRecv(data, bytes, ncclUint8, rank,
                                            communicator_, stream()));
  }

  // Enqueues the NCCL calls of `calls` as one group, which waits for all work
  // on the compute stream, and makes the compute stream wait for the group. A
  // thread between EnterAsync and LeaveAsync handles both waits itself. After
  // an error nothing, not even the end of this process, may wait for
  // collectives that other ranks never enqueue, so all cliques are aborted.
  template <typename Calls>
  absl::Status Enqueue(const char* name, const Calls& calls) {
    gpu_.Enter();
    last_ = name;
    // The instruction that enqueues the collective.
    if (*Gpu::Range() != '\0') absl::StrAppend(&last_, " of ", Gpu::Range());
    const absl::Status status = TryEnqueue(calls);
    if (!status.ok()) {
      gpu_.Keep(status);
      groups_.Abort();
    }
    return status;
  }
  template <typename Calls>
  absl::Status TryEnqueue(const Calls& calls) {
    MTF_RETURN_IF_ERROR(AsyncError());
    const bool joins = !gpu_.is_asynchronous();
    if (joins) {
      MTF_RETURN_IF_ERROR(MTF_CUDA(cudaEventRecord(before_, gpu_.stream())));
      MTF_RETURN_IF_ERROR(MTF_CUDA(cudaStreamWaitEvent(stream(), before_, 0)));
    }
    MTF_RETURN_IF_ERROR(MTF_NCCL(communicator_, ncclGroupStart()));
    const absl::Status called = calls();
    // The group is ended even after an error, or later groups of this thread
    // would become part of it.
    const absl::Status ended = MTF_NCCL(communicator_, ncclGroupEnd());
    MTF_RETURN_IF_ERROR(called);
    MTF_RETURN_IF_ERROR(ended);
    if (!joins) return absl::OkStatus();
    MTF_RETURN_IF_ERROR(MTF_CUDA(cudaEventRecord(after_, stream())));
    return MTF_CUDA(cudaStreamWaitEvent(gpu_.stream(), after_, 0));
  }

  NcclGroups& groups_;
  Gpu& gpu_;
  ncclComm_t communicator_;
  cudaEvent_t before_ = nullptr, after_ = nullptr;
  int place_ = 0, size_ = 1;
  std::string last_ = "no collective";  // last enqueued, for errors
};

absl::StatusOr<std::string> NcclGroups::NewId() {
  ncclUniqueId id;
  MTF_RETURN_IF_ERROR(MTF_NCCL(nullptr, ncclGetUniqueId(&id)));
  return std::string(id.internal, sizeof(id.internal));
}

absl::StatusOr<std::unique_ptr<NcclGroup>> NcclGroups::Add(
    ncclComm_t communicator) {
  auto group = std::make_unique<CudaNcclGroup>(*this, gpu_, communicator);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    groups_.push_back(group.get());
  }
  MTF_RETURN_IF_ERROR(group->Init());
  return group;
}

absl::StatusOr<std::unique_ptr<NcclGroup>> NcclGroups::Join(
    const std::string& id, int size, int rank) {
  ncclUniqueId unique;
  if (id.size() != sizeof(unique.internal)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an NCCL id has ", sizeof(unique.internal), " bytes, not ", id.size()));
  }
  std::memcpy(unique.internal, id.data(), sizeof(unique.internal));
  SetWhere(absl::StrCat("GPU ", gpu_.ordinal(), ", rank ", rank, " of ", size));
  // Shared with a thread that may be abandoned.
  auto made = std::make_shared<ncclComm_t>(nullptr);
  const int ordinal = gpu_.ordinal();
  MTF_RETURN_IF_ERROR(
      CallWithin(timeout_, "ncclCommInitRankConfig", [=]() -> absl::Status {
        MTF_RETURN_IF_ERROR(MTF_CUDA(cudaSetDevice(ordinal)));
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 1;
        return MTF_NCCL(nullptr, ncclCommInitRankConfig(made.get(), size,
                                                        unique, rank, &config));
      }));
  return Add(*made);
}

absl::StatusOr<std::unique_ptr<NcclGroup>> NcclGroups::Split(NcclGroup& parent,
                                                             int color,
                                                             int key) {
  ncclComm_t from = static_cast<CudaNcclGroup&>(parent).communicator();
  if (from == nullptr) return absl::AbortedError("the NCCL clique has failed");
  auto made = std::make_shared<ncclComm_t>(nullptr);
  const int ordinal = gpu_.ordinal();
  MTF_RETURN_IF_ERROR(
      CallWithin(timeout_, "ncclCommSplit", [=]() -> absl::Status {
        MTF_RETURN_IF_ERROR(MTF_CUDA(cudaSetDevice(ordinal)));
        return MTF_NCCL(from,
                        ncclCommSplit(from, color, key, made.get(), nullptr));
      }));
  return Add(*made);
}

bool NcclGroups::empty() {
  std::lock_guard<std::mutex> lock(mutex_);
  return groups_.empty();
}

absl::Status NcclGroups::Poll() {
  absl::Status status;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (CudaNcclGroup* group : groups_) {
      status = group->AsyncError();
      if (!status.ok()) break;
    }
  }
  if (!status.ok()) Abort();
  return status;
}

absl::Status NcclGroups::CheckNotAborted() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const CudaNcclGroup* group : groups_) {
    MTF_RETURN_IF_ERROR(group->CheckNotAborted());
  }
  return absl::OkStatus();
}

void NcclGroups::Abort() {
  std::vector<ncclComm_t> communicators;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (CudaNcclGroup* group : groups_) {
      ncclComm_t communicator = group->Release();
      if (communicator != nullptr) communicators.push_back(communicator);
    }
  }
  cuda::Abort(std::move(communicators), gpu_.ordinal());
}

void NcclGroups::Remove(CudaNcclGroup* group) {
  std::lock_guard<std::mutex> lock(mutex_);
  groups_.erase(std::remove(groups_.begin(), groups_.end(), group),
                groups_.end());
}

}  // namespace mtf::cuda
