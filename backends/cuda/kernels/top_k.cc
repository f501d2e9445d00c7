// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels/top_k.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/block_lines.h"
#include "backends/cuda/codegen/kernel_writer.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

constexpr int kThreads = 256;
// Largest k that is found one element after the other.
constexpr int64_t kFew = 16;
// Longest line that a warp takes; a longer one takes a block.
constexpr int64_t kLineOfWarp = 1024;
// Keys of up to this many bytes are sorted in shared memory.
constexpr int64_t kSharedBytes = 32 << 10;

// Keys compare in the order of the result, no two are equal, and none is kNone
// or kAll. A key has the bits of the value, mapped to compare as unsigned
// integers (a NaN above infinity, 0 as -0), then the inverted index along the
// line.
constexpr absl::string_view kNarrowKey = R"(
typedef u64 Key;
#define kNone 0ULL
#define kAll 0xffffffffffffffffULL
#define kDigits 8
__device__ inline u32 BitsOf(F x) {
  if (x.v != x.v) return 0xff800001u;
  const u32 bits = x.v == 0.0f ? 0u : __float_as_uint(x.v);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline u32 BitsOf(I x) { return (u32)(u64)x.v ^ 0x80000000u; }
template <class R>
__device__ inline Key KeyOf(R x, i64 index) {
  return (u64)BitsOf(x) << 32 | (0xfffffffeu - (u32)index);
}
__device__ inline i64 IndexOf(Key x) { return 0xfffffffeu - (u32)x; }
__device__ inline bool Above(Key x, Key y) { return x > y; }
__device__ inline Key FromLane(Key x, int lane) {
  return __shfl_xor_sync(0xffffffffu, x, lane);
}
// Digits of 8 bits, the greatest first.
__device__ inline int DigitOf(Key x, int d) { return (int)(x >> (56 - 8 * d) & 255); }
__device__ inline bool SameAbove(Key x, Key y, int d) {
  return d == 0 || (x ^ y) >> (64 - 8 * d) == 0;
}
__device__ inline Key WithDigit(Key x, int d, int digit) {
  return x | (u64)digit << (56 - 8 * d);
}
)";
constexpr absl::string_view kWideKey = R"(
struct Key {
  u64 value;
  u32 order;
};
#define kNone Key{0, 0}
#define kAll Key{0xffffffffffffffffULL, 0xffffffffu}
#define kDigits 12
__device__ inline Key KeyOf(I x, i64 index) {
  return {(u64)x.v ^ 0x8000000000000000ULL, 0xfffffffeu - (u32)index};
}
__device__ inline i64 IndexOf(Key x) { return 0xfffffffeu - x.order; }
__device__ inline bool Above(Key x, Key y) {
  return x.value > y.value || (x.value == y.value && x.order > y.order);
}
__device__ inline Key FromLane(Key x, int lane) {
  return {__shfl_xor_sync(0xffffffffu, x.value, lane),
          __shfl_xor_sync(0xffffffffu, x.order, lane)};
}
// Digits of 8 bits, the greatest first.
__device__ inline int DigitOf(Key x, int d) {
  return d < 8 ? (int)(x.value >> (56 - 8 * d) & 255)
               : (int)(x.order >> (88 - 8 * d) & 255);
}
__device__ inline bool SameAbove(Key x, Key y, int d) {
  if (d == 0) return true;
  if (d < 8) return (x.value ^ y.value) >> (64 - 8 * d) == 0;
  return x.value == y.value &&
         (d == 8 || (x.order ^ y.order) >> (96 - 8 * d) == 0);
}
__device__ inline Key WithDigit(Key x, int d, int digit) {
  if (d < 8) return {x.value | (u64)digit << (56 - 8 * d), x.order};
  return {x.value, x.order | (u32)digit << (88 - 8 * d)};
}
)";

// The key of an element of which the least comes first.
constexpr absl::string_view kNarrowLeastKey = R"(
template <class R>
__device__ inline Key LeastKeyOf(R x, i64 index) {
  return KeyOf(x, index) ^ 0xffffffff00000000ULL;
}
)";
constexpr absl::string_view kWideLeastKey = R"(
__device__ inline Key LeastKeyOf(I x, i64 index) {
  const Key key = KeyOf(x, index);
  return {~key.value, key.order};
}
)";

class TopKWriter {
 public:
  explicit TopKWriter(const Binding& binding)
      : lines_(RankedLines(binding)),
        k_(binding.results[0].dims.back()),
        units_(lines_.lines() * lines_.blocks),
        key_bytes_(binding.operands[0].dtype() == kInt64 ? 16 : 8),
        key_of_(binding.instruction().Get<TopKAttributes>().least ? "LeastKeyOf"
                                                                  : "KeyOf"),
        writer_("top_k", kThreads) {
    writer_.Define(key_bytes_ == 16 ? kWideKey : kNarrowKey);
    if (key_of_ == "LeastKeyOf") {
      writer_.Define(key_bytes_ == 16 ? kWideLeastKey : kNarrowLeastKey);
    }
    const auto read = [&](const BoundValue& value) {
      return writer_.Read(value.data, value.dtype(), value.elements());
    };
    const auto write = [&](const BoundValue& value) {
      return writer_.Write(value.data, value.dtype(), value.elements());
    };
    x_ = read(binding.operands[0]);
    if (binding.operands.size() == 2) labels_ = read(binding.operands[1]);
    indices_ = write(binding.results.back());
    if (binding.results.size() == 2) values_ = write(binding.results[0]);
    valid_ = writer_.Number(lines_.valid);
    offset_ = writer_.Number(lines_.offset);
    writer_.SetIndexReach(lines_.lines() * lines_.extent + kThreads);
    writer_.SetIndexReach(units_ * std::max<int64_t>(k_.extent, 1) + kThreads);
  }

  absl::StatusOr<Launch> Compile(Runtime& runtime, Scratch& scratch) {
    if (k_.valid > kFew) return CompileMany(runtime, scratch);
    const int lanes = lines_.inner > 1              ? 1
                      : lines_.block <= kLineOfWarp ? 32
                                                    : kThreads;
    WriteFew(lanes);
    return writer_.Compile(runtime,
                           writer_.ShapeFor(runtime.info(), units_ * lanes));
  }

 private:
  // Declares the offsets of line and block of `unit`. In the results, blocks
  // are contiguous and lines are ordered as in a value without the dimension.
  std::string Where() const {
    return absl::StrCat(
        "    const Index b = unit % ", lines_.blocks, ", o = unit / ",
        lines_.blocks * lines_.inner, ", c = unit / ", lines_.blocks, " % ",
        lines_.inner, ", begin = b * ", lines_.block, ";\n",
        "    const Index left = (Index)", valid_, " - begin;\n",
        "    const Index count = left < 0 ? 0 : left < ", lines_.block,
        " ? left : ", lines_.block, ";\n    const Index base = (o * ",
        lines_.extent, " + begin) * ", lines_.inner, " + c;\n");
  }
  // Declares `key` of element q, or continues with the next if it has no label.
  std::string Key(absl::string_view indent) const {
    return absl::StrCat(
        labels_.empty() ? ""
                        : absl::StrCat(indent, "if (", labels_, "[base + q * ",
                                       lines_.inner, "] < 0) continue;\n"),
        indent, "const Key key = ", key_of_, "(Value(", x_, "[base + q * ",
        lines_.inner, "]), q);\n");
  }
  // Writes `key`, or "none", as the r-th result of `unit`.
  std::string Write(absl::string_view indent, absl::string_view key) const {
    std::string text =
        absl::StrCat(indent, "const Index to = unit * ", k_.extent, " + r;\n",
                     indent, "const bool found = Above(", key, ", kNone);\n",
                     indent, "const Index q = found ? (Index)IndexOf(", key,
                     ") : 0;\n", indent, indices_, "[to] = found ? ");
    if (labels_.empty()) {
      absl::StrAppend(&text, "(int)(", offset_, " + begin + q)");
    } else {
      absl::StrAppend(&text, labels_, "[base + q * ", lines_.inner, "]");
    }
    absl::StrAppend(&text, " : -1;\n");
    if (!values_.empty()) {
      absl::StrAppend(&text, indent, "if (found) {\n", indent, "  ", values_,
                      "[to] = ", x_, "[base + q * ", lines_.inner, "];\n",
                      indent, "} else {\n", indent, "  Put(", values_,
                      "[to], false);\n", indent, "}\n");
    }
    return text;
  }
  std::string Padding(absl::string_view first, int step) const {
    if (k_.extent == k_.valid) return "";
    return absl::StrCat("    for (Index r = ", k_.valid, " + ", first, "; r < ",
                        k_.extent, "; r += ", step, ") {\n      ", indices_,
                        "[unit * ", k_.extent, " + r] = 0;\n",
                        values_.empty()
                            ? ""
                            : absl::StrCat("      Put(", values_, "[unit * ",
                                           k_.extent, " + r], false);\n"),
                        "    }\n");
  }

  // `lanes` threads per line; one for strided lines, where neighbouring threads
  // then read neighbouring elements.
  void WriteFew(int lanes) {
    const int groups = kThreads / lanes;
    if (lanes == kThreads) writer_.Add("  __shared__ Key shared[8];\n");
    writer_.Add("  const int lane = threadIdx.x % ", lanes,
                ";\n  for (Index first = (Index)blockIdx.x * ", groups,
                "; first < ", units_, "; first += (Index)gridDim.x * ", groups,
                ") {\n    const Index unit = first + threadIdx.x / ", lanes,
                ";\n    const bool here = unit < ", units_, ";\n", Where(),
                "    Key last = kAll;\n    for (int r = 0; r < ", k_.valid,
                "; ++r) {\n      Key best = kNone;\n",
                "      if (here) {\n#pragma unroll 4\n",
                "        for (Index q = lane; q < count; q += ", lanes, ") {\n",
                Key("          "),
                "          if (Above(last, key) && Above(key, best)) best = "
                "key;\n        }\n      }\n");
    if (lanes > 1) {
      writer_.Add(
          "#pragma unroll\n      for (int by = 16; by > 0; by /= 2) {\n"
          "        const Key other = FromLane(best, by);\n"
          "        if (Above(other, best)) best = other;\n      }\n");
    }
    if (lanes == kThreads) {
      writer_.Add(
          "      if (lane % 32 == 0) shared[lane / 32] = best;\n"
          "      __syncthreads();\n      for (int w = 0; w < 8; ++w) {\n"
          "        if (Above(shared[w], best)) best = shared[w];\n      }\n"
          "      __syncthreads();\n");
    }
    writer_.Add("      last = best;\n      if (here && lane == 0) {\n",
                Write("        ", "best"), "      }\n    }\n");
    if (k_.extent != k_.valid) {
      writer_.Add("    if (here) {\n", Padding("lane", lanes), "    }\n");
    }
    writer_.Add("  }\n");
  }

  // A block per line. Finds the k-th key digit by digit, collects the greater
  // keys in any order, and sorts them; keys are distinct, so the result is
  // deterministic.
  absl::StatusOr<Launch> CompileMany(Runtime& runtime, Scratch& scratch) {
    int64_t size = 1;  // keys to sort
    while (size < k_.valid) size *= 2;
    const bool in_shared = size * key_bytes_ <= kSharedBytes;
    LaunchShape shape = writer_.ShapeFor(runtime.info(), units_ * kThreads);
    std::string sorted = "sorted";
    if (in_shared) {
      writer_.Add("  __shared__ Key sorted[", size, "];\n");
    } else {
      shape.blocks = std::min<int64_t>(
          shape.blocks, 2 * int64_t{runtime.info().multiprocessors});
      const int64_t bytes = shape.blocks * size * key_bytes_;
      MTF_ASSIGN_OR_RETURN(void* memory, scratch.Reserve(bytes));
      writer_.Add("  Key* sorted = ", writer_.WriteAs(memory, "Key", bytes),
                  " + (i64)blockIdx.x * ", size, ";\n");
    }
    writer_.SetIndexReach(2 * size);
    writer_.Add(
        "  __shared__ int bins[256];\n  __shared__ int chosen[2], filled;\n",
        "  for (Index unit = blockIdx.x; unit < ", units_,
        "; unit += gridDim.x) {\n", Where(),
        "    Key least = kNone;\n    int want = ", k_.valid,
        ", wanted = want;\n",
        "    for (int d = 0; d < kDigits && want > 0; ++d) {\n",
        "      bins[threadIdx.x] = 0;\n      __syncthreads();\n",
        "      for (Index q = threadIdx.x; q < count; q += ", kThreads, ") {\n",
        Key("        "),
        "        if (SameAbove(key, least, d)) atomicAdd(bins + DigitOf(key, "
        "d), 1);\n      }\n      __syncthreads();\n",
        "      int above = 0, all = 0;\n#pragma unroll 8\n",
        "      for (int t = 255; t >= 0; --t) {\n",
        "        if (t == (int)threadIdx.x) above = all;\n",
        "        all += bins[t];\n      }\n",
        "      // A line may have fewer than k elements.\n",
        "      if (d == 0 && all < want) want = wanted = all;\n",
        "      if (above < want && above + bins[threadIdx.x] >= want) {\n",
        "        chosen[0] = threadIdx.x;\n        chosen[1] = above;\n",
        "      }\n      __syncthreads();\n      if (want > 0) {\n",
        "        least = WithDigit(least, d, chosen[0]);\n",
        "        want -= chosen[1];\n      }\n      __syncthreads();\n",
        "    }\n    if (threadIdx.x == 0) filled = 0;\n",
        "    for (int n = threadIdx.x; n < ", size, "; n += ", kThreads,
        ") sorted[n] = kNone;\n    __syncthreads();\n",
        "    for (Index q = threadIdx.x; wanted > 0 && q < count; q += ",
        kThreads, ") {\n", Key("      "),
        "      if (!Above(least, key)) sorted[atomicAdd(&filled, 1)] = key;\n",
        "    }\n    __syncthreads();\n",
        "    // A bitonic sort, the greatest first.\n",
        "    for (int run = 2; run <= ", size, "; run *= 2) {\n",
        "      for (int by = run / 2; by > 0; by /= 2) {\n",
        "        for (int n = threadIdx.x; n < ", size / 2, "; n += ", kThreads,
        ") {\n          const int x = n / by * 2 * by + n % by, y = x + by;\n",
        "          const bool down = (x & run) == 0;\n",
        "          if (Above(sorted[y], sorted[x]) == down) {\n",
        "            const Key other = sorted[x];\n",
        "            sorted[x] = sorted[y];\n            sorted[y] = other;\n",
        "          }\n        }\n        __syncthreads();\n      }\n    }\n",
        "    for (int r = threadIdx.x; r < ", k_.valid, "; r += ", kThreads,
        ") {\n", Write("      ", "sorted[r]"), "    }\n",
        Padding("threadIdx.x", kThreads), "    __syncthreads();\n  }\n");
    return writer_.Compile(runtime, shape);
  }

  const BlockLines lines_;
  const ShardedDimension k_;
  const int64_t units_, key_bytes_;
  const absl::string_view key_of_;
  KernelWriter writer_;
  std::string x_, labels_, indices_, values_, valid_, offset_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareTopK(Runtime& runtime,
                                                    Scratch& scratch,
                                                    const Binding& binding) {
  std::vector<Launch> launches;
  if (binding.results[0].elements() > 0) {
    TopKWriter writer(binding);
    launches.emplace_back();
    MTF_ASSIGN_OR_RETURN(launches[0], writer.Compile(runtime, scratch));
  }
  return std::make_unique<LaunchSequence>(runtime, std::move(launches));
}

}  // namespace mtf::cuda
