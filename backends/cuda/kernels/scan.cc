// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels/scan.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/block_lines.h"
#include "backends/cuda/codegen/kernel_writer.h"
#include "backends/cuda/codegen/rounding.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

// Elements of a line that a thread scans by itself. Odd, to avoid conflicts of
// shared memory banks.
constexpr int kItems = 5;
// Longest line that a warp takes; a longer one takes a block.
constexpr int64_t kLineOfWarp = 1024;
// From this length on a block has the maximum number of threads.
constexpr int64_t kLongColumn = 512;

std::unique_ptr<Kernel> Sequence(Runtime& runtime,
                                 std::vector<Launch> launches) {
  return std::make_unique<LaunchSequence>(runtime, std::move(launches));
}

// Writes a scan of `x` to `y`, or the totals of its blocks.
class ScanWriter {
 public:
  ScanWriter(const Binding& binding, bool scans)
      : scans_(scans),
        lines_(LinesOf(binding.operands[0], DimensionOf(binding.instruction()),
                       !scans                         ? &binding.results[0]
                       : binding.operands.size() == 2 ? &binding.operands[1]
                                                      : nullptr)),
        rows_(lines_.inner == 1),
        writer_(scans ? "scan" : "reduce_blocks",
                !rows_ && lines_.block >= kLongColumn ? 1024 : 256),
        kind_(ReduceKindText(ReductionOf(binding.instruction()))),
        total_(IsFloat(binding.operands[0].dtype()) ? "float" : "i64"),
        identity_(IdentityText(ReductionOf(binding.instruction()),
                               binding.operands[0].dtype())),
        exclusive_(scans &&
                   binding.instruction().Get<ScanAttributes>().exclusive),
        reverse_(scans && binding.instruction().Get<ScanAttributes>().reverse) {
    // Other kernels add floats in double.
    if (identity_ == "0.0") identity_ = "0.0f";
    writer_.UseReduce();
    const auto read = [&](const BoundValue& value) {
      return writer_.Read(value.data, value.dtype(), value.elements());
    };
    const BoundValue& result = binding.results[0];
    x_ = read(binding.operands[0]);
    if (binding.operands.size() == 2) starts_ = read(binding.operands[1]);
    y_ = writer_.Write(result.data, result.dtype(), result.elements());
    valid_ = writer_.Number(lines_.valid);
    writer_.SetIndexReach(lines_.lines() * lines_.extent);
    writer_.SetIndexReach(lines_.lines() * lines_.blocks + 1024);
  }

  absl::StatusOr<Launch> Compile(Runtime& runtime) {
    const int64_t threads = rows_ ? WriteRows() : WriteColumns();
    return writer_.Compile(runtime, writer_.ShapeFor(runtime.info(), threads));
  }

 private:
  // Declares the first index and the number of elements of block b of a line.
  std::string Count() const {
    return absl::StrCat("    const Index begin = b * ", lines_.block,
                        ", left = (Index)", valid_, " - begin;\n",
                        "    const Index count = left < 0 ? 0 : left < ",
                        lines_.block, " ? left : ", lines_.block, ";\n");
  }
  // The index along the line of the q-th element in scan order.
  std::string At(absl::string_view q) const {
    return reverse_ ? absl::StrCat("begin + count - 1 - (", q, ")")
                    : absl::StrCat("begin + ", q);
  }
  std::string Element(absl::string_view q) const {
    return absl::StrCat("(o * ", lines_.extent, " + ", At(q), ") * ",
                        lines_.inner, " + c");
  }
  std::string Read(absl::string_view q) const {
    return absl::StrCat("Plain(Value(", x_, "[", Element(q), "]))");
  }
  std::string Start() const {
    if (starts_.empty()) return identity_;
    return absl::StrCat("Plain(Value(", starts_, "[(o * ", lines_.blocks,
                        " + b) * ", lines_.inner, " + c]))");
  }
  std::string Add(absl::string_view to, absl::string_view x) const {
    return absl::StrCat(to, " = ", kind_, "::Of(", to, ", ", x, ");");
  }
  // Fills the block with zeros after its last element, using `step` threads.
  std::string Zeros(absl::string_view first, int step) const {
    return absl::StrCat("    for (Index q = count + ", first, "; q < ",
                        lines_.block, "; q += ", step, ") Put(", y_, "[(o * ",
                        lines_.extent, " + begin + q) * ", lines_.inner,
                        " + c], Register((", total_, ")0));\n");
  }

  // Contiguous lines. Returns the number of threads that have work.
  int64_t WriteRows() {
    const int threads = writer_.threads();
    const int lanes = lines_.block <= kLineOfWarp ? 32 : threads;
    const int groups = threads / lanes;
    const int64_t units = lines_.outer * lines_.blocks;
    writer_.Add("  const int lane = threadIdx.x % ", lanes,
                ", group = threadIdx.x / ", lanes, ";\n");
    if (scans_) {
      writer_.Add("  __shared__ ", total_, " tiles[", threads * kItems,
                  "];\n  ", total_, "* tile = tiles + group * ", lanes * kItems,
                  ";\n");
    }
    if (lanes > 32) writer_.Add("  __shared__ ", total_, " shared[32];\n");
    writer_.Add("  for (Index first = (Index)blockIdx.x * ", groups,
                "; first < ", units, "; first += (Index)gridDim.x * ", groups,
                ") {\n    const Index unit = first + group;\n",
                "    const bool here = unit < ", units,
                ";\n    const Index b = unit % ", lines_.blocks,
                ", o = unit / ", lines_.blocks, ", c = 0;\n", Count());
    if (scans_) {
      WriteTiles(lanes);
    } else {
      writer_.Add(
          "    ", total_, " total = ", identity_,
          ";\n    if (here) {\n#pragma unroll 4\n",
          "      for (Index q = lane; q < count; q += ", lanes, ") ",
          Add("total", Read("q")), "\n    }\n    total = ",
          lanes > 32 ? absl::StrCat("AcrossBlock<", kind_, ", ", lanes,
                                    ">(total, shared);\n")
                     : absl::StrCat("AcrossLanes<", kind_, ", 32>(total);\n"),
          "    if (here && lane == 0) Put(", y_, "[unit], Register(total));\n");
      if (lanes > 32) writer_.Add("    __syncthreads();\n");
    }
    writer_.Add("  }\n");
    return units * lanes;
  }

  // Scans the line in tiles of kItems elements for each of `lanes` threads.
  // Accesses to memory are contiguous across threads; in shared memory each
  // thread has contiguous elements.
  void WriteTiles(int lanes) {
    const int64_t tile = int64_t{kItems} * lanes;
    const std::string barrier =
        lanes > 32 ? "      __syncthreads();\n" : "      __syncwarp();\n";
    const std::string each = absl::StrCat(
        "#pragma unroll\n      for (int j = 0; j < ", kItems, "; ++j) ");
    const std::string mine = absl::StrCat("tile[lane * ", kItems, " + j]");
    const std::string q = absl::StrCat("p + j * ", lanes, " + lane");
    const std::string shared_element =
        absl::StrCat("tile[j * ", lanes, " + lane]");
    writer_.SetIndexReach(lines_.extent + tile);
    writer_.Add("    ", total_, " carry = ", identity_,
                ";\n    if (here) carry = ", Start(),
                ";\n    for (Index p = 0; p < ", lines_.block, "; p += ", tile,
                ") {\n", each, shared_element, " = here && ", q, " < count ? ",
                Read(q), " : ", identity_, ";\n", barrier, "      ", total_,
                " own[", kItems, "], total = ", identity_, ";\n", each,
                "{\n        own[j] = ", mine, ";\n        ",
                Add("total", "own[j]"), "\n      }\n",
                "      // The sums of the lanes before.\n#pragma unroll\n",
                "      for (int by = 1; by < 32; by *= 2) {\n        const ",
                total_, " left = __shfl_up_sync(0xffffffffu, total, by);\n",
                "        if (lane % 32 >= by) total = ", kind_,
                "::Of(left, total);\n      }\n      ", total_,
                " before = __shfl_up_sync(0xffffffffu, total, 1);\n",
                "      if (lane % 32 == 0) before = ", identity_, ";\n");
    if (lanes > 32) {
      writer_.Add("      if (lane % 32 == 31) shared[lane / 32] = total;\n",
                  barrier, "      ", total_, " all = ", identity_,
                  ", warps = ", identity_, ";\n      for (int w = 0; w < ",
                  lanes / 32, "; ++w) {\n",
                  "        if (w == lane / 32) warps = all;\n        ",
                  Add("all", "shared[w]"), "\n      }\n      before = ", kind_,
                  "::Of(warps, before);\n");
    } else {
      writer_.Add("      const ", total_,
                  " all = __shfl_sync(0xffffffffu, total, 31);\n");
    }
    writer_.Add(
        "      ", total_, " running = ", kind_, "::Of(carry, before);\n", each,
        "{\n",
        exclusive_ ? absl::StrCat("        ", mine, " = running;\n") : "",
        "        ", Add("running", "own[j]"), "\n",
        exclusive_ ? "" : absl::StrCat("        ", mine, " = running;\n"),
        "      }\n      ", Add("carry", "all"), "\n", barrier, each,
        "if (here && ", q, " < count) Put(", y_, "[", Element(q),
        "], Register(", shared_element, "));\n", barrier, "    }\n",
        "    if (here) {\n  ", Zeros("lane", lanes), "    }\n");
  }

  // Strided lines: `lanes` of them per block, whose groups of threads have a
  // segment of each.
  int64_t WriteColumns() {
    const int threads = writer_.threads();
    const int lanes = PowerOfTwoFrom(lines_.inner, 32),
              groups = threads / lanes;
    const int64_t tiles = CeilDivide(lines_.inner, lanes);
    const int64_t units = tiles * lines_.outer * lines_.blocks;
    writer_.SetIndexReach(lines_.extent + groups);
    writer_.SetIndexReach(units + threads);
    writer_.Add(
        "  __shared__ ", total_, " shared[", threads,
        "];\n  const int lane = threadIdx.x % ", lanes,
        ", group = threadIdx.x / ", lanes,
        ";\n  for (Index unit = blockIdx.x; unit < ", units,
        "; unit += gridDim.x) {\n    const Index b = unit / ", tiles, " % ",
        lines_.blocks, ", o = unit / ", tiles * lines_.blocks, ", c = unit % ",
        tiles, " * ", lanes, " + lane;\n", Count(),
        "    const Index part = (count + ", groups - 1, ") / ", groups,
        ", from = part * group;\n",
        "    const Index end = from + part < count ? from + part : count;\n",
        "    ", total_, " total = ", identity_, ";\n    if (c < ", lines_.inner,
        ") {\n#pragma unroll 4\n      for (Index q = from; q < end; ++q) ",
        Add("total", Read("q")),
        "\n    }\n    shared[threadIdx.x] = total;\n    __syncthreads();\n");
    const std::string sum =
        absl::StrCat("for (int g = 0; g < ",
                     scans_ ? "group" : absl::StrCat(groups), "; ++g) ");
    if (scans_) {
      writer_.Add(
          "    if (c < ", lines_.inner, ") {\n      ", total_,
          " running = ", Start(), ";\n      ", sum,
          Add("running", absl::StrCat("shared[g * ", lanes, " + lane]")),
          "\n#pragma unroll 4\n",
          "      for (Index q = from; q < end; ++q) {\n        const ", total_,
          " before = running;\n        ", Add("running", Read("q")),
          "\n        Put(", y_, "[", Element("q"), "], Register(",
          exclusive_ ? "before" : "running", "));\n      }\n  ",
          Zeros("group", groups), "    }\n");
    } else {
      writer_.Add("    if (group == 0 && c < ", lines_.inner, ") {\n      ",
                  total_, " all = ", identity_, ";\n      ", sum,
                  Add("all", absl::StrCat("shared[g * ", lanes, " + lane]")),
                  "\n      Put(", y_, "[(o * ", lines_.blocks, " + b) * ",
                  lines_.inner, " + c], Register(all));\n    }\n");
    }
    writer_.Add("    __syncthreads();\n  }\n");
    return units * threads;
  }

  const bool scans_;
  const BlockLines lines_;
  const bool rows_;
  KernelWriter writer_;
  const absl::string_view kind_, total_;
  std::string identity_;
  const bool exclusive_, reverse_;
  std::string x_, starts_, y_, valid_;
};

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(Runtime& runtime,
                                                const Binding& binding,
                                                bool scans) {
  std::vector<Launch> launches;
  if (binding.results[0].elements() > 0) {
    ScanWriter writer(binding, scans);
    launches.emplace_back();
    MTF_ASSIGN_OR_RETURN(launches[0], writer.Compile(runtime));
  }
  return Sequence(runtime, std::move(launches));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareScan(Runtime& runtime,
                                                    const Binding& binding) {
  return Prepare(runtime, binding, /*scans=*/true);
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareReduceBlocks(
    Runtime& runtime, const Binding& binding) {
  return Prepare(runtime, binding, /*scans=*/false);
}

}  // namespace mtf::cuda
