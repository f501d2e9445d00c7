// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_COMMUNICATORS_LOOPBACK_KERNELS_H_
#define BACKENDS_CUDA_COMMUNICATORS_LOOPBACK_KERNELS_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "backends/cuda/runtime.h"
#include "layouts/reshard_path.h"
#include "mtf/dtype.h"
#include "mtf/emitter.h"

namespace mtf::cuda {

// A collective of a whole group whose operands and results are all in the
// memory of one GPU. Pointers are indexed by the rank within the group.
struct LoopbackCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  DType dtype = kFloat32;  // of reductions
  ReduceKind reduce = ReduceKind::kSum;
  // all_reduce: elements of each operand; reduce_scatter: elements of each
  // result; otherwise bytes that one rank sends to another.
  int64_t count = 0;
  std::vector<const void*> in;
  // For collective_permute, out[i] receives in[i], on whichever rank it is.
  std::vector<void*> out;
};

// The largest group: its pointers are kernel parameters, which are limited to 4
// KiB.
inline constexpr int kMaxLoopbackRanks = 240;

// The text that combines registers x and y of two ranks, as ReduceInOrder does:
// "x + y".
absl::string_view CombinedText(DType dtype, ReduceKind kind);

// The kernel for a call, which processes `pack` elements or bytes at a time.
KernelSource LoopbackSource(const LoopbackCall& call, int pack);

// Enqueues such calls; compiles each text once.
class LoopbackKernels {
 public:
  explicit LoopbackKernels(Runtime& runtime) : runtime_(runtime) {}
  // Compiles the kernel for `call`, whose null pointers stand for aligned
  // buffers.
  absl::Status Prepare(const LoopbackCall& call);
  absl::Status Enqueue(const LoopbackCall& call);

 private:
  absl::StatusOr<Function*> Find(const LoopbackCall& call, int pack);

  // Kind, dtype, reduction, ranks, pack.
  using Key = std::tuple<CollectiveKind, int, ReduceKind, size_t, int>;
  Runtime& runtime_;
  std::mutex mutex_;  // groups enqueue at the same time
  std::map<Key, Function*> functions_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_COMMUNICATORS_LOOPBACK_KERNELS_H_
