// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/communicators/loopback_kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWord = 16;  // bytes of the widest access

bool Reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce ||
         kind == CollectiveKind::kReduceScatter;
}

// The type of the unit in which bytes are moved, by alignment.
absl::string_view UnitText(int bytes) {
  switch (bytes) {
    case 16:
      return "Pack<u32, 4>";
    case 8:
      return "Pack<u32, 2>";
    case 4:
      return "u32";
    case 2:
      return "u16";
    default:
      return "unsigned char";
  }
}

// The statements of one thread for pack `i` of `packs` of a block. A block is
// the data from one rank to another, or all of an all_reduce's operand.
absl::string_view BodyText(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return R"(  const Pack<Element, n> result = Combined<n>(p, i);
#pragma unroll
  for (int q = 0; q < kRanks; ++q) At<n>(p.out[q], i) = result;
)";
    case CollectiveKind::kReduceScatter:
      return R"(#pragma unroll
  for (int q = 0; q < kRanks; ++q) {
    At<n>(p.out[q], i) = Combined<n>(p, q * packs + i);
  }
)";
    case CollectiveKind::kAllGather:
      return R"(#pragma unroll
  for (int q = 0; q < kRanks; ++q) {
    const Element word = p.in[q][i];
#pragma unroll
    for (int to = 0; to < kRanks; ++to) p.out[to][q * packs + i] = word;
  }
)";
    case CollectiveKind::kAllToAll:
      return R"(#pragma unroll
  for (int q = 0; q < kRanks; ++q) {
#pragma unroll
    for (int to = 0; to < kRanks; ++to) {
      p.out[to][q * packs + i] = p.in[q][to * packs + i];
    }
  }
)";
    default:
      return R"(#pragma unroll
  for (int q = 0; q < kRanks; ++q) p.out[q][i] = p.in[q][i];
)";
  }
}

// Elements (or bytes, without a reduction) per access: the widest word to which
// all pointers and blocks are aligned.
int PackOf(const LoopbackCall& call) {
  const int64_t size = Reduces(call.kind) ? DTypeSize(call.dtype) : 1;
  uintptr_t bits = kWord;
  // An all_reduce has one block, whose tail may be shorter than a word.
  if (call.kind != CollectiveKind::kAllReduce) bits |= call.count * size;
  for (const void* in : call.in) bits |= reinterpret_cast<uintptr_t>(in);
  for (const void* out : call.out) bits |= reinterpret_cast<uintptr_t>(out);
  const auto word = static_cast<int64_t>(bits & -bits);
  return static_cast<int>(std::max<int64_t>(1, word / size));
}

}  // namespace

absl::string_view CombinedText(DType dtype, ReduceKind kind) {
  if (dtype == kBool) return kind == ReduceKind::kMin ? "x && y" : "x || y";
  switch (kind) {
    case ReduceKind::kSum:
      return "x + y";
    case ReduceKind::kMax:
      return "Maximum(x, y)";
    case ReduceKind::kMin:
      return "Minimum(x, y)";
  }
  return "";
}

KernelSource LoopbackSource(const LoopbackCall& call, int pack) {
  const bool reduces = Reduces(call.kind);
  KernelSource source;
  source.name = std::string(CollectiveName(call.kind));
  source.text = std::string(BasicText());
  absl::StrAppend(
      &source.text, "\nconstexpr int kRanks = ", call.in.size(), ";\ntypedef ",
      reduces ? StorageType(call.dtype) : UnitText(pack), " Element;\n");
  absl::StrAppend(&source.text, R"(struct Pointers {
  const Element* in[kRanks];
  Element* out[kRanks];
};
)");
  if (reduces) {
    absl::StrAppend(&source.text, R"(
template <int n>
__device__ inline Pack<Element, n>& At(Element* p, i64 i) {
  return ((Pack<Element, n>*)p)[i];
}
template <int n>
__device__ inline const Pack<Element, n>& At(const Element* p, i64 i) {
  return ((const Pack<Element, n>*)p)[i];
}
// In rank order, rounded once.
template <int n>
__device__ inline Pack<Element, n> Combined(const Pointers& p, i64 i) {
  )",
                    RegisterType(call.dtype), R"( total[n];
  const Pack<Element, n> first = At<n>(p.in[0], i);
  for (int j = 0; j < n; ++j) total[j] = Value(first.at[j]);
#pragma unroll
  for (int q = 1; q < kRanks; ++q) {
    const Pack<Element, n> next = At<n>(p.in[q], i);
    for (int j = 0; j < n; ++j) {
      const auto x = total[j], y = )",
                    RegisterType(call.dtype), R"((Value(next.at[j]));
      total[j] = )",
                    CombinedText(call.dtype, call.reduce), R"(;
    }
  }
  Pack<Element, n> result;
  for (int j = 0; j < n; ++j) Put(result.at[j], total[j]);
  return result;
}
)");
  }
  // One parameter per pointer: no array to fill in device memory, and loops
  // over ranks unroll into registers.
  std::string parameters, ins, outs;
  for (size_t q = 0; q < call.in.size(); ++q) {
    absl::StrAppend(&parameters, "const Element* in", q, ", Element* out", q,
                    ", ");
    absl::StrAppend(&ins, q > 0 ? ", " : "", "in", q);
    absl::StrAppend(&outs, q > 0 ? ", " : "", "out", q);
  }
  absl::StrAppend(&source.text, R"(
template <int n>
__device__ inline void Move(const Pointers& p, i64 packs, i64 i) {
)",
                  BodyText(call.kind), R"(}
extern "C" __global__ void )",
                  source.name, "(", parameters,
                  "i64 count) {\n  const Pointers p = {{", ins, "}, {", outs,
                  R"(}};
  const i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  const i64 stride = (i64)gridDim.x * blockDim.x;
)");
  const int n = reduces ? pack : 1;
  absl::StrAppend(&source.text, "  for (i64 i = first; i < count / ", n,
                  "; i += stride) Move<", n, ">(p, count / ", n, ", i);\n");
  // Blocks of a reduce_scatter are complete packs, which PackOf ensures.
  if (n > 1 && call.kind == CollectiveKind::kAllReduce) {
    absl::StrAppend(
        &source.text, "  for (i64 i = count / ", n, " * ", n,
        " + first; i < count; i += stride) Move<1>(p, count, i);\n");
  }
  absl::StrAppend(&source.text, "}\n");
  return source;
}

absl::StatusOr<Function*> LoopbackKernels::Find(const LoopbackCall& call,
                                                int pack) {
  const bool reduces = Reduces(call.kind);
  const Key key = {call.kind, reduces ? static_cast<int>(call.dtype) : -1,
                   reduces ? call.reduce : ReduceKind::kSum, call.in.size(),
                   pack};
  std::lock_guard<std::mutex> lock(mutex_);
  Function*& known = functions_[key];
  if (known == nullptr) {
    MTF_ASSIGN_OR_RETURN(known, runtime_.Compile(LoopbackSource(call, pack)));
  }
  return known;
}

absl::Status LoopbackKernels::Prepare(const LoopbackCall& call) {
  if (call.count == 0) return absl::OkStatus();
  return Find(call, PackOf(call)).status();
}

absl::Status LoopbackKernels::Enqueue(const LoopbackCall& call) {
  if (call.count == 0) return absl::OkStatus();
  const bool reduces = Reduces(call.kind);
  const int pack = PackOf(call);
  MTF_ASSIGN_OR_RETURN(Function* const function, Find(call, pack));
  int64_t count = reduces ? call.count : call.count / pack;
  const int64_t work = reduces ? (count + pack - 1) / pack : count;
  LaunchShape shape;
  shape.threads = kThreads;
  shape.blocks =
      std::clamp<int64_t>((work + kThreads - 1) / kThreads, 1,
                          int64_t{8} * runtime_.info().multiprocessors);
  std::vector<const void*> in = call.in;
  std::vector<void*> out = call.out;
  std::vector<void*> arguments;
  for (size_t q = 0; q < in.size(); ++q) {
    arguments.push_back(&in[q]);
    arguments.push_back(&out[q]);
  }
  arguments.push_back(&count);
  runtime_.Launch(*function, shape, arguments);
  return absl::OkStatus();
}

}  // namespace mtf::cuda
