// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/communicators/ordered_sums.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "backends/cuda/communicators/loopback_kernels.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kWord = 16;  // bytes of the widest access
// Operands up to this are gathered whole: one call instead of two, and few
// bytes more.
constexpr int64_t kLittle = 32 << 10;
// Operands of one call that go together.
constexpr int64_t kBatch = 4 << 20;

int64_t RoundUp(int64_t a, int64_t b) { return (a + b - 1) / b * b; }

// The part of each place, of an operand of `bytes`. Parts begin at words where
// they do not come out even.
int64_t PartBytes(int64_t bytes, int places, DType dtype) {
  const int64_t even = bytes / places;
  return even * places == bytes && even % DTypeSize(dtype) == 0
             ? even
             : RoundUp((bytes + places - 1) / places, kWord);
}

// Room for what a place has of all, twice, and for its own part.
int64_t RoomFor(int64_t bytes, int places, DType dtype) {
  const int64_t part = RoundUp(PartBytes(bytes, places, dtype), kWord);
  return std::max((2 * places + 1) * part, (places + 1) * kLittle);
}

KernelSource CombineSource(int places, DType dtype, ReduceKind kind, int pack) {
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
      places,
      "; ++q) {\n      next = in[q * block + i];\n"
      "#pragma unroll\n      for (int j = 0; j < ",
      pack, "; ++j) {\n        const ", RegisterType(dtype),
      " x = total[j], y = Value(next.at[j]);\n        total[j] = ",
      CombinedText(dtype, kind), ";\n      }\n    }\n    for (int j = 0; j < ",
      pack, "; ++j) Put(next.at[j], total[j]);\n    out[i] = next;\n  }\n}\n");
  return source;
}

}  // namespace

int64_t OrderedSums::BatchBytes() const { return std::max(largest_, kBatch); }

absl::Status OrderedSums::Prepare(CollectiveKind collective, int places,
                                  int64_t count, DType dtype, ReduceKind kind) {
  const int64_t bytes = count * DTypeSize(dtype);
  if (collective == CollectiveKind::kAllReduce) {
    largest_ = std::max(largest_, bytes);
    MTF_RETURN_IF_ERROR(
        room_.Reserve(RoomFor(BatchBytes(), places, dtype)).status());
  } else {
    MTF_RETURN_IF_ERROR(room_.Reserve(places * bytes).status());
  }
  return Find(places, dtype, kind).status();
}

absl::StatusOr<OrderedSums::Kernels> OrderedSums::Find(int places, DType dtype,
                                                       ReduceKind kind) {
  Kernels& kernels = kernels_[{places, dtype, kind}];
  if (kernels.packed != nullptr) return kernels;
  MTF_ASSIGN_OR_RETURN(kernels.single,
                       runtime_.Compile(CombineSource(places, dtype, kind, 1)));
  const auto pack = static_cast<int>(kWord / DTypeSize(dtype));
  MTF_ASSIGN_OR_RETURN(kernels.packed, runtime_.Compile(CombineSource(
                                           places, dtype, kind, pack)));
  return kernels;
}

absl::Status OrderedSums::Combine(int places, const void* in, void* out,
                                  int64_t block, int64_t count, DType dtype,
                                  ReduceKind kind) {
  if (count == 0) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(const Kernels kernels, Find(places, dtype, kind));
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

absl::Status OrderedSums::AllReduce(NcclGroup& group, int places,
                                    absl::Span<const NcclGroup::Piece> pieces,
                                    DType dtype, ReduceKind kind) {
  const int64_t most = BatchBytes();
  size_t begin = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const int64_t more = RoundUp(pieces[i].count * DTypeSize(dtype), kWord);
    if (i > begin && bytes + more > most) {
      MTF_RETURN_IF_ERROR(ReduceBatch(
          group, places, pieces.subspan(begin, i - begin), dtype, kind));
      begin = i;
      bytes = 0;
    }
    bytes += more;
  }
  return ReduceBatch(group, places, pieces.subspan(begin), dtype, kind);
}

absl::Status OrderedSums::ReduceBatch(NcclGroup& group, int places,
                                      absl::Span<const NcclGroup::Piece> pieces,
                                      DType dtype, ReduceKind kind) {
  const int64_t size = DTypeSize(dtype);
  const bool one = pieces.size() == 1;
  int64_t bytes = 0;
  std::vector<int64_t> offsets;
  for (const NcclGroup::Piece& piece : pieces) {
    offsets.push_back(bytes);
    bytes += one ? piece.count * size : RoundUp(piece.count * size, kWord);
  }
  if (bytes == 0) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(void* const room,
                       room_.Reserve(RoomFor(bytes, places, dtype)));
  char* const joined = static_cast<char*>(room);
  const bool little = bytes <= kLittle;
  const int64_t part = little ? bytes : PartBytes(bytes, places, dtype);
  // One operand whose parts come out even needs no other place.
  const bool direct = one && (little || part * places == bytes);
  char* const received =
      joined + (direct ? 0 : RoundUp(little ? bytes : part * places, kWord));
  const void* in = direct ? pieces[0].in : joined;
  void* out = direct ? pieces[0].out : joined;
  if (!direct) {
    for (size_t i = 0; i < pieces.size(); ++i) {
      runtime_.CopyOnDevice(joined + offsets[i], pieces[i].in,
                            pieces[i].count * size);
    }
  }
  if (little) {
    MTF_RETURN_IF_ERROR(group.AllGather(in, received, bytes));
    MTF_RETURN_IF_ERROR(Combine(places, received, out, bytes / size,
                                bytes / size, dtype, kind));
  } else {
    char* const mine = received + RoundUp(part * places, kWord);
    MTF_RETURN_IF_ERROR(group.AllToAll(in, received, part));
    MTF_RETURN_IF_ERROR(
        Combine(places, received, mine, part / size, part / size, dtype, kind));
    MTF_RETURN_IF_ERROR(group.AllGather(mine, out, part));
  }
  if (!direct) {
    for (size_t i = 0; i < pieces.size(); ++i) {
      runtime_.CopyOnDevice(pieces[i].out, joined + offsets[i],
                            pieces[i].count * size);
    }
  }
  return absl::OkStatus();
}

absl::Status OrderedSums::ReduceScatter(NcclGroup& group, int places,
                                        const void* in, void* out,
                                        int64_t count, DType dtype,
                                        ReduceKind kind) {
  const int64_t bytes = count * DTypeSize(dtype);
  if (bytes == 0) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(void* const received, room_.Reserve(places * bytes));
  MTF_RETURN_IF_ERROR(group.AllToAll(in, received, bytes));
  return Combine(places, received, out, count, count, dtype, kind);
}

}  // namespace mtf::cuda
