// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/communicators/ordered_sums.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "backends/cuda/codegen/rounding.h"
#include "backends/cuda/communicators/loopback_kernels.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kWord = 16;  // bytes of the widest access
// Operands up to this size are gathered completely: one call instead of two,
// and few bytes more.
constexpr int64_t kSmallBytes = 32 << 10;
// Bytes of operands that are reduced by one call.
constexpr int64_t kBatchBytes = 4 << 20;

// The bytes of each rank's shard of an operand of `bytes`. Uneven shards begin
// at multiples of a word.
int64_t ShardBytes(int64_t bytes, int ranks, DType dtype) {
  const int64_t even = bytes / ranks;
  return even * ranks == bytes && even % DTypeSize(dtype) == 0
             ? even
             : RoundUp(CeilDivide(bytes, ranks), kWord);
}

// Scratch for the received shards, twice, and for the own one.
int64_t ScratchBytes(int64_t bytes, int ranks, DType dtype) {
  const int64_t shard = RoundUp(ShardBytes(bytes, ranks, dtype), kWord);
  return std::max((2 * ranks + 1) * shard, (ranks + 1) * kSmallBytes);
}

KernelSource CombineSource(int ranks, DType dtype, ReduceKind kind, int pack) {
  KernelSource source;
  source.name = "sum_in_order";
  source.text = absl::StrCat(
      BasicText(), "\ntypedef Pack<", StorageType(dtype), ", ", pack,
      "> Packed;\nextern \"C\" __global__ void __launch_bounds__(", kThreads,
      ")\nsum_in_order(const Packed* in, Packed* out, i64 block, i64 count) {\n"
      "  const i64 stride = (i64)gridDim.x * ",
      kThreads, ";\n  for (i64 i = (i64)blockIdx.x * ", kThreads,
      " + threadIdx.x; i < count; i += stride) {\n"
      "    ",
      RegisterType(dtype), " total[", pack,
      "];\n    Packed next = in[i];\n    for (int j = 0; j < ", pack,
      "; ++j) total[j] = Value(next.at[j]);\n#pragma unroll 8\n"
      "    for (int q = 1; q < ",
      ranks,
      "; ++q) {\n      next = in[q * block + i];\n"
      "#pragma unroll\n      for (int j = 0; j < ",
      pack, "; ++j) {\n        const ", RegisterType(dtype),
      " x = total[j], y = Value(next.at[j]);\n        total[j] = ",
      CombinedText(dtype, kind), ";\n      }\n    }\n    for (int j = 0; j < ",
      pack, "; ++j) Put(next.at[j], total[j]);\n    out[i] = next;\n  }\n}\n");
  return source;
}

}  // namespace

int64_t OrderedSums::BatchBytes() const {
  return std::max(largest_, kBatchBytes);
}

absl::Status OrderedSums::Prepare(CollectiveKind collective, int ranks,
                                  int64_t count, DType dtype, ReduceKind kind) {
  const int64_t bytes = count * DTypeSize(dtype);
  if (collective == CollectiveKind::kAllReduce) {
    largest_ = std::max(largest_, bytes);
    MTF_RETURN_IF_ERROR(
        scratch_.Reserve(ScratchBytes(BatchBytes(), ranks, dtype)).status());
  } else {
    MTF_RETURN_IF_ERROR(scratch_.Reserve(ranks * bytes).status());
  }
  return Find(ranks, dtype, kind).status();
}

absl::StatusOr<OrderedSums::Kernels> OrderedSums::Find(int ranks, DType dtype,
                                                       ReduceKind kind) {
  Kernels& kernels = kernels_[{ranks, dtype, kind}];
  if (kernels.packed != nullptr) return kernels;
  MTF_ASSIGN_OR_RETURN(kernels.single,
                       runtime_.Compile(CombineSource(ranks, dtype, kind, 1)));
  const auto pack = static_cast<int>(kWord / DTypeSize(dtype));
  MTF_ASSIGN_OR_RETURN(kernels.packed, runtime_.Compile(CombineSource(
                                           ranks, dtype, kind, pack)));
  return kernels;
}

absl::Status OrderedSums::Combine(int ranks, const void* in, void* out,
                                  int64_t block, int64_t count, DType dtype,
                                  ReduceKind kind) {
  if (count == 0) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(const Kernels kernels, Find(ranks, dtype, kind));
  const int64_t pack = kWord / DTypeSize(dtype);
  const bool packed = block % pack == 0 && count % pack == 0 &&
                      reinterpret_cast<uintptr_t>(in) % kWord == 0 &&
                      reinterpret_cast<uintptr_t>(out) % kWord == 0;
  if (packed) {
    block /= pack;
    count /= pack;
  }
  LaunchShape shape;
  shape.threads = kThreads;
  shape.blocks =
      std::clamp<int64_t>((count + kThreads - 1) / kThreads, 1,
                          int64_t{8} * runtime_.info().multiprocessors);
  void* const arguments[] = {&in, &out, &block, &count};
  runtime_.Launch(packed ? *kernels.packed : *kernels.single, shape, arguments);
  return absl::OkStatus();
}

absl::Status OrderedSums::AllReduce(
    NcclGroup& group, int ranks,
    absl::Span<const NcclGroup::ReduceBuffer> buffers, DType dtype,
    ReduceKind kind) {
  const int64_t most = BatchBytes();
  size_t begin = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const int64_t more = RoundUp(buffers[i].count * DTypeSize(dtype), kWord);
    if (i > begin && bytes + more > most) {
      MTF_RETURN_IF_ERROR(ReduceBatch(
          group, ranks, buffers.subspan(begin, i - begin), dtype, kind));
      begin = i;
      bytes = 0;
    }
    bytes += more;
  }
  return ReduceBatch(group, ranks, buffers.subspan(begin), dtype, kind);
}

absl::Status OrderedSums::ReduceBatch(
    NcclGroup& group, int ranks,
    absl::Span<const NcclGroup::ReduceBuffer> buffers, DType dtype,
    ReduceKind kind) {
  const int64_t size = DTypeSize(dtype);
  const bool one = buffers.size() == 1;
  int64_t bytes = 0;
  std::vector<int64_t> offsets;
  for (const NcclGroup::ReduceBuffer& buffer : buffers) {
    offsets.push_back(bytes);
    bytes += one ? buffer.count * size : RoundUp(buffer.count * size, kWord);
  }
  if (bytes == 0) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(void* const room,
                       scratch_.Reserve(ScratchBytes(bytes, ranks, dtype)));
  char* const joined = static_cast<char*>(room);
  const bool small = bytes <= kSmallBytes;
  const int64_t shard = small ? bytes : ShardBytes(bytes, ranks, dtype);
  // A single operand with even shards is reduced without copies.
  const bool direct = one && (small || shard * ranks == bytes);
  char* const received =
      joined + (direct ? 0 : RoundUp(small ? bytes : shard * ranks, kWord));
  const void* in = direct ? buffers[0].in : joined;
  void* out = direct ? buffers[0].out : joined;
  if (!direct) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      runtime_.CopyOnDevice(joined + offsets[i], buffers[i].in,
                            buffers[i].count * size);
    }
  }
  if (small) {
    MTF_RETURN_IF_ERROR(group.AllGather(in, received, bytes));
    MTF_RETURN_IF_ERROR(
        Combine(ranks, received, out, bytes / size, bytes / size, dtype, kind));
  } else {
    char* const mine = received + RoundUp(shard * ranks, kWord);
    MTF_RETURN_IF_ERROR(group.AllToAll(in, received, shard));
    MTF_RETURN_IF_ERROR(Combine(ranks, received, mine, shard / size,
                                shard / size, dtype, kind));
    MTF_RETURN_IF_ERROR(group.AllGather(mine, out, shard));
  }
  if (!direct) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      runtime_.CopyOnDevice(buffers[i].out, joined + offsets[i],
                            buffers[i].count * size);
    }
  }
  return absl::OkStatus();
}

absl::Status OrderedSums::ReduceScatter(NcclGroup& group, int ranks,
                                        const void* in, void* out,
                                        int64_t count, DType dtype,
                                        ReduceKind kind) {
  const int64_t bytes = count * DTypeSize(dtype);
  if (bytes == 0) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(void* const received, scratch_.Reserve(ranks * bytes));
  MTF_RETURN_IF_ERROR(group.AllToAll(in, received, bytes));
  return Combine(ranks, received, out, count, count, dtype, kind);
}

}  // namespace mtf::cuda
