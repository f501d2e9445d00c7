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

// A collective of a whole group, whose operands and results all lie in the
// memory of one GPU. Pointers are by place.
struct LoopbackCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  DType dtype = kFloat32;  // of reductions
  ReduceKind reduce = ReduceKind::kSum;
  // Of all_reduce: elements of each operand; of reduce_scatter: of each result;
  // otherwise bytes of what one place sends to another.
  int64_t count = 0;
  std::vector<const void*> in;
  // Of collective_permute: out[i] takes in[i], wherever it lies.
  std::vector<void*> out;
};

// The most places of a group: their pointers are parameters of a kernel, which
// has 4 KiB for them.
inline constexpr int kMostLoopbackPlaces = 240;

// How registers x and y of two places are combined, as ReduceInOrder does:
// "x + y".
absl::string_view CombinedText(DType dtype, ReduceKind kind);

// The text that works for a call: `pack` elements, or bytes, at a time.
KernelSource LoopbackSource(const LoopbackCall& call, int pack);

// Enqueues such calls; compiles each text once.
class LoopbackKernels {
 public:
  explicit LoopbackKernels(Runtime& runtime) : runtime_(runtime) {}
  // Compiles what `call` takes; its pointers, null, stand for aligned buffers.
  absl::Status Prepare(const LoopbackCall& call);
  absl::Status Enqueue(const LoopbackCall& call);

 private:
  absl::StatusOr<Function*> Find(const LoopbackCall& call, int pack);

  // Kind, dtype, reduction, places, pack.
  using Key = std::tuple<CollectiveKind, int, ReduceKind, size_t, int>;
  Runtime& runtime_;
  std::mutex mutex_;  // groups enqueue at the same time
  std::map<Key, Function*> functions_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_COMMUNICATORS_LOOPBACK_KERNELS_H_
