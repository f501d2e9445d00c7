// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels/rows.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "backends/cuda/codegen/kernel_list.h"
#include "backends/cuda/codegen/kernel_writer.h"
#include "backends/cuda/kernels/strided_copy.h"
#include "backends/cuda/kernels/zero.h"
#include "lowering/program/row_moves.h"
#include "mtf/host_tensor.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

// Moves of one launch. More would make a long kernel text; they are rare, since
// a move is a rank and a source.
constexpr size_t kMostMoves = 8;

// Dense memory relative to one dimension.
struct RowCounts {
  int64_t outer = 1, rows = 1, inner = 1;
  RowCounts(const BoundValue& value, int dim) {
    for (int i = 0; i < static_cast<int>(value.dims.size()); ++i) {
      int64_t& count = i < dim ? outer : i == dim ? rows : inner;
      count *= value.dims[i].extent;
    }
  }
};

// An unsigned type of `size` bytes: copies ignore dtypes.
absl::string_view UnsignedType(int64_t size) {
  return size == 1   ? "unsigned char"
         : size == 2 ? "u16"
         : size == 4 ? "u32"
                     : "u64";
}

absl::Status AddLaunch(Runtime& runtime, const KernelWriter& writer,
                       int64_t elements, std::vector<Launch>& launches) {
  launches.emplace_back();
  MTF_ASSIGN_OR_RETURN(
      launches.back(),
      writer.Compile(runtime, writer.ShapeFor(runtime.info(), elements)));
  return absl::OkStatus();
}

// One thread computes one element of the result, or one word of up to 8 bytes
// if elements are only copied. Of each row a thread knows its number t and the
// block o before it.
class RowsWriter {
 public:
  RowsWriter(Runtime& runtime, const Binding& binding)
      : runtime_(runtime),
        binding_(binding),
        rows_(binding.instruction().Get<RowsAttributes>()),
        adds_(rows_.adds && rows_.round < 0),
        dim_(RowDimOf(*binding.program, binding.instruction())),
        to_(binding.results[0], dim_),
        size_(DTypeSize(binding.results[0].dtype())) {
    uint64_t fill = 0;
    StoreElement(&fill, binding.results[0].dtype(), 0, rows_.fill);
    fill_ = rows_.round < 0 && !rows_.adds ? fill : 0;
    while (!adds_ && size_ < 8 && to_.inner % 2 == 0 && to_.inner > 0) {
      fill_ |= fill_ << (8 * size_);
      size_ *= 2;
      to_.inner /= 2;
    }
  }

  absl::Status Write(absl::Span<const RowMove> moves, bool first,
                     std::vector<Launch>& launches) {
    KernelWriter writer(adds_ ? "add_rows" : "copy_rows");
    const BoundValue& result = binding_.results[0];
    const int64_t elements = to_.outer * to_.rows * to_.inner;
    const std::string y = Memory(writer, result, true);
    writer.SetIndexReach(elements);
    writer.Add(writer.GridLoop("i", elements), "    const Index j = i % ",
               to_.inner, ", t = i / ", to_.inner, " % ", to_.rows,
               ", o = i / ", to_.rows * to_.inner, ";\n");
    Begin(writer, result, y, first);
    for (const RowMove& move : moves) {
      const BoundValue& operand = binding_.operands[move.operand];
      const RowCounts from(operand, dim_);
      writer.SetIndexReach(operand.elements() + to_.rows * to_.inner);
      const std::string x = Memory(writer, operand, false);
      const std::string begin = writer.Number(move.to);
      const std::string end = writer.Number(move.to + move.count);
      const std::string shift = writer.Number(move.from - move.to);
      const std::string element =
          absl::StrCat(x, "[(o * ", from.rows, " + t + (Index)", shift, ") * ",
                       to_.inner, " + j]");
      writer.Add("    if (t >= ", begin, " && t < ", end, ") ",
                 adds_   ? absl::StrCat("sum = sum + Value(", element, ");\n")
                 : first ? absl::StrCat("value = ", element, ";\n")
                         : absl::StrCat(y, "[i] = ", element, ";\n"));
    }
    if (adds_) writer.Add("    Put(", y, "[i], sum);\n");
    if (!adds_ && first) writer.Add("    ", y, "[i] = value;\n");
    writer.Add("  }\n");
    return AddLaunch(runtime_, writer, elements, launches);
  }

  int64_t elements() const { return to_.outer * to_.rows * to_.inner; }

 private:
  std::string Memory(KernelWriter& writer, const BoundValue& value,
                     bool written) const {
    if (adds_) {
      return written ? writer.Write(value.data, value.dtype(), value.elements())
                     : writer.Read(value.data, value.dtype(), value.elements());
    }
    const int64_t bytes = value.elements() * DTypeSize(value.dtype());
    return written ? writer.WriteAs(value.data, UnsignedType(size_), bytes)
                   : writer.ReadAs(value.data, UnsignedType(size_), bytes);
  }

  // Declares what an element is before the first move: the fill value in valid
  // rows and 0 in padding, or what the launch before has summed.
  void Begin(KernelWriter& writer, const BoundValue& result,
             const std::string& y, bool first) const {
    if (adds_) {
      const bool is_float = IsFloat(result.dtype());
      writer.Add("    ", is_float ? "F" : "I", " sum = ",
                 first ? (is_float ? "F(0.0f)" : "I(0)")
                       : absl::StrCat("Value(", y, "[i])"),
                 ";\n");
      return;
    }
    if (!first) return;
    const absl::string_view type = UnsignedType(size_);
    if (fill_ == 0) {
      writer.Add("    ", type, " value = 0;\n");
      return;
    }
    const std::string fill = writer.Number(static_cast<int64_t>(fill_));
    const std::string valid = writer.Number(result.dims[dim_].valid);
    writer.Add("    ", type, " value = t < ", valid, " ? (", type, ")", fill,
               " : (", type, ")0;\n");
  }

  Runtime& runtime_;
  const Binding& binding_;
  const RowsAttributes& rows_;
  const bool adds_;
  const int dim_;
  RowCounts to_;
  int64_t size_;
  uint64_t fill_ = 0;
};

}  // namespace

KernelOr PrepareRows(Runtime& runtime, const Binding& binding) {
  const std::vector<RowMove> moves =
      RowMovesOf(*binding.program, binding.instruction(), binding.rank);
  RowsWriter writer(runtime, binding);
  if (writer.elements() == 0) return std::make_unique<KernelList>();
  std::vector<Launch> launches;
  size_t done = 0;
  do {
    const absl::Span<const RowMove> next =
        absl::MakeConstSpan(moves).subspan(done, kMostMoves);
    MTF_RETURN_IF_ERROR(writer.Write(next, done == 0, launches));
    done += next.size();
  } while (done < moves.size());
  return std::make_unique<LaunchSequence>(runtime, std::move(launches));
}

KernelOr PrepareWindows(Runtime& runtime, const Binding& binding) {
  const auto& windows = binding.instruction().Get<WindowAttributes>();
  const BoundValue &line = binding.operands[0], &result = binding.results[0];
  const int dim = result.value->shape.Find(windows.dimension);
  const int last = result.value->shape.rank() - 1;
  const ShardedDimension &rows = result.dims[dim], &window = result.dims[last];
  auto kernel = std::make_unique<KernelList>();
  if (rows.valid != rows.extent || window.valid != window.extent) {
    std::unique_ptr<Kernel> zero =
        std::make_unique<ZeroKernel>(runtime, result);
    kernel->Add(std::move(zero));
  }
  StridedCopy copy{result.dtype(), result.dtype(), {}};
  for (int i = 0; i < last; ++i) {
    copy.loops.push_back({i == dim ? rows.valid : result.dims[i].extent,
                          line.stride(i) * (i == dim ? windows.stride : 1),
                          result.stride(i)});
  }
  copy.loops.push_back({window.valid, line.stride(dim) * windows.dilation, 1});
  if (copy.elements() == 0) return kernel;
  MTF_RETURN_IF_ERROR(
      kernel->Add(PrepareStridedCopy(runtime, copy, line.data, result.data)));
  return kernel;
}

// One thread adds up one element of the line: those of the windows that have
// it, in the order of w.
KernelOr PrepareFoldWindows(Runtime& runtime, const Binding& binding) {
  const auto& windows = binding.instruction().Get<WindowAttributes>();
  const BoundValue &in_windows = binding.operands[0],
                   &result = binding.results[0];
  const int dim = result.value->shape.Find(windows.line);
  const RowCounts to(result, dim), from(in_windows, dim);
  const ShardedDimension& window = in_windows.dims.back();
  const int64_t elements = result.elements();
  if (elements == 0) return std::make_unique<KernelList>();
  const bool is_float = IsFloat(result.dtype());
  KernelWriter writer("fold_windows");
  writer.SetIndexReach(elements);
  writer.SetIndexReach(in_windows.elements());
  const std::string x =
      writer.Read(in_windows.data, in_windows.dtype(), in_windows.elements());
  const std::string y = writer.Write(result.data, result.dtype(), elements);
  const std::string count = writer.Number(in_windows.dims[dim].valid);
  const std::string valid = writer.Number(result.dims[dim].valid);
  writer.Add(writer.GridLoop("i", elements), "    const Index j = i % ",
             to.inner, ", t = i / ", to.inner, " % ", to.rows, ", o = i / ",
             to.rows * to.inner, ";\n    ", is_float ? "F" : "I",
             " sum = ", is_float ? "F(0.0f)" : "I(0)", ";\n    if (t < ", valid,
             ") {\n      for (Index w = 0; w < ", window.valid,
             "; ++w) {\n        const Index first = t - w * ", windows.dilation,
             ";\n        if (first < 0) break;\n"
             "        if (first % ",
             windows.stride, " != 0 || first / ", windows.stride, " >= ", count,
             ") continue;\n"
             "        sum = sum + Value(",
             x, "[((o * ", from.rows, " + first / ", windows.stride, ") * ",
             to.inner, " + j) * ", window.extent,
             " + w]);\n      }\n    }\n    Put(", y, "[i], sum);\n  }\n");
  std::vector<Launch> launches;
  MTF_RETURN_IF_ERROR(AddLaunch(runtime, writer, elements, launches));
  return std::make_unique<LaunchSequence>(runtime, std::move(launches));
}

}  // namespace mtf::cuda
