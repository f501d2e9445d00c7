// SPDX-License-Identifier: Apache-2.0
//
// A GPU emulated by the host. Enqueued work is recorded, or waits until
// something needs its result and then runs on that thread, in an order that the
// two streams allow (streams.h). Kernels are compiled when the first of them is
// launched, all pending ones together; compile errors are reported as errors of
// the launch.
#include "backends/cuda/runtime.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cuda/emulated/fibers.h"
#include "backends/cuda/emulated/host_compiler.h"
#include "backends/cuda/emulated/libraries.h"
#include "backends/cuda/emulated/streams.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

using Entry = EmulatedStreams::Entry;
using Kind = EmulatedStreams::Kind;
using Work = EmulatedStreams::Work;

// Whether the calling thread enqueues on the second stream.
thread_local bool is_asynchronous = false;

class EmulatedFunction : public Function {
 public:
  explicit EmulatedFunction(KernelSource source)
      : source(std::move(source)),
        has_barriers(HasBarriers(this->source.text)) {}

  KernelSource source;
  bool has_barriers;
  const EmulatedKernel* kernel = nullptr;  // null until it is compiled
  absl::Status status;                     // the error of its compilation
};

// Shared, because enqueued entries may outlive this object.
struct SharedAsyncWork : public AsyncWork {
  const std::shared_ptr<EmulatedAsyncWork> mark =
      std::make_shared<EmulatedAsyncWork>();
};

class EmulatedRuntime : public Runtime {
 public:
  EmulatedRuntime() {
    info_.name = "emulated GPU";
    info_.architecture = 90;
    info_.multiprocessors = 2;
    info_.shared_bytes = 48 << 10;
    info_.memory_bytes = int64_t{8} << 30;
  }

  const GpuInfo& info() const override { return info_; }

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    void* data = nullptr;
    // Not rounded up, so that sanitizers detect accesses beyond the end.
    if (posix_memalign(&data, 256, std::max<int64_t>(bytes, 1)) != 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for a buffer of ", bytes, " bytes"));
    }
    std::memset(data, 0, bytes);
    return data;
  }
  void Free(void* data) override {
    Finish();  // enqueued work may use the memory
    std::free(data);
  }

  absl::StatusOr<void*> AllocateHost(int64_t bytes) override {
    return Allocate(bytes);
  }
  void FreeHost(void* data) override { Free(data); }
  void CopyWithHost(void* to, const void* from, int64_t bytes) override {
    CopyOnDevice(to, from, bytes);
  }

  void CopyToDevice(void* to, const void* from, int64_t bytes) override {
    Finish();
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void CopyToHost(void* to, const void* from, int64_t bytes) override {
    CopyToDevice(to, from, bytes);
  }
  void CopyOnDevice(void* to, const void* from, int64_t bytes) override {
    Enqueue([=] {
      if (bytes > 0) std::memmove(to, from, bytes);
      return absl::OkStatus();
    });
  }
  void SetZero(void* to, int64_t bytes) override {
    Enqueue([=] {
      if (bytes > 0) std::memset(to, 0, bytes);
      return absl::OkStatus();
    });
  }

  absl::StatusOr<Function*> Compile(const KernelSource& source) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& function = functions_[{source.name, source.text}];
    if (function == nullptr) {
      function = std::make_unique<EmulatedFunction>(source);
      waiting_.push_back(function.get());
    }
    return function.get();
  }

  void Launch(Function& function, const LaunchShape& shape,
              absl::Span<void* const> arguments) override {
    // Arguments are copied at the launch; each fits into 8 bytes.
    std::vector<uint64_t> copies;
    for (const void* argument : arguments) {
      copies.emplace_back();
      std::memcpy(&copies.back(), argument, sizeof(uint64_t));
    }
    auto* const emulated = static_cast<EmulatedFunction*>(&function);
    Enqueue([this, emulated, shape, copies = std::move(copies)]() mutable {
      std::vector<void*> pointers;
      for (uint64_t& copy : copies) pointers.push_back(&copy);
      return RunGrid(*emulated, shape, pointers.data());
    });
  }

  absl::StatusOr<std::unique_ptr<PreparedMatmul>> PrepareMatmul(
      const MatmulProblem& problem) override {
    return PrepareEmulatedMatmul(problem, [this](std::function<void()> work) {
      Enqueue([work = std::move(work)] {
        work();
        return absl::OkStatus();
      });
    });
  }
  absl::StatusOr<std::unique_ptr<PreparedAttention>> PrepareAttention(
      const AttentionProblem& problem) override {
    return PrepareEmulatedAttention(problem,
                                    [this](std::function<void()> work) {
                                      Enqueue([work = std::move(work)] {
                                        work();
                                        return absl::OkStatus();
                                      });
                                    });
  }

  absl::StatusOr<std::unique_ptr<PreparedConvolution>> PrepareConvolution(
      const ConvolutionProblem& problem) override {
    return PrepareEmulatedConvolution(problem,
                                      [this](std::function<void()> work) {
                                        Enqueue([work = std::move(work)] {
                                          work();
                                          return absl::OkStatus();
                                        });
                                      });
  }

  std::unique_ptr<AsyncWork> NewAsyncWork() override {
    return std::make_unique<SharedAsyncWork>();
  }
  void EnterAsync(AsyncWork& work) override {
    Mark(Kind::kBegin, work);
    Mark(Kind::kWaitForBegin, work);
    is_asynchronous = true;
  }
  void LeaveAsync(AsyncWork& work) override {
    is_asynchronous = false;
    Mark(Kind::kEnd, work);
  }
  void WaitForAsync(AsyncWork& work) override { Mark(Kind::kWaitForEnd, work); }

  absl::Status Synchronize() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    streams_.Finish();
    return streams_.TakeError();
  }

  void SetOrder(StreamOrder order, uint32_t seed) {
    const std::lock_guard<std::mutex> lock(mutex_);
    streams_.SetOrder(order, seed);
  }

  absl::Status BeginRecording() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (records_)
      return absl::FailedPreconditionError("a recording is already active");
    records_ = true;
    recorded_.clear();
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Recording>> EndRecording() override {
    class List : public Recording {
     public:
      List(EmulatedRuntime& runtime, std::vector<Entry> entries)
          : runtime_(runtime), entries_(std::move(entries)) {}
      ~List() override { runtime_.Finish(); }
      absl::Status Replay() override {
        const std::lock_guard<std::mutex> lock(runtime_.mutex_);
        for (const Entry& entry : entries_) runtime_.streams_.Enqueue(entry);
        return absl::OkStatus();
      }

     private:
      EmulatedRuntime& runtime_;
      std::vector<Entry> entries_;
    };
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!records_)
      return absl::FailedPreconditionError("no recording is active");
    records_ = false;
    std::vector<Entry> entries = std::exchange(recorded_, {});
    if (LeavesAsyncOpen(entries)) {
      return absl::FailedPreconditionError(
          "the recording ends before its asynchronous work is waited for");
    }
    return std::make_unique<List>(*this, std::move(entries));
  }

  absl::StatusOr<std::string> NewNcclId() override { return NoNccl(); }
  absl::StatusOr<std::unique_ptr<NcclGroup>> JoinNccl(const std::string&, int,
                                                      int) override {
    return NoNccl();
  }
  absl::StatusOr<std::unique_ptr<NcclGroup>> SplitNccl(NcclGroup&, int,
                                                       int) override {
    return NoNccl();
  }

  void PushRange(const char*) override {}
  void PopRange() override {}

 private:
  static absl::Status NoNccl() {
    return absl::UnimplementedError("an emulated GPU has no NCCL");
  }

  void Finish() {
    const std::lock_guard<std::mutex> lock(mutex_);
    streams_.Finish();
  }
  void Enqueue(Work work) {
    Enqueue(Entry{Kind::kWork, is_asynchronous, std::move(work)});
  }
  void Mark(Kind kind, AsyncWork& work) {
    Enqueue(Entry{kind, false, {}, static_cast<SharedAsyncWork&>(work).mark});
  }
  void Enqueue(Entry entry) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (records_) {
      recorded_.push_back(std::move(entry));
    } else {
      streams_.Enqueue(entry);
    }
  }
  // CUDA's rule: work forked from the recorded stream must be joined to it.
  static bool LeavesAsyncOpen(const std::vector<Entry>& entries) {
    const Entry* last = nullptr;
    for (const Entry& entry : entries) {
      if (entry.kind == Kind::kEnd) last = &entry;
      if (entry.kind == Kind::kWaitForEnd && last != nullptr &&
          last->mark == entry.mark) {
        last = nullptr;
      }
    }
    return last != nullptr;
  }

  // Compiles all pending kernels, in batches that limit the compiler's memory
  // and time.
  void CompileWaiting() {
    constexpr size_t kAtOnce = 16;
    std::vector<EmulatedFunction*> functions;
    for (EmulatedFunction* function : std::exchange(waiting_, {})) {
      function->kernel = compiler_.Find(compiler_.KeyOf(function->source));
      if (function->kernel == nullptr) functions.push_back(function);
    }
    const auto all = absl::MakeSpan(functions);
    for (size_t i = 0; i < all.size(); i += kAtOnce) {
      const auto some = all.subspan(i, kAtOnce);
      if (CompileTogether(some).ok()) continue;
      // Finds the text that failed.
      for (size_t j = 0; j < some.size(); ++j) {
        some[j]->status = CompileTogether(some.subspan(j, 1));
      }
    }
  }
  absl::Status CompileTogether(absl::Span<EmulatedFunction* const> functions) {
    std::vector<KernelSource> sources;
    for (const EmulatedFunction* function : functions) {
      sources.push_back(function->source);
    }
    MTF_RETURN_IF_ERROR(compiler_.Compile(sources));
    for (EmulatedFunction* function : functions) {
      function->kernel = compiler_.Find(compiler_.KeyOf(function->source));
    }
    return absl::OkStatus();
  }

  absl::Status RunGrid(EmulatedFunction& function, const LaunchShape& shape,
                       void* const* arguments) {
    const absl::string_view name = function.source.name;
    if (shape.threads < 1 || shape.threads > 1024 || shape.threads % 32 != 0 ||
        shape.blocks < 1 || shape.blocks > INT32_MAX ||
        shape.shared_bytes > info_.shared_bytes) {
      return absl::InternalError(
          absl::StrCat("kernel ", name, " cannot be launched with ",
                       shape.blocks, " blocks of ", shape.threads,
                       " threads and ", shape.shared_bytes, " bytes"));
    }
    if (function.kernel == nullptr) CompileWaiting();
    MTF_RETURN_IF_ERROR(function.status);
    const EmulatedKernel& kernel = *function.kernel;
    *kernel.block_size = static_cast<unsigned>(shape.threads);
    *kernel.grid_size = static_cast<unsigned>(shape.blocks);
    std::vector<char> dynamic(shape.shared_bytes + 256);
    *kernel.dynamic_shared = reinterpret_cast<char*>(
        (reinterpret_cast<uintptr_t>(dynamic.data()) + 255) / 256 * 256);
    for (int64_t block = 0; block < shape.blocks; ++block) {
      *kernel.block = static_cast<unsigned>(block);
      if (!function.has_barriers) {
        kernel.run_block(arguments);
        continue;
      }
      // Shared memory is undefined at first: fills it with NaN.
      std::memset(kernel.shared_begin, 0xff,
                  kernel.shared_end - kernel.shared_begin);
      std::memset(dynamic.data(), 0xff, dynamic.size());
      const absl::Status status =
          runner_.Run(kernel, arguments, shape.threads, block % 2 == 1);
      if (!status.ok()) {
        return absl::Status(status.code(),
                            absl::StrCat("kernel ", name, ", block ", block,
                                         ": ", status.message()));
      }
    }
    return absl::OkStatus();
  }

  GpuInfo info_;
  std::mutex mutex_;  // the streams
  EmulatedStreams streams_;
  bool records_ = false;
  std::vector<Entry> recorded_;
  HostCompiler compiler_;
  BlockRunner runner_;
  std::map<std::pair<std::string, std::string>,
           std::unique_ptr<EmulatedFunction>>
      functions_;
  std::vector<EmulatedFunction*> waiting_;
};

}  // namespace

namespace {

// One per process, so that each kernel is compiled once.
const std::shared_ptr<EmulatedRuntime>& TheEmulatedGpu() {
  static const auto& runtime = *new std::shared_ptr<EmulatedRuntime>(
      std::make_shared<EmulatedRuntime>());
  return runtime;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Runtime>> OpenEmulatedGpu() {
  return TheEmulatedGpu();
}

void SetStreamOrder(StreamOrder order, uint32_t seed) {
  TheEmulatedGpu()->SetOrder(order, seed);
}

}  // namespace mtf::cuda
