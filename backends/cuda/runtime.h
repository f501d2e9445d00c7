// SPDX-License-Identifier: Apache-2.0
//
// What the CUDA device needs of a GPU, and no more. Everything above this
// header is plain C++ that writes kernels as text, chooses matmuls and binds
// buffers; it builds and is tested on any machine. Two stand below it:
//
//   driver/    CUDA itself (NVRTC, cuBLASLt, cuDNN, NCCL): a shared object of
//              its own that is opened at run time (library.h)
//   emulated/  kernels compiled by the host's compiler and run by its cores,
//              thread by thread: slow, and the same text, so what it computes
//              is what a GPU would
#ifndef BACKENDS_CUDA_RUNTIME_H_
#define BACKENDS_CUDA_RUNTIME_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lowering/fusion/attention_problem.h"
#include "mtf/dtype.h"
#include "mtf/emitter.h"

namespace mtf::cuda {

// A GPU as kernels are shaped for it.
struct GpuInfo {
  std::string name;       // "NVIDIA H200"
  int architecture = 90;  // compute capability, 10 * major + minor
  int multiprocessors = 1;
  int64_t shared_bytes = 48 << 10;  // most that a block may ask for
  int64_t memory_bytes = 0;
  std::string uuid;  // what tells this GPU from others; "" where unknown
};

// One kernel: `text` defines `extern "C" __global__ void NAME(...)`.
struct KernelSource {
  std::string name;
  std::string text;
};

struct LaunchShape {
  int64_t blocks = 1;  // along x
  int threads = 256;   // along x, a multiple of 32 up to 1024
  int64_t shared_bytes = 0;
};

// A compiled kernel. Owned by its runtime.
class Function {
 public:
  virtual ~Function() = default;
};

// z[b, m, n] = alpha * sum over k of x[b, m, k] * y[b, k, n] + beta * addend,
// then the epilogue. Strides are in elements; of m, n and k each operand has
// one of stride 1. Accumulates in float32.
struct MatmulProblem {
  // A matrix of `rows` x `columns`: row-major with `leading` places between
  // rows, or, where `transposed`, column-major with as many between columns.
  struct Matrix {
    bool transposed = false;
    int64_t leading = 1;
    int64_t batch_stride = 0;
    int alignment = 16;  // bytes that every address given is a multiple of
    friend bool operator==(const Matrix&, const Matrix&) = default;
  };
  enum class Epilogue : uint8_t {
    kNone,
    kBias,         // + bias[n]
    kGelu,         // gelu(.), tanh form
    kBiasGelu,     // gelu(. + bias[n])
    kGeluSlope,    // . * gelu'(kept)
    kBiasOfSlope,  // . * gelu'(kept), and its sum over m in `bias`
    kSumsOfX,      // as it is, and the sums of x over k, [m], in `bias`
    kSumsOfY,      // as it is, and the sums of y over k, [n], in `bias`
  };
  DType dtype = kFloat32;         // of x and y
  DType result_dtype = kFloat32;  // of z
  int64_t batch = 1, m = 1, n = 1, k = 1;
  Matrix x, y, z;
  float alpha = 1, beta = 0;
  Epilogue epilogue = Epilogue::kNone;
  bool keeps = false;  // of kGelu and kBiasGelu: `kept` gets what gelu is of
  bool tf32 = false;   // float32 operands may be rounded to 10 bits

  // Elements of `bias`; 0 where the epilogue has none.
  int64_t bias_elements() const;

  // "bf16 batch 4 m 128 n 64 k 32 x t/128 ..."; equal texts, equal problems.
  std::string ToString() const;
  friend bool operator==(const MatmulProblem&, const MatmulProblem&) = default;
};

using ::mtf::AttentionProblem;

// Work with fixed shapes, prepared once; Run enqueues it on the stream of the
// runtime. Buffers come at Run, as the problem names them.
class PreparedMatmul {
 public:
  virtual ~PreparedMatmul() = default;
  struct Buffers {
    const void* x = nullptr;
    const void* y = nullptr;
    void* z = nullptr;
    // Laid out and of the dtype as z is; null where it is z. Read unless beta
    // is 0, in which case it may hold anything, NaN too.
    const void* addend = nullptr;
    void* bias = nullptr;  // dense, of the dtype of z
    void* kept = nullptr;  // laid out as z, of its dtype
  };
  virtual void Run(const Buffers& buffers) = 0;
};

class PreparedAttention {
 public:
  virtual ~PreparedAttention() = default;
  struct Buffers {
    const void* q = nullptr;
    const void* k = nullptr;
    const void* v = nullptr;
    void* o = nullptr;
    void* stats = nullptr;  // float32 [batch, heads, length]: log of the sums
    const void* bias = nullptr;  // as the problem has it; finite
    // Backward alone: o and stats are read.
    const void* d_o = nullptr;
    void* d_q = nullptr;
    void* d_k = nullptr;
    void* d_v = nullptr;
  };
  virtual void Run(const Buffers& buffers) = 0;
};

// What a stretch of a stream enqueued, to be enqueued again in one call.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual absl::Status Replay() = 0;
};

// What a thread has enqueued beside the stream between EnterSide and LeaveSide.
// Each may be used again and again, by one thread at a time.
class SideWork {
 public:
  virtual ~SideWork() = default;
};

// A clique of processes, one GPU each, over which NCCL moves data. Calls
// enqueue on the second stream and order themselves behind the first, and the
// first behind them; but for the threads that have entered the side, where the
// second is what they enqueue on.
class NcclGroup {
 public:
  virtual ~NcclGroup() = default;
  struct Piece {
    const void* in = nullptr;
    void* out = nullptr;
    int64_t count = 0;
  };
  virtual absl::Status AllReduce(absl::Span<const Piece> pieces, DType dtype,
                                 ReduceKind kind) = 0;
  virtual absl::Status AllGather(const void* in, void* out, int64_t bytes) = 0;
  virtual absl::Status ReduceScatter(const void* in, void* out, int64_t count,
                                     DType dtype, ReduceKind kind) = 0;
  virtual absl::Status AllToAll(const void* in, void* out, int64_t bytes) = 0;
  // Places in the group.
  virtual absl::Status Permute(const void* in, void* out, int64_t bytes,
                               int source, int destination) = 0;
  // The error that the library met asynchronously, if any; aborts the group.
  virtual absl::Status Poll() = 0;
};

// Gathers a text of every rank of a clique, by rank. Collective.
using ExchangeTexts =
    std::function<absl::StatusOr<std::vector<std::string>>(const std::string&)>;

// One GPU (or its emulation) with a stream on which everything is enqueued in
// the order of the calls, but for what is to run beside it. Enqueued work
// cannot answer with a Status: the first error is kept and returned by the next
// Synchronize. Safe to call from several threads, which then share the stream:
// n virtual devices on one GPU.
class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual const GpuInfo& info() const = 0;

  // Binds the calling thread to this GPU.
  virtual void EnterThread() {}

  // Aligned to 256 bytes and zeroed. kResourceExhausted with what was asked
  // for, what is free and what there is in all.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  virtual void Free(void* data) = 0;

  // Enqueued; host memory may be used again at once after CopyToDevice, and
  // after Synchronize for CopyToHost.
  virtual void CopyToDevice(void* to, const void* from, int64_t bytes) = 0;
  virtual void CopyToHost(void* to, const void* from, int64_t bytes) = 0;
  virtual void CopyOnDevice(void* to, const void* from, int64_t bytes) = 0;
  virtual void SetZero(void* to, int64_t bytes) = 0;

  // Compiles once per text, in this process and through a cache on disk in
  // later ones. kInternal with the compiler's log and the text's place.
  virtual absl::StatusOr<Function*> Compile(const KernelSource& source) = 0;
  // `arguments` points at each parameter, as cudaLaunchKernel takes them.
  virtual void Launch(Function& function, const LaunchShape& shape,
                      absl::Span<void* const> arguments) = 0;

  // kUnimplemented where the libraries have nothing for the problem.
  virtual absl::StatusOr<std::unique_ptr<PreparedMatmul>> PrepareMatmul(
      const MatmulProblem& problem) = 0;
  virtual absl::StatusOr<std::unique_ptr<PreparedAttention>> PrepareAttention(
      const AttentionProblem& problem) = 0;

  // Of a rank of a clique: gives the matmuls that were prepared since the last
  // call the algorithms of rank 0 (matmul_choices.h). A note for the user, or
  // "". Collective over the clique, while nothing runs that has them.
  virtual absl::StatusOr<std::string> SettleMatmuls(
      int /*rank*/, const ExchangeTexts& /*exchange*/) {
    return std::string();
  }

  // A second stream runs beside the first. From EnterSide on what the calling
  // thread enqueues goes there, behind all that the first has by then, until
  // LeaveSide. What is enqueued on the first after WaitForSide is behind it.
  // A recording ends with all of its own waited for. Null where there is one
  // stream only.
  virtual std::unique_ptr<SideWork> NewSideWork() { return nullptr; }
  virtual void EnterSide(SideWork& /*work*/) {}
  virtual void LeaveSide(SideWork& /*work*/) {}
  virtual void WaitForSide(SideWork& /*work*/) {}

  // Waits for all that was enqueued, on both streams; the first error since the
  // last call.
  virtual absl::Status Synchronize() = 0;

  // Between the two, work is recorded and not run. One recording at a time.
  // kUnimplemented where the runtime cannot.
  virtual absl::Status BeginRecording() = 0;
  virtual absl::StatusOr<std::unique_ptr<Recording>> EndRecording() = 0;

  // An id for a clique that does not exist yet; one process asks, all get it.
  virtual absl::StatusOr<std::string> NewNcclId() = 0;
  // Collective over the clique.
  virtual absl::StatusOr<std::unique_ptr<NcclGroup>> JoinNccl(
      const std::string& id, int size, int place) = 0;
  // The part of `parent` (a group of this runtime) with equal `color`, placed
  // by `key`. Collective over the parent.
  virtual absl::StatusOr<std::unique_ptr<NcclGroup>> SplitNccl(
      NcclGroup& parent, int color, int key) = 0;

  // Ranges for profilers and, where a trace is asked for, for it.
  virtual void PushRange(const char* name) = 0;
  virtual void PopRange() = 0;
};

// Opens GPU `ordinal` of those that this process sees, or the only one, through
// the shared object of the driver;
// kUnavailable where there is no GPU or no driver, kNotFound where a library is
// missing, saying which, and kUnimplemented in a build without CUDA, naming the
// option. One per process and GPU.
absl::StatusOr<std::shared_ptr<Runtime>> OpenGpu(int ordinal);

// A GPU played by this machine's cores (emulated/). Needs the C++ compiler that
// built this library, or the one in CXX.
absl::StatusOr<std::shared_ptr<Runtime>> OpenEmulatedGpu();

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_RUNTIME_H_
