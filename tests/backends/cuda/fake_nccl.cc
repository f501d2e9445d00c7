// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/cuda/fake_nccl.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/communicators/reduce_in_order.h"
#include "mtf/check.h"
#include "mtf/host_tensor.h"
#include "mtf/status.h"
#include "tests/backends/cuda/fake_matmuls.h"

namespace mtf::cuda::testing {

// The ranks of a group, with the data they publish when they meet.
struct FakeClique {
  struct Slot {
    const void* in = nullptr;
    int destination = 0, color = 0, key = 0;
  };
  explicit FakeClique(int size) : slots(size) {}

  void Meet() {
    std::unique_lock<std::mutex> lock(mutex);
    const int round = rounds;
    if (++arrived == static_cast<int>(slots.size())) {
      arrived = 0;
      ++rounds;
      changed.notify_all();
    } else {
      changed.wait(lock, [&] { return rounds != round; });
    }
  }

  std::vector<Slot> slots;
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0, rounds = 0;
};

namespace {

// NCCL's fmaxf and fminf, which drop NaN.
void ReduceAsNccl(DType dtype, ReduceKind kind,
                  const std::vector<const void*>& sources, void* out,
                  int64_t count) {
  if (kind == ReduceKind::kSum || !IsFloat(dtype)) {
    return ReduceInOrder(dtype, kind, sources, out, count);
  }
  for (int64_t i = 0; i < count; ++i) {
    double most = LoadElement(sources[0], dtype, i);
    for (const void* source : sources) {
      const double next = LoadElement(source, dtype, i);
      most = kind == ReduceKind::kMax ? std::fmax(most, next)
                                      : std::fmin(most, next);
    }
    StoreElement(out, dtype, i, most);
  }
}

class FakeGroup : public NcclGroup {
 public:
  FakeGroup(FakeFabric& fabric, int rank, std::string name,
            std::shared_ptr<FakeClique> clique, int group_rank)
      : fabric(fabric),
        rank(rank),
        name(std::move(name)),
        clique(std::move(clique)),
        group_rank(group_rank) {}

  int size() const { return static_cast<int>(clique->slots.size()); }

  // Publishes `slot`; `make` computes this rank's result from all slots. It is
  // written when no rank reads any more.
  void Meet(const FakeClique::Slot& slot, void* out, int64_t bytes,
            const std::function<void(char* to)>& make) {
    clique->slots[group_rank] = slot;
    clique->Meet();
    std::vector<char> made(bytes);
    make(made.data());
    clique->Meet();
    std::memcpy(out, made.data(), bytes);
  }
  std::vector<const void*> Ins(int64_t offset) const {
    std::vector<const void*> ins;
    for (const FakeClique::Slot& slot : clique->slots) {
      ins.push_back(static_cast<const char*>(slot.in) + offset);
    }
    return ins;
  }

  // The order in which reductions take the operands.
  std::vector<const void*> Reduced(int64_t offset) const {
    std::vector<const void*> ins = Ins(offset);
    if (fabric.own_orders) {
      // Rotated by the group's color, the end of its name.
      const int color = std::atoi(&name[name.rfind('/') + 1]);
      std::rotate(ins.begin(),
                  ins.begin() + color % static_cast<int>(ins.size()),
                  ins.end());
    }
    return ins;
  }

  absl::Status AllReduce(absl::Span<const ReduceBuffer> buffers, DType dtype,
                         ReduceKind kind) override {
    for (const ReduceBuffer& buffer : buffers) {
      Meet({.in = buffer.in}, buffer.out, buffer.count * DTypeSize(dtype),
           [&](char* to) {
             ReduceAsNccl(dtype, kind, Reduced(0), to, buffer.count);
           });
    }
    return absl::OkStatus();
  }
  absl::Status AllGather(const void* in, void* out, int64_t bytes) override {
    Meet({.in = in}, out, size() * bytes, [&](char* to) {
      for (const void* block : Ins(0)) {
        std::memcpy(to, block, bytes);
        to += bytes;
      }
    });
    return absl::OkStatus();
  }
  absl::Status ReduceScatter(const void* in, void* out, int64_t count,
                             DType dtype, ReduceKind kind) override {
    const int64_t bytes = count * DTypeSize(dtype);
    Meet({.in = in}, out, bytes, [&](char* to) {
      ReduceAsNccl(dtype, kind, Reduced(group_rank * bytes), to, count);
    });
    return absl::OkStatus();
  }
  absl::Status AllToAll(const void* in, void* out, int64_t bytes) override {
    Meet({.in = in}, out, size() * bytes, [&](char* to) {
      for (const void* block : Ins(group_rank * bytes)) {
        std::memcpy(to, block, bytes);
        to += bytes;
      }
    });
    return absl::OkStatus();
  }
  absl::Status Permute(const void* in, void* out, int64_t bytes, int source,
                       int destination) override {
    FakeClique::Slot slot;
    slot.in = in;
    slot.destination = destination;
    absl::Status status;
    Meet(slot, out, bytes, [&](char* to) {
      if (clique->slots[source].destination != group_rank) {
        status = absl::InternalError("the source sends to another rank");
      }
      std::memcpy(to, clique->slots[source].in, bytes);
    });
    return status;
  }
  absl::Status Poll() override { return absl::OkStatus(); }

  FakeFabric& fabric;
  const int rank;
  const std::string name;
  const std::shared_ptr<FakeClique> clique;
  const int group_rank;
  int splits = 0;
};

class FakeRuntime : public Runtime {
 public:
  FakeRuntime(FakeFabric& fabric, int rank, const std::string& uuid)
      : fabric_(fabric), rank_(rank) {
    info_.name = "fake GPU";
    info_.uuid = uuid;
    if (fabric.matmuls.empty()) return;
    choices_ =
        std::make_unique<MatmulChoices>(*fabric.matmuls[rank], DiskCache(""));
  }

  const GpuInfo& info() const override { return info_; }
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    return std::calloc(bytes, 1);
  }
  void Free(void* data) override { std::free(data); }
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override {
    return Allocate(bytes);
  }
  void FreeHost(void* data) override { Free(data); }
  void CopyWithHost(void* to, const void* from, int64_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void CopyToDevice(void* to, const void* from, int64_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void CopyToHost(void* to, const void* from, int64_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void CopyOnDevice(void* to, const void* from, int64_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void SetZero(void* to, int64_t bytes) override { std::memset(to, 0, bytes); }

  // Kernels run on the host at once.
  absl::StatusOr<Function*> Compile(const KernelSource& source) override {
    if (cores_ == nullptr) {
      MTF_ASSIGN_OR_RETURN(cores_, OpenEmulatedGpu());
    }
    return cores_->Compile(source);
  }
  void Launch(Function& function, const LaunchShape& shape,
              absl::Span<void* const> arguments) override {
    cores_->Launch(function, shape, arguments);
    MTF_CHECK_OK(cores_->Synchronize());
  }
  absl::StatusOr<std::unique_ptr<PreparedMatmul>> PrepareMatmul(
      const MatmulProblem& problem) override {
    if (choices_ == nullptr) {
      return absl::UnimplementedError("a fake GPU multiplies nothing");
    }
    MTF_ASSIGN_OR_RETURN(auto choice, choices_->Choose(problem, true));
    return std::make_unique<FakeMatmul>(problem, std::move(choice));
  }
  absl::StatusOr<std::string> SettleMatmuls(
      int rank, const AllGatherTexts& all_gather) override {
    if (choices_ == nullptr) return std::string();
    return choices_->Settle(rank, all_gather);
  }
  absl::StatusOr<std::unique_ptr<PreparedAttention>> PrepareAttention(
      const AttentionProblem&) override {
    return absl::UnimplementedError("a fake GPU attends to nothing");
  }
  absl::StatusOr<std::unique_ptr<PreparedConvolution>> PrepareConvolution(
      const ConvolutionProblem&) override {
    return absl::UnimplementedError("a fake GPU has no convolutions");
  }

  absl::Status Synchronize() override {
    return fabric_.stuck == rank_
               ? absl::UnavailableError("all_reduce: remote process exited")
               : absl::OkStatus();
  }
  absl::Status BeginRecording() override {
    if (fabric_.records) return absl::OkStatus();
    return absl::UnimplementedError("a fake GPU records nothing");
  }
  absl::StatusOr<std::unique_ptr<Recording>> EndRecording() override {
    class Counting : public Recording {
     public:
      explicit Counting(FakeFabric& fabric) : fabric_(fabric) {}
      absl::Status Replay() override {
        ++fabric_.replays;
        return absl::OkStatus();
      }

     private:
      FakeFabric& fabric_;
    };
    if (fabric_.fails_to_record == rank_) {
      return absl::UnavailableError("no memory for a recording");
    }
    return std::make_unique<Counting>(fabric_);
  }

  absl::StatusOr<std::string> NewNcclId() override {
    return std::string("an\0id", 5);
  }
  absl::StatusOr<std::unique_ptr<NcclGroup>> JoinNccl(const std::string& id,
                                                      int size,
                                                      int rank) override {
    if (fabric_.fails_to_join == rank_) {
      return absl::UnavailableError("no route to the others");
    }
    if (choices_ != nullptr) choices_->JoinClique();
    return Open(id, size, rank);
  }
  absl::StatusOr<std::unique_ptr<NcclGroup>> SplitNccl(NcclGroup& group,
                                                       int color,
                                                       int key) override {
    auto& parent = static_cast<FakeGroup&>(group);
    if (fabric_.fails_to_split == rank_) {
      return absl::ResourceExhaustedError("no memory for a group");
    }
    if (fabric_.fails_to_split >= 0) {
      // The real library gives up after a timeout.
      return absl::UnavailableError("a rank did not come");
    }
    FakeClique::Slot slot;
    slot.color = color;
    slot.key = key;
    parent.clique->slots[parent.group_rank] = slot;
    parent.clique->Meet();
    int size = 0, rank = 0;
    for (const FakeClique::Slot& other : parent.clique->slots) {
      if (other.color != color) continue;
      ++size;
      rank += other.key < key ? 1 : 0;
    }
    parent.clique->Meet();
    return Open(absl::StrCat(parent.name, "/", parent.splits++, "/", color),
                size, rank);
  }

  void PushRange(const char*) override {}
  void PopRange() override {}

 private:
  std::unique_ptr<NcclGroup> Open(const std::string& name, int size, int rank) {
    std::shared_ptr<FakeClique> clique;
    {
      const std::lock_guard<std::mutex> lock(fabric_.mutex);
      std::shared_ptr<FakeClique>& known = fabric_.cliques[name];
      if (known == nullptr) known = std::make_shared<FakeClique>(size);
      clique = known;
    }
    return std::make_unique<FakeGroup>(fabric_, rank_, name, std::move(clique),
                                       rank);
  }

  FakeFabric& fabric_;
  const int rank_;
  GpuInfo info_;
  std::shared_ptr<Runtime> cores_;
  std::unique_ptr<MatmulChoices> choices_;
};

}  // namespace

std::shared_ptr<Runtime> MakeFakeGpu(FakeFabric& fabric, int rank,
                                     const std::string& uuid) {
  return std::make_shared<FakeRuntime>(fabric, rank, uuid);
}

}  // namespace mtf::cuda::testing
