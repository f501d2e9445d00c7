// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels/scatter_add.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda/codegen/kernel_writer.h"
#include "backends/cuda/codegen/loop_nest.h"
#include "backends/cuda/kernels/gather.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

constexpr int kThreads = 256;
// Longest list that one thread adds up; longer ones take a block.
constexpr int kLong = 64;
// Most rows that can have lists, counting all matched coordinates.
constexpr int64_t kMaxRows = int64_t{1} << 30;

class ScatterAddKernel : public LaunchSequence {
 public:
  ScatterAddKernel(Runtime& runtime, void* zeroed, int64_t bytes,
                   std::vector<Launch> launches,
                   std::unique_ptr<StepState::Slot> slot)
      : LaunchSequence(runtime, std::move(launches)),
        runtime_(runtime),
        zeroed_(zeroed),
        bytes_(bytes),
        slot_(std::move(slot)) {}
  void Run(StepContext& context) override {
    if (bytes_ > 0) runtime_.SetZero(zeroed_, bytes_);
    LaunchSequence::Run(context);
  }

 private:
  Runtime& runtime_;
  void* zeroed_;
  int64_t bytes_;
  std::unique_ptr<StepState::Slot> slot_;
};

class ScatterWriter {
 public:
  ScatterWriter(Runtime& runtime, const Binding& binding,
                const StepState::Slot* slot)
      : runtime_(runtime),
        slot_(slot),
        updates_(binding.operands[0]),
        table_(binding.results[0]),
        walk_(binding, table_, binding.operands[1], updates_),
        count_(walk_.indices().elements()),
        extent_(walk_.row_shard().extent),
        rows_(walk_.matched() * extent_),
        width_(walk_.PackWidth(16)),
        packs_(walk_.columns().elements() / width_) {}

  int64_t rows() const { return rows_; }
  // Whether each index has rows of its own, so that no two updates collide.
  bool HasNoCollisions() const { return walk_.matched() == count_; }

  // Writes each update to its row of a table of zeros.
  absl::Status WriteWithoutLists(std::vector<Launch>& launches) {
    KernelWriter writer("scatter", kThreads);
    Prepare(writer);
    const int64_t packs = std::max<int64_t>(packs_, 1);
    writer.Add(writer.GridLoop("n", count_ * packs), "    const Index i = n / ",
               packs, ", c = n % ", packs, " * ", width_, ";\n",
               walk_.indices().Coordinates("    "),
               walk_.RowOf(writer, slot_, "    ", "c == 0"));
    if (packs_ > 0) {
      const std::string y = Table(writer), x = Updates(writer);
      writer.Add("    if (row >= 0) {\n", walk_.columns().Coordinates("      "),
                 "      *(", Pack(table_), "*)(", y, " + ",
                 SumText({walk_.indices().Offset(0), RowOffset(),
                          walk_.columns().Offset(0)}),
                 ") =\n          *(const ", Pack(updates_), "*)(", x, " + ",
                 UpdateOffset(), ");\n    }\n");
    }
    writer.Add("  }\n");
    return Compile(writer, count_ * packs, launches);
  }

  // Builds the lists of all rows, then adds them up.
  absl::Status WriteLists(int* scratch, std::vector<Launch>& launches) {
    AssignScratch(scratch);
    MTF_RETURN_IF_ERROR(WriteCount(launches));
    if (packs_ == 0 || rows_ == 0) return absl::OkStatus();
    MTF_RETURN_IF_ERROR(WriteAllocate(launches));
    MTF_RETURN_IF_ERROR(WriteFill(launches));
    MTF_RETURN_IF_ERROR(WriteOrder(launches));
    MTF_RETURN_IF_ERROR(WriteShortSums(launches));
    return count_ > kLong ? WriteLongSums(launches) : absl::OkStatus();
  }
  // Size of the scratch memory of WriteLists in ints; the first zeroed_ints()
  // must be zeroed.
  int64_t scratch_ints() const {
    return zeroed_ints() + 2 * rows_ + 2 * count_ + count_ / kLong + 1;
  }
  int64_t zeroed_ints() const { return rows_ + 2; }

 private:
  void Prepare(KernelWriter& writer) const {
    writer.SetIndexReach(count_ * std::max<int64_t>(packs_, 1));
    writer.SetIndexReach(rows_ * std::max<int64_t>(packs_, 1));
    writer.SetIndexReach(table_.elements());
    writer.SetIndexReach(updates_.elements());
  }
  std::string Table(KernelWriter& writer) const {
    return writer.Write(table_.data, table_.dtype(), table_.elements());
  }
  std::string Updates(KernelWriter& writer) const {
    return writer.Read(updates_.data, updates_.dtype(), updates_.elements());
  }
  std::string Pack(const BoundValue& value) const {
    const absl::string_view type = StorageType(value.dtype());
    return absl::StrCat("Pack<", type, ", ", width_, ">");
  }
  std::string RowOffset() const {
    return absl::StrCat("(Index)row * ", walk_.row_stride());
  }
  std::string UpdateOffset() const {
    return SumText({walk_.indices().Offset(1), walk_.columns().Offset(1)});
  }
  // The number of the row that index i selects, if row is not -1.
  std::string RowNumber() const {
    return absl::StrCat("((Index)(", walk_.MatchedNumber(), ") * ", extent_,
                        " + (Index)row)");
  }

  absl::Status Compile(const KernelWriter& writer, int64_t threads,
                       std::vector<Launch>& launches) const {
    launches.emplace_back();
    MTF_ASSIGN_OR_RETURN(
        launches.back(),
        writer.Compile(runtime_, writer.ShapeFor(runtime_.info(), threads)));
    return absl::OkStatus();
  }

  void AssignScratch(int* scratch) {
    counts_ = scratch;           // by row; 0 again once lists are filled
    cursors_ = counts_ + rows_;  // entries of lists so far, long rows so far
    starts_ = cursors_ + 2;
    lengths_ = starts_ + rows_;
    list_ = lengths_ + rows_;
    ordered_ = list_ + count_;
    long_rows_ = ordered_ + count_;
  }
  std::string In(KernelWriter& writer, int* ints, int64_t count) const {
    return writer.ReadAs(ints, "int", count * 4);
  }
  std::string Out(KernelWriter& writer, int* ints, int64_t count) const {
    return writer.WriteAs(ints, "int", count * 4);
  }

  absl::Status WriteCount(std::vector<Launch>& launches) const {
    KernelWriter writer("count_rows", kThreads);
    Prepare(writer);
    const std::string counts = Out(writer, counts_, rows_);
    writer.Add(writer.GridLoop("i", count_),
               walk_.indices().Coordinates("    "),
               walk_.RowOf(writer, slot_, "    ", "true"),
               "    if (row >= 0) atomicAdd(", counts, " + ", RowNumber(),
               ", 1);\n  }\n");
    return Compile(writer, count_, launches);
  }

  // Allocates for all rows of a warp at once. The order of the segments does
  // not affect the result.
  absl::Status WriteAllocate(std::vector<Launch>& launches) const {
    KernelWriter writer("allocate_lists", kThreads);
    Prepare(writer);
    const std::string counts = In(writer, counts_, rows_),
                      cursors = Out(writer, cursors_, 2),
                      starts = Out(writer, starts_, rows_),
                      lengths = Out(writer, lengths_, rows_),
                      long_rows = Out(writer, long_rows_, count_ / kLong + 1);
    writer.Add(
        "  const int lane = threadIdx.x % 32;\n  for (Index first = "
        "(Index)blockIdx.x * ",
        kThreads, "; first < ", rows_, "; first += (Index)gridDim.x * ",
        kThreads, ") {\n    const Index d = first + threadIdx.x;\n",
        "    const int length = d < ", rows_, " ? ", counts,
        "[d] : 0;\n    int end = length;\n#pragma unroll\n"
        "    for (int by = 1; by < 32; by *= 2) {\n"
        "      const int before = __shfl_up_sync(0xffffffffu, end, by);\n"
        "      if (lane >= by) end += before;\n    }\n    int base = 0;\n"
        "    if (lane == 31) base = atomicAdd(",
        cursors,
        ", end);\n    base = __shfl_sync(0xffffffffu, base, 31);\n"
        "    if (d < ",
        rows_, ") {\n      ", starts, "[d] = base + end - length;\n      ",
        lengths, "[d] = length;\n      if (length > ", kLong, ") ", long_rows,
        "[atomicAdd(", cursors, " + 1, 1)] = d;\n    }\n  }\n");
    return Compile(writer, rows_, launches);
  }

  absl::Status WriteFill(std::vector<Launch>& launches) const {
    KernelWriter writer("fill_lists", kThreads);
    Prepare(writer);
    const std::string starts = In(writer, starts_, rows_),
                      counts = Out(writer, counts_, rows_),
                      list = Out(writer, list_, count_);
    writer.Add(writer.GridLoop("i", count_),
               walk_.indices().Coordinates("    "),
               walk_.RowOf(writer, nullptr, "    ", ""),
               "    if (row >= 0) {\n      const Index d = ", RowNumber(),
               ";\n      ", list, "[", starts, "[d] + atomicAdd(", counts,
               " + d, -1) - 1] = i;\n    }\n  }\n");
    return Compile(writer, count_, launches);
  }

  absl::Status WriteOrder(std::vector<Launch>& launches) const {
    KernelWriter writer("order_lists", kThreads);
    Prepare(writer);
    const std::string starts = In(writer, starts_, rows_),
                      lengths = In(writer, lengths_, rows_),
                      list = In(writer, list_, count_),
                      ordered = Out(writer, ordered_, count_);
    writer.Add(writer.GridLoop("i", count_),
               walk_.indices().Coordinates("    "),
               walk_.RowOf(writer, nullptr, "    ", ""),
               "    if (row >= 0) {\n      const Index d = ", RowNumber(),
               ";\n      const int start = ", starts, "[d], length = ", lengths,
               "[d];\n      int before = 0;\n"
               "      for (int k = 0; k < length; ++k) before += ",
               list, "[start + k] < i;\n      ", ordered,
               "[start + before] = i;\n    }\n  }\n");
    return Compile(writer, count_, launches);
  }

  std::string SumType() const {
    return IsInteger(updates_.dtype()) ? "i64" : "float";
  }
  // Adds entries [first, end) of the list, which starts at `start`, to sum[].
  std::string AddEntries(KernelWriter& writer, absl::string_view indent,
                         absl::string_view first, absl::string_view end) const {
    const std::string ordered = In(writer, ordered_, count_),
                      x = Updates(writer);
    return absl::StrCat(
        "#pragma unroll 4\n", indent, "for (int k = ", first, "; k < ", end,
        "; ++k) {\n", indent, "  const Index i = ", ordered, "[start + k];\n",
        walk_.indices().Coordinates(absl::StrCat(indent, "  ")), indent,
        "  const ", Pack(updates_), " p = *(const ", Pack(updates_), "*)(", x,
        " + ", UpdateOffset(), ");\n#pragma unroll\n", indent,
        "  for (int j = 0; j < ", width_,
        "; ++j) sum[j] = Sum::Of(sum[j], Plain(Value(p.at[j])));\n", indent,
        "}\n");
  }
  // Declares the offset of row d of the table, as "row" and "m".
  std::string RowStart() const {
    return absl::StrCat("    const Index m = d / ", extent_, ", row = d % ",
                        extent_, ";\n",
                        walk_.matched_offsets().Coordinates("    "));
  }
  std::string TableOffset() const {
    return SumText({walk_.matched_offsets().Offset(0), RowOffset(),
                    walk_.columns().Offset(0)});
  }

  absl::Status WriteShortSums(std::vector<Launch>& launches) const {
    KernelWriter writer("sum_lists", kThreads);
    writer.UseCombine();
    Prepare(writer);
    const std::string starts = In(writer, starts_, rows_),
                      lengths = In(writer, lengths_, rows_), y = Table(writer);
    writer.Add(writer.GridLoop("n", rows_ * packs_), "    const Index d = n / ",
               packs_, ", c = n % ", packs_, " * ", width_,
               ";\n    const int start = ", starts, "[d], length = ", lengths,
               "[d];\n    if (length > ", kLong, ") continue;\n", RowStart(),
               walk_.columns().Coordinates("    "), "    ", SumType(), " sum[",
               width_, "] = {};\n", AddEntries(writer, "    ", "0", "length"),
               "    ", Pack(table_), " q;\n#pragma unroll\n",
               "    for (int j = 0; j < ", width_,
               "; ++j) Put(q.at[j], Register(sum[j]));\n    *(", Pack(table_),
               "*)(", y, " + ", TableOffset(), ") = q;\n  }\n");
    return Compile(writer, rows_ * packs_, launches);
  }

  // A block per 32 packs of columns of a long row: each warp adds up a segment
  // of its list, then the segments' sums are added in order.
  absl::Status WriteLongSums(std::vector<Launch>& launches) const {
    constexpr int kWarps = kThreads / 32;
    KernelWriter writer("sum_long_lists", kThreads);
    writer.UseCombine();
    Prepare(writer);
    const int64_t tiles = (packs_ + 31) / 32;
    const std::string starts = In(writer, starts_, rows_),
                      lengths = In(writer, lengths_, rows_),
                      cursors = In(writer, cursors_, 2),
                      long_rows = In(writer, long_rows_, count_ / kLong + 1),
                      y = Table(writer);
    writer.Add(
        "  __shared__ ", SumType(), " shared[", kWarps, "][32 * ", width_,
        "];\n  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;\n",
        "  const Index units = (Index)", cursors, "[1] * ", tiles,
        ";\n  for (Index unit = blockIdx.x; unit < units; unit += gridDim.x) "
        "{\n    const Index d = ",
        long_rows, "[unit / ", tiles, "];\n    const Index pack = unit % ",
        tiles, " * 32 + lane, c = pack * ", width_,
        ";\n    const int start = ", starts, "[d], length = ", lengths,
        "[d];\n    const int part = (length + ", kWarps - 1, ") / ", kWarps,
        ";\n    const int end = part * (warp + 1) < length ? part * (warp + 1)"
        " : length;\n",
        RowStart(), walk_.columns().Coordinates("    "), "    ", SumType(),
        " sum[", width_, "] = {};\n    if (pack < ", packs_, ") {\n",
        AddEntries(writer, "      ", "part * warp", "end"),
        "    }\n    for (int j = 0; j < ", width_,
        "; ++j) shared[warp][j * 32 + lane] = sum[j];\n    __syncthreads();\n",
        "    if (warp == 0 && pack < ", packs_, ") {\n      ", Pack(table_),
        " q;\n      for (int j = 0; j < ", width_,
        "; ++j) {\n        for (int w = 1; w < ", kWarps,
        "; ++w) sum[j] = Sum::Of(sum[j], shared[w][j * 32 + lane]);\n",
        "        Put(q.at[j], Register(sum[j]));\n      }\n      *(",
        Pack(table_), "*)(", y, " + ", TableOffset(),
        ") = q;\n    }\n    __syncthreads();\n  }\n");
    return Compile(writer, (count_ / kLong + 1) * tiles * kThreads, launches);
  }

  Runtime& runtime_;
  const StepState::Slot* slot_;
  const BoundValue &updates_, &table_;
  IndexWalk walk_;
  int64_t count_, extent_, rows_;
  int width_;
  int64_t packs_;
  int *counts_ = nullptr, *cursors_ = nullptr, *starts_ = nullptr,
      *lengths_ = nullptr, *list_ = nullptr, *ordered_ = nullptr,
      *long_rows_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareScatterAdd(
    Runtime& runtime, Scratch& scratch, StepState& state,
    const Binding& binding) {
  const BoundValue& indices = binding.operands[1];
  const BoundValue& table = binding.results[0];
  MTF_ASSIGN_OR_RETURN(std::unique_ptr<StepState::Slot> slot,
                       state.NewSlot(binding.index, indices));
  std::vector<Launch> launches;
  void* zeroed = table.data;
  int64_t bytes = table.elements() * DTypeSize(table.dtype());
  if (indices.elements() > 0) {
    ScatterWriter writer(runtime, binding, slot.get());
    if (writer.HasNoCollisions() &&
        binding.operands[0].dtype() == table.dtype()) {
      MTF_RETURN_IF_ERROR(writer.WriteWithoutLists(launches));
    } else if (writer.rows() <= kMaxRows) {
      bytes = writer.zeroed_ints() * 4;
      MTF_ASSIGN_OR_RETURN(zeroed, scratch.Reserve(writer.scratch_ints() * 4));
      MTF_RETURN_IF_ERROR(
          writer.WriteLists(static_cast<int*>(zeroed), launches));
    } else {
      return absl::UnimplementedError(absl::StrCat(
          "scatter_add into ", writer.rows(), " rows, more than ", kMaxRows));
    }
  }
  return std::make_unique<ScatterAddKernel>(
      runtime, zeroed, bytes, std::move(launches), std::move(slot));
}

}  // namespace mtf::cuda
