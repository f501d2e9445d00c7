// SPDX-License-Identifier: Apache-2.0
//
// The interface between the CUDA device and a GPU. Everything above this header
// is plain C++ that writes kernels as text, chooses matmuls and binds buffers;
// it builds and is tested on any machine. There are two implementations:
//
//   driver/    CUDA itself (NVRTC, cuBLASLt, cuDNN, NCCL), in a shared object
//              that is opened at run time (library.h)
//   emulated/  compiles the same kernel texts with the host's compiler and runs
//              them on its cores, thread by thread: slow, with the GPU's
//              results
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
#include "lowering/program/attention_problem.h"
#include "lowering/program/convolution_problem.h"
#include "mtf/dtype.h"
#include "mtf/emitter.h"

namespace mtf::cuda {

// The properties of a GPU that the shapes of kernels depend on.
struct GpuInfo {
  std::string name;       // "NVIDIA H200"
  int architecture = 90;  // compute capability, 10 * major + minor
  int multiprocessors = 1;
  int64_t shared_bytes = 48 << 10;  // most shared memory that a block may use
  int64_t memory_bytes = 0;
  std::string uuid;  // identifies this GPU; "" if unknown
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
// followed by the epilogue. Strides are in elements. Each operand has stride 1
// along one of m, n and k. Accumulates in float32.
struct MatmulProblem {
  // A matrix of `rows` x `columns`. Row-major with `leading` elements between
  // rows or, if `transposed`, column-major with `leading` elements between
  // columns.
  struct Matrix {
    bool transposed = false;
    int64_t leading = 1;
    int64_t batch_stride = 0;
    int alignment = 16;  // in bytes, of every address passed to Run
    friend bool operator==(const Matrix&, const Matrix&) = default;
  };
  // The result as a function of the sum, written as a dot.
  enum class Epilogue : uint8_t {
    kNone,
    kBias,         // + bias[n]
    kGelu,         // gelu(.), tanh form
    kBiasGelu,     // gelu(. + bias[n])
    kGeluSlope,    // . * gelu'(gelu_input)
    kBiasOfSlope,  // . * gelu'(gelu_input), and its sum over m in `bias`
    kSumsOfX,      // ., and the sums of x over k, [m], in `bias`
    kSumsOfY,      // ., and the sums of y over k, [n], in `bias`
  };
  DType dtype = kFloat32;         // of x and y
  DType result_dtype = kFloat32;  // of z
  int64_t batch = 1, m = 1, n = 1, k = 1;
  Matrix x, y, z;
  float alpha = 1, beta = 0;
  Epilogue epilogue = Epilogue::kNone;
  bool stores_gelu_input = false;  // kGelu, kBiasGelu: also store `gelu_input`
  bool tf32 = false;  // float32 operands may be rounded to 10 mantissa bits

  // Elements of `bias`; 0 if the epilogue has none.
  int64_t bias_elements() const;

  // "bf16 batch 4 m 128 n 64 k 32 x t/128 ..."; equal iff the problems are.
  std::string ToString() const;
  friend bool operator==(const MatmulProblem&, const MatmulProblem&) = default;
};

using ::mtf::AttentionProblem;
using ::mtf::ConvolutionProblem;

// A matmul of fixed shapes, prepared once. Run enqueues it on the runtime's
// stream.
class PreparedMatmul {
 public:
  virtual ~PreparedMatmul() = default;
  struct Buffers {
    const void* x = nullptr;
    const void* y = nullptr;
    void* z = nullptr;
    // Same layout and dtype as z; null means z itself. Not read if beta is 0,
    // in which case it may hold anything, including NaN.
    const void* addend = nullptr;
    void* bias = nullptr;        // dense, dtype of z
    void* gelu_input = nullptr;  // layout and dtype of z
  };
  virtual void Run(const Buffers& buffers) = 0;
};

// Attention or its gradient with fixed shapes, prepared once.
class PreparedAttention {
 public:
  virtual ~PreparedAttention() = default;
  struct Buffers {
    const void* q = nullptr;
    const void* k = nullptr;
    const void* v = nullptr;
    void* o = nullptr;
    void* stats = nullptr;       // float32 [batch, heads, length]: logsumexp
    const void* bias = nullptr;  // laid out as in the problem; finite
    // Gradient only, which reads o and stats.
    const void* d_o = nullptr;
    void* d_q = nullptr;
    void* d_k = nullptr;
    void* d_v = nullptr;
  };
  virtual void Run(const Buffers& buffers) = 0;
};

// A convolution or one of its gradients with fixed shapes, prepared once.
class PreparedConvolution {
 public:
  virtual ~PreparedConvolution() = default;
  // One of the first three is the result; the filter is dense, in the order
  // [groups, outputs, windows..., inputs]. All are aligned to 16 bytes.
  struct Buffers {
    void* input = nullptr;
    void* filter = nullptr;
    void* output = nullptr;
    void* workspace = nullptr;  // `workspace_bytes`, aligned to 256
  };
  virtual int64_t workspace_bytes() const = 0;
  virtual void Run(const Buffers& buffers) = 0;
};

// The work enqueued during a segment of a program, to be enqueued again by one
// call.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual absl::Status Replay() = 0;
};

// The work that a thread enqueues between EnterAsync and LeaveAsync. Reusable,
// by one thread at a time.
class AsyncWork {
 public:
  virtual ~AsyncWork() = default;
};

// A clique of processes, one GPU each, whose collectives NCCL runs. Calls
// enqueue on the second stream. That stream waits for the first before the
// call, and the first waits for it after the call. Between EnterAsync and
// LeaveAsync a thread's calls only enqueue on the second stream.
class NcclGroup {
 public:
  virtual ~NcclGroup() = default;
  // One of several tensors that a single all_reduce reduces together.
  struct ReduceBuffer {
    const void* in = nullptr;
    void* out = nullptr;
    int64_t count = 0;  // elements
  };
  virtual absl::Status AllReduce(absl::Span<const ReduceBuffer> buffers,
                                 DType dtype, ReduceKind kind) = 0;
  virtual absl::Status AllGather(const void* in, void* out, int64_t bytes) = 0;
  virtual absl::Status ReduceScatter(const void* in, void* out, int64_t count,
                                     DType dtype, ReduceKind kind) = 0;
  virtual absl::Status AllToAll(const void* in, void* out, int64_t bytes) = 0;
  // `source` and `destination` are ranks of the group.
  virtual absl::Status Permute(const void* in, void* out, int64_t bytes,
                               int source, int destination) = 0;
  // The asynchronous error of the library, if any; if so, aborts the group.
  virtual absl::Status Poll() = 0;
};

// Gathers one text of every rank of a clique, ordered by rank. Collective.
using AllGatherTexts =
    std::function<absl::StatusOr<std::vector<std::string>>(const std::string&)>;

// One GPU (or its emulation). Work runs in the order of the calls, except for
// asynchronous work. Enqueueing cannot return a Status: the first error is kept
// and returned by the next Synchronize. Thread-safe; n virtual devices of one
// GPU are n threads that share its stream.
class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual const GpuInfo& info() const = 0;

  // Binds the calling thread to this GPU.
  virtual void EnterThread() {}

  // Aligned to 256 bytes and zeroed. kResourceExhausted states the requested,
  // free and total bytes.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  virtual void Free(void* data) = 0;
  // Page-locked host memory, zeroed, which CopyWithHost copies to and from.
  virtual absl::StatusOr<void*> AllocateHost(int64_t bytes) = 0;
  virtual void FreeHost(void* data) = 0;
  // Enqueued, between the memory of Allocate and that of AllocateHost.
  virtual void CopyWithHost(void* to, const void* from, int64_t bytes) = 0;

  // Enqueued. The host memory may be reused on return from CopyToDevice, and
  // after Synchronize for CopyToHost.
  virtual void CopyToDevice(void* to, const void* from, int64_t bytes) = 0;
  virtual void CopyToHost(void* to, const void* from, int64_t bytes) = 0;
  virtual void CopyOnDevice(void* to, const void* from, int64_t bytes) = 0;
  virtual void SetZero(void* to, int64_t bytes) = 0;

  // Compiles each text once per process, with a cache on disk for later ones.
  // kInternal contains the compiler's log and the path of the text.
  virtual absl::StatusOr<Function*> Compile(const KernelSource& source) = 0;
  // `arguments` points to each parameter, as for cudaLaunchKernel.
  virtual void Launch(Function& function, const LaunchShape& shape,
                      absl::Span<void* const> arguments) = 0;

  // kUnimplemented if the library does not support the problem.
  virtual absl::StatusOr<std::unique_ptr<PreparedMatmul>> PrepareMatmul(
      const MatmulProblem& problem) = 0;
  // Whether the library has fused attention, for the problems that
  // CheckFusedAttention accepts.
  virtual bool has_attention() { return true; }
  virtual absl::StatusOr<std::unique_ptr<PreparedAttention>> PrepareAttention(
      const AttentionProblem& problem) = 0;

  // Gives the matmuls prepared since the last call the algorithms of rank 0
  // (matmul_choices.h). Returns a note for the user, or "". Collective over the
  // clique of `rank`; none of these matmuls may be running.
  virtual absl::StatusOr<std::string> SettleMatmuls(
      int /*rank*/, const AllGatherTexts& /*all_gather*/) {
    return std::string();
  }

  // Asynchronous work runs on a second stream. What the calling thread enqueues
  // between EnterAsync and LeaveAsync goes there and starts after everything
  // enqueued on the first stream before EnterAsync. Work enqueued on the first
  // stream after WaitForAsync starts after the asynchronous work has finished.
  // At its end a recording waits for its own asynchronous work. NewAsyncWork
  // returns null if there is only one stream.
  virtual std::unique_ptr<AsyncWork> NewAsyncWork() { return nullptr; }
  virtual void EnterAsync(AsyncWork& /*work*/) {}
  virtual void LeaveAsync(AsyncWork& /*work*/) {}
  virtual void WaitForAsync(AsyncWork& /*work*/) {}

  // Waits for all enqueued work of both streams. Returns the first error since
  // the last call.
  virtual absl::Status Synchronize() = 0;

  // Work enqueued between these calls is recorded and does not run. One
  // recording at a time. kUnimplemented if the runtime cannot record.
  virtual absl::Status BeginRecording() = 0;
  virtual absl::StatusOr<std::unique_ptr<Recording>> EndRecording() = 0;

  // The id of a new clique: one process creates it, all pass it to JoinNccl.
  virtual absl::StatusOr<std::string> NewNcclId() = 0;
  // Joins a clique as `rank` of `size`. Collective over the clique.
  virtual absl::StatusOr<std::unique_ptr<NcclGroup>> JoinNccl(
      const std::string& id, int size, int rank) = 0;
  // Joins the group of the ranks of `parent` (a group of this runtime) that
  // pass the same `color`, ordered by `key`. Collective over the parent.
  virtual absl::StatusOr<std::unique_ptr<NcclGroup>> SplitNccl(
      NcclGroup& parent, int color, int key) = 0;

  // Named ranges for profilers and traces.
  virtual void PushRange(const char* name) = 0;
  virtual void PopRange() = 0;

  // Whether the library has convolutions (ConvolutionProblem), of any float.
  virtual bool has_convolutions() { return true; }
  // Bitwise reproducible. kUnimplemented if the library does not support the
  // problem.
  virtual absl::StatusOr<std::unique_ptr<PreparedConvolution>>
  PrepareConvolution(const ConvolutionProblem& problem) = 0;
};

// Opens GPU `ordinal` of those visible to this process (or the only one)
// through the driver's shared object. kUnavailable if there is no GPU or no
// driver; kNotFound names a missing library; kUnimplemented in a build without
// CUDA names the option. One per process and GPU.
absl::StatusOr<std::shared_ptr<Runtime>> OpenGpu(int ordinal);

// A GPU emulated by this machine's cores (emulated/). Needs the C++ compiler
// that built this library, or the one in CXX.
absl::StatusOr<std::shared_ptr<Runtime>> OpenEmulatedGpu();

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_RUNTIME_H_
