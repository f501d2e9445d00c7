// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/device.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "backends/cpu/attention/prepare_attention.h"
#include "backends/cpu/dynamic_slice.h"
#include "backends/cpu/einsum.h"
#include "backends/cpu/gather.h"
#include "backends/cpu/map.h"
#include "backends/cpu/map_groups.h"
#include "backends/cpu/movement.h"
#include "backends/cpu/random.h"
#include "backends/cpu/reduce.h"
#include "backends/cpu/row_group.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/scan.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/top_k.h"
#include "backends/cpu/windows/convolution.h"
#include "backends/cpu/windows/pool.h"
#include "backends/index_space.h"
#include "lowering/fusion/device_fusion.h"

namespace mtf::cpu {
namespace {

constexpr size_t kHugePage = 2 << 20;

// Uses huge pages for a buffer aligned to them, for fewer TLB misses in strided
// access. The end of the buffer has small pages: a huge page there would take
// up to 2 MiB that the buffer does not need, half of the size of a shard of
// 4 MiB, also where the system uses huge pages without being asked.
void UseHugePages([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  const size_t whole = bytes / kHugePage * kHugePage;
  madvise(data, whole, MADV_HUGEPAGE);
  if (bytes > whole) {
    madvise(static_cast<char*>(data) + whole, bytes - whole, MADV_NOHUGEPAGE);
  }
#endif
}

class CpuDevice : public Device {
 public:
  explicit CpuDevice(int num_threads) : num_threads_(num_threads) {}

  absl::string_view name() const override { return "cpu"; }

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    const size_t rounded = (static_cast<size_t>(bytes) / 64 + 1) * 64;
    const bool large = rounded >= 2 * kHugePage;
    void* data = nullptr;
    if (posix_memalign(&data, large ? kHugePage : 64, rounded) != 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for a buffer of ", bytes, " bytes"));
    }
    if (large) UseHugePages(data, rounded);
    std::memset(data, 0, rounded);
    return data;
  }
  void Free(void* data) override { std::free(data); }

  absl::Status CopyToDevice(void* to, const void* from,
                            int64_t bytes) override {
    constexpr int64_t kGrainBytes = 1 << 20;
    ParallelFor(bytes, kGrainBytes, [&](int64_t begin, int64_t end) {
      std::memcpy(static_cast<char*>(to) + begin,
                  static_cast<const char*>(from) + begin, end - begin);
    });
    return absl::OkStatus();
  }
  absl::Status CopyToHost(void* to, const void* from, int64_t bytes) override {
    return CopyToDevice(to, from, bytes);
  }

  // A rank prepares and runs kernels on one thread, which may differ from the
  // one that created the device.
  void EnterThread() override { UseThreads(num_threads_); }

  AttentionSupport attention() const override { return AttentionSupport::kAll; }

  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(
      const Binding& binding) override {
    EnterThread();
    const Instruction& instruction = binding.instruction();
    switch (instruction.opcode) {
      case Opcode::kConstant:
        return PrepareConstant(binding);
      case Opcode::kRandom:
        return PrepareRandom(binding);
      case Opcode::kMap:
        return PrepareMap(ExpressionOf(instruction), binding.operands,
                          binding.results[0]);
      case Opcode::kEinsum:
        return PrepareEinsum(*instruction.Get<EinsumAttributes>().plan,
                             binding.operands[0], binding.operands[1],
                             binding.results[0]);
      case Opcode::kReduce:
        return PrepareReduce(ReductionOf(instruction),
                             ExpressionOf(instruction), binding.operands,
                             IterationOf(binding), binding.results[0]);
      case Opcode::kReshape:
        return PrepareReshape(binding);
      case Opcode::kSlice:
        return PrepareSlice(binding);
      case Opcode::kPad:
        return PreparePad(binding);
      case Opcode::kConcat:
        return PrepareConcat(binding);
      case Opcode::kTakeRows:
      case Opcode::kPlaceRows:
        return PrepareRows(binding);
      case Opcode::kWindows:
        return PrepareWindows(binding);
      case Opcode::kFoldWindows:
        return PrepareFoldWindows(binding);
      case Opcode::kGather:
        return PrepareGather(binding);
      case Opcode::kScatterAdd:
        return PrepareScatterAdd(binding);
      case Opcode::kCheckIndex:
        return PrepareCheckIndex(binding);
      case Opcode::kDynamicSlice:
        return PrepareDynamicSlice(binding);
      case Opcode::kUpdateSlice:
        return PrepareUpdateSlice(binding);
      case Opcode::kScan:
        return PrepareScan(binding);
      case Opcode::kReduceBlocks:
        return PrepareReduceBlocks(binding);
      case Opcode::kTopK:
        return PrepareTopK(binding);
      case Opcode::kAttention:
      case Opcode::kAttentionGradient:
        return PrepareAttentionInstruction(binding);
      case Opcode::kMask:
        return PrepareMask(binding);
      case Opcode::kAllSlice:
        return PrepareAllSlice(binding);
      default:
        break;
    }
    return absl::UnimplementedError(absl::StrCat(
        "device \"cpu\" has no kernel for ", OpcodeName(instruction.opcode)));
  }

  FusionCapabilities fusion() const override { return CpuFusion(); }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareGroup(
      const FusedGroup& group, absl::Span<const Binding> members) override {
    EnterThread();
    if (group.Find<ConvolutionGroup>() != nullptr) {
      return PrepareConvolution(group, members);
    }
    if (group.Find<PoolGroup>() != nullptr) return PreparePool(group, members);
    if (group.Find<RowGroup>() != nullptr) return PrepareRowGroup(members);
    if (const auto* epilogue = group.Find<EpilogueGroup>()) {
      return epilogue->accumulates ? PrepareEinsumGroup(*epilogue, members)
                                   : PrepareScatterAddGroup(*epilogue, members);
    }
    return PrepareMapGroup(members);
  }

  std::unique_ptr<Kernel> PrepareCopy(void* to, const void* from,
                                      const BlockCopy& copy) override {
    return PrepareBlockCopy(to, from, copy);
  }

 private:
  int num_threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> CreateDevice(
    const DeviceOptions& options) {
  return std::make_unique<CpuDevice>(options.num_threads);
}

}  // namespace mtf::cpu
