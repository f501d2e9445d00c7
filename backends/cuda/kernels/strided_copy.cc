// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels/strided_copy.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

using Loop = StridedCopy::Loop;

constexpr int kThreads = 256;
constexpr int kTile = 32;  // rows and columns of a tile

// The loop that is contiguous on the read side and the one on the written side,
// or -1. If they differ, tiles are transposed in shared memory so that accesses
// are contiguous across threads on both sides.
struct ContiguousLoops {
  int from = -1, to = -1;
  bool NeedTranspose() const { return from >= 0 && to >= 0 && from != to; }
};

ContiguousLoops FindContiguousLoops(const StridedCopy& copy) {
  ContiguousLoops contiguous;
  for (size_t i = 0; i < copy.loops.size(); ++i) {
    const Loop& loop = copy.loops[i];
    // Tiles do not pay for short loops.
    if (loop.from == 1 && loop.extent >= 8)
      contiguous.from = static_cast<int>(i);
    if (loop.to == 1 && loop.extent >= 8) contiguous.to = static_cast<int>(i);
  }
  return contiguous;
}

constexpr int64_t kWidest = 16;  // bytes of an access

// The word type of `bytes`: copies ignore dtypes.
absl::string_view WordType(int64_t bytes) {
  switch (bytes) {
    case 1:
      return "unsigned char";
    case 2:
      return "unsigned short";
    case 4:
      return "unsigned int";
    case 8:
      return "unsigned long long";
    default:
      return "struct alignas(16) { unsigned long long at[2]; }";
  }
}

// Whether 32 bits hold every index and offset, with room for a step of the
// grid.
bool IsShort(const StridedCopy& copy) {
  int64_t reach = copy.elements();
  for (bool reads : {true, false}) {
    int64_t last = kTile;
    for (const Loop& loop : copy.loops) {
      last += loop.extent * (reads ? loop.from : loop.to);
    }
    reach = std::max(reach, last);
  }
  return reach < int64_t{1} << 30;
}

// "from_at += (rest % 12) * 64; to_at += ...": splits the index `rest` into the
// indices of `loops`.
std::string Unravel(const std::vector<Loop>& loops) {
  std::string text;
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
    const bool last = loop + 1 == loops.rend();
    const std::string at =
        last ? "rest" : absl::StrCat("(rest % ", loop->extent, ")");
    if (loop->from != 0) {
      absl::StrAppend(&text, "    from_at += ", at, " * ", loop->from, ";\n");
    }
    if (loop->to != 0) {
      absl::StrAppend(&text, "    to_at += ", at, " * ", loop->to, ";\n");
    }
    if (!last) absl::StrAppend(&text, "    rest /= ", loop->extent, ";\n");
  }
  return text;
}

int64_t Tiles(int64_t extent) { return (extent + kTile - 1) / kTile; }

std::string PlainBody(const StridedCopy& copy) {
  return absl::StrCat(
      "  for (Index i = (Index)blockIdx.x * blockDim.x + threadIdx.x; i < ",
      copy.elements(),
      "; i += (Index)gridDim.x * blockDim.x) {\n"
      "    Index rest = i, from_at = 0, to_at = 0;\n",
      Unravel(copy.loops),
      "    Store(to[to_at], from[from_at]);\n"
      "  }\n");
}

std::string TransposingBody(const StridedCopy& copy,
                            const ContiguousLoops& contiguous) {
  const Loop& read = copy.loops[contiguous.from];   // contiguous in `from`
  const Loop& written = copy.loops[contiguous.to];  // contiguous in `to`
  std::vector<Loop> others;
  int64_t tiles = Tiles(read.extent) * Tiles(written.extent);
  for (size_t i = 0; i < copy.loops.size(); ++i) {
    if (static_cast<int>(i) == contiguous.from ||
        static_cast<int>(i) == contiguous.to) {
      continue;
    }
    others.push_back(copy.loops[i]);
    tiles *= copy.loops[i].extent;
  }
  return absl::StrCat("  __shared__ From tile[", kTile, "][", kTile + 1, "];\n",
                      "  const int column = threadIdx.x % ", kTile, ";\n",
                      "  const int row = threadIdx.x / ", kTile, ";\n",
                      "  for (Index i = blockIdx.x; i < ", tiles,
                      "; i += gridDim.x) {\n"
                      "    Index rest = i, from_at = 0, to_at = 0;\n",
                      "    const Index r0 = rest % ", Tiles(read.extent), " * ",
                      kTile, ";\n    rest /= ", Tiles(read.extent), ";\n",
                      "    const Index w0 = rest % ", Tiles(written.extent),
                      " * ", kTile, ";\n    rest /= ", Tiles(written.extent),
                      ";\n", Unravel(others), "    for (int j = row; j < ",
                      kTile, "; j += ", kThreads / kTile,
                      ") {\n"
                      "      const Index r = r0 + column, w = w0 + j;\n"
                      "      if (r < ",
                      read.extent, " && w < ", written.extent,
                      ") {\n"
                      "        tile[j][column] = from[from_at + r + w * ",
                      written.from,
                      "];\n"
                      "      }\n"
                      "    }\n"
                      "    __syncthreads();\n"
                      "    for (int j = row; j < ",
                      kTile, "; j += ", kThreads / kTile,
                      ") {\n"
                      "      const Index r = r0 + j, w = w0 + column;\n"
                      "      if (r < ",
                      read.extent, " && w < ", written.extent,
                      ") {\n"
                      "        Store(to[to_at + w + r * ",
                      read.to,
                      "], tile[column][j]);\n"
                      "      }\n"
                      "    }\n"
                      "    __syncthreads();\n"
                      "  }\n");
}

class CopyKernel : public Kernel {
 public:
  CopyKernel(Runtime& runtime, Function* function, const LaunchShape& shape,
             const void* from, void* to)
      : runtime_(runtime),
        function_(function),
        shape_(shape),
        from_(from),
        to_(to) {}
  void Run(StepContext&) override {
    void* const arguments[] = {&from_, &to_};
    runtime_.Launch(*function_, shape_, arguments);
  }

 private:
  Runtime& runtime_;
  Function* function_;
  LaunchShape shape_;
  const void* from_;
  void* to_;
};

class FlatCopyKernel : public Kernel {
 public:
  FlatCopyKernel(Runtime& runtime, const void* from, void* to, int64_t bytes)
      : runtime_(runtime), from_(from), to_(to), bytes_(bytes) {}
  void Run(StepContext&) override {
    if (bytes_ > 0) runtime_.CopyOnDevice(to_, from_, bytes_);
  }

 private:
  Runtime& runtime_;
  const void* from_;
  void* to_;
  int64_t bytes_;
};

}  // namespace

StridedCopy Folded(StridedCopy copy) {
  copy.loops = FoldedLoops(std::move(copy.loops));
  return copy;
}

StridedCopy Packed(StridedCopy copy, uintptr_t addresses) {
  if (copy.from_dtype != copy.to_dtype || copy.loops.empty() ||
      copy.loops.back().from != 1 || copy.loops.back().to != 1) {
    return copy;
  }
  const int64_t size = DTypeSize(copy.to_dtype);
  // A common divisor of all offsets, in elements.
  int64_t all = std::gcd(copy.loops.back().extent, kWidest / size);
  all = std::gcd(all, static_cast<int64_t>(addresses | kWidest) / size);
  for (size_t i = 0; i + 1 < copy.loops.size(); ++i) {
    all = std::gcd(std::gcd(all, copy.loops[i].from), copy.loops[i].to);
  }
  if (all == 1) return copy;
  copy.pack = static_cast<int>(all);
  copy.loops.back().extent /= all;
  for (size_t i = 0; i + 1 < copy.loops.size(); ++i) {
    copy.loops[i].from /= all;
    copy.loops[i].to /= all;
  }
  return Folded(std::move(copy));
}

KernelSource StridedCopySource(const StridedCopy& copy) {
  KernelSource source{"strided_copy", ""};
  absl::StrAppend(&source.text, "typedef ", IsShort(copy) ? "int" : "long long",
                  " Index;\n");
  if (copy.from_dtype == copy.to_dtype) {
    const absl::string_view word =
        WordType(copy.pack * DTypeSize(copy.from_dtype));
    absl::StrAppend(&source.text, "typedef ", word,
                    " From;\ntypedef From To;\n__device__ inline void "
                    "Store(To& to, From from) { "
                    "to = from; }\n");
  } else {
    absl::StrAppend(&source.text, BasicText(), "typedef ",
                    StorageType(copy.from_dtype), " From;\ntypedef ",
                    StorageType(copy.to_dtype),
                    " To;\n__device__ inline void Store(To& to, From from) { "
                    "Put(to, Value(from)); }\n");
  }
  const ContiguousLoops contiguous = FindContiguousLoops(copy);
  absl::StrAppend(&source.text,
                  "extern \"C\" __global__ void __launch_bounds__(", kThreads,
                  ") strided_copy(\n",
                  "    const From* __restrict__ from, To* __restrict__ to) {\n",
                  contiguous.NeedTranspose() ? TransposingBody(copy, contiguous)
                                             : PlainBody(copy),
                  "}\n");
  return source;
}

LaunchShape StridedCopyShape(const StridedCopy& copy) {
  const ContiguousLoops contiguous = FindContiguousLoops(copy);
  int64_t blocks = (copy.elements() + kThreads - 1) / kThreads;
  if (contiguous.NeedTranspose()) {
    const int64_t r = copy.loops[contiguous.from].extent;
    const int64_t w = copy.loops[contiguous.to].extent;
    blocks = copy.elements() / (r * w) * Tiles(r) * Tiles(w);
  }
  // More blocks gain nothing; each then copies several tiles.
  constexpr int64_t kMaxBlocks = 1 << 16;
  return {.blocks = std::clamp<int64_t>(blocks, 1, kMaxBlocks),
          .threads = kThreads};
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareStridedCopy(
    Runtime& runtime, const StridedCopy& copy, const void* from, void* to) {
  StridedCopy folded = Folded(copy);
  const bool flat = folded.loops.empty() ||
                    (folded.loops.size() == 1 && folded.loops[0].from == 1 &&
                     folded.loops[0].to == 1);
  if (folded.elements() == 0 ||
      (flat && folded.from_dtype == folded.to_dtype)) {
    return std::make_unique<FlatCopyKernel>(
        runtime, from, to, folded.elements() * DTypeSize(folded.to_dtype));
  }
  folded = Packed(std::move(folded), reinterpret_cast<uintptr_t>(from) |
                                         reinterpret_cast<uintptr_t>(to));
  MTF_ASSIGN_OR_RETURN(Function * function,
                       runtime.Compile(StridedCopySource(folded)));
  return std::make_unique<CopyKernel>(runtime, function,
                                      StridedCopyShape(folded), from, to);
}

}  // namespace mtf::cuda
