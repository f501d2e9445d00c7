// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels/dynamic_slice.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/cuda/codegen/kernel_list.h"
#include "backends/cuda/codegen/kernel_writer.h"
#include "backends/cuda/codegen/loop_nest.h"
#include "backends/cuda/kernels/strided_copy.h"
#include "mtf/check.h"
#include "mtf/sliced_rows.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// "a && b", or "true".
std::string AllOf(const std::vector<std::string>& conditions) {
  return conditions.empty() ? "true" : absl::StrJoin(conditions, " && ");
}

// Writes the kernel that copies rows between their own memory and this rank's
// shard of the value: one pack of neighbouring elements per thread.
class RowCopyWriter {
 public:
  RowCopyWriter(const char* name, const BoundValue& value,
                const BoundValue& rows, const BoundValue& index,
                const std::string& dimension)
      : value_(value),
        rows_(rows),
        index_(index),
        nest_("i", 3),
        writer_(name) {
    const Shape &shape = value.value->shape, &rows_shape = rows.value->shape;
    const int along = shape.Find(dimension);
    MTF_CHECK_LE(0, along) << dimension;
    size_ = shape[along].size;
    shard_ = value.dims[along];
    row_stride_ = value.stride(along);
    dim_ = FindRowsDimension(shape, rows_shape, dimension);
    for (int i = 0; i < rows_shape.rank(); ++i) {
      const std::string& dim = rows_shape[i].name;
      const ShardedDimension& local = rows.dims[i];
      const int there = i == dim_ ? -1 : shape.Find(dim);
      const int indexed = i == dim_ ? -1 : index.value->shape.Find(dim);
      const bool padded = local.valid != local.extent;
      const bool ends = padded && (i == dim_ || indexed >= 0);
      nest_.Add(dim, local.extent,
                {there < 0 ? 0 : value.stride(there), rows.stride(i),
                 indexed < 0 ? 0 : index.stride(indexed)},
                i == dim_ || ends);
      if (ends) padded_.push_back({dim, local.valid});
    }
    width_ = PackWidth();
    packs_ = nest_.elements() / width_;
  }

  bool empty() const { return packs_ == 0; }

  // Copies rows of the shard, and writes zeros for the others.
  absl::StatusOr<Launch> Read(Runtime& runtime) {
    Begin();
    const std::string x =
        writer_.Read(value_.data, value_.dtype(), value_.elements());
    const std::string y =
        writer_.Write(rows_.data, rows_.dtype(), rows_.elements());
    writer_.Add("    ", Access(), " element = {};\n    if (here) element = *(",
                "const ", Access(), "*)(", x, " + ", ValueOffset(),
                ");\n    *(", Access(), "*)(", y, " + ",
                SumText({nest_.Offset(1)}), ") = element;\n  }\n");
    return Compile(runtime);
  }

  // Copies the rows to the shard.
  absl::StatusOr<Launch> Write(Runtime& runtime) {
    Begin();
    const std::string x =
        writer_.Read(rows_.data, rows_.dtype(), rows_.elements());
    const std::string y =
        writer_.Write(value_.data, value_.dtype(), value_.elements());
    writer_.Add("    if (here) *(", Access(), "*)(", y, " + ", ValueOffset(),
                ") = *(const ", Access(), "*)(", x, " + ",
                SumText({nest_.Offset(1)}), ");\n  }\n");
    return Compile(runtime);
  }

 private:
  std::string Access() const {
    const std::string type(StorageType(rows_.dtype()));
    return width_ == 1 ? type : absl::StrCat("Pack<", type, ", ", width_, ">");
  }
  std::string ValueOffset() const {
    return SumText(
        {nest_.Offset(0), absl::StrCat("(Index)row * ", row_stride_)});
  }

  // The loop over packs; declares the row of the shard and whether this rank
  // has it.
  void Begin() {
    writer_.SetIndexReach(packs_ * width_);
    writer_.SetIndexReach(value_.elements());
    const std::string index =
        writer_.Read(index_.data, index_.dtype(), index_.elements());
    writer_.Add(writer_.GridLoop("n", packs_), "    const Index i = n",
                width_ == 1 ? "" : absl::StrCat(" * ", width_), ";\n",
                nest_.Coordinates("    "),
                "    const i64 row = Rounded<i64>(Value(", index, "[",
                SumText({nest_.Offset(2)}), "])).v");
    if (dim_ >= 0) {
      writer_.Add(" + ", nest_.Coordinate(rows_.value->shape[dim_].name));
    }
    if (shard_.offset != 0) writer_.Add(" - ", writer_.Number(shard_.offset));
    const std::string valid = shard_.valid == size_
                                  ? absl::StrCat(size_)
                                  : writer_.Number(shard_.valid);
    std::vector<std::string> conditions;
    for (const auto& [name, count] : padded_) {
      conditions.push_back(
          absl::StrCat(nest_.Coordinate(name), " < ", writer_.Number(count)));
    }
    conditions.push_back(absl::StrCat("row >= 0 && row < ", valid));
    writer_.Add(";\n    const bool here = ", AllOf(conditions), ";\n");
  }

  absl::StatusOr<Launch> Compile(Runtime& runtime) {
    return writer_.Compile(runtime, writer_.ShapeFor(runtime.info(), packs_));
  }

  // The number of neighbouring elements per access of up to 16 bytes.
  int PackWidth() const {
    int64_t width = std::max<int64_t>(16 / DTypeSize(rows_.dtype()), 1);
    const auto fits = [&] {
      if (!nest_.InnerDivides(width) || row_stride_ % width != 0 ||
          nest_.inner_stride(2) != 0) {
        return false;
      }
      for (int array = 0; array < 2; ++array) {
        const auto address =
            reinterpret_cast<uintptr_t>(array == 0 ? value_.data : rows_.data);
        if (nest_.inner_stride(array) != 1 ||
            !nest_.OffsetsDivide(array, width) ||
            address % (width * DTypeSize(rows_.dtype())) != 0) {
          return false;
        }
      }
      return true;
    };
    while (width > 1 && !fits()) width /= 2;
    return static_cast<int>(width);
  }

  BoundValue value_, rows_, index_;
  int64_t size_ = 0, row_stride_ = 1;
  ShardedDimension shard_;
  int dim_ = -1;  // of the rows
  // Array 0 is the value, 1 the rows, 2 the index.
  LoopNest nest_;
  std::vector<std::pair<std::string, int64_t>> padded_;  // dimension, valid
  int width_ = 1;
  int64_t packs_ = 0;
  KernelWriter writer_;
};

}  // namespace

KernelOr PrepareCheckIndex(Runtime& runtime, StepState& state,
                           const Binding& binding) {
  // Owns its error slot.
  class CheckIndexKernel : public LaunchSequence {
   public:
    CheckIndexKernel(Runtime& runtime, std::vector<Launch> launches,
                     std::unique_ptr<StepState::Slot> slot)
        : LaunchSequence(runtime, std::move(launches)),
          slot_(std::move(slot)) {}

   private:
    std::unique_ptr<StepState::Slot> slot_;
  };
  const BoundValue &index = binding.operands[0], &result = binding.results[0];
  MTF_ASSIGN_OR_RETURN(std::unique_ptr<StepState::Slot> slot,
                       state.NewSlot(binding.index, index));
  std::vector<Launch> launches;
  if (index.elements() > 0) {
    KernelWriter writer("check_index");
    LoopNest nest("i", 0);
    std::vector<std::string> conditions;
    for (size_t i = 0; i < index.dims.size(); ++i) {
      const std::string& name = index.value->shape[static_cast<int>(i)].name;
      const bool padded = index.dims[i].valid != index.dims[i].extent;
      nest.Add(name, index.dims[i].extent, {}, padded);
    }
    for (size_t i = 0; i < index.dims.size(); ++i) {
      const std::string& name = index.value->shape[static_cast<int>(i)].name;
      if (index.dims[i].valid == index.dims[i].extent) continue;
      conditions.push_back(absl::StrCat(nest.Coordinate(name), " < ",
                                        writer.Number(index.dims[i].valid)));
    }
    writer.SetIndexReach(index.elements());
    const std::string x =
        writer.Read(index.data, index.dtype(), index.elements());
    const std::string y =
        writer.Write(result.data, result.dtype(), result.elements());
    const std::string error = writer.WriteAs(slot->words(), "u64", 16);
    writer.Add(
        writer.GridLoop("i", index.elements()), nest.Coordinates("    "),
        "    i64 checked = 0;\n    if (", AllOf(conditions),
        ") {\n      const i64 index = Rounded<i64>(Value(", x,
        "[i])).v;\n      if (index >= 0 && index < ",
        binding.instruction().Get<CheckIndexAttributes>().limit(),
        ") {\n        checked = index;\n      } else {\n        atomicMin(",
        error, ", (u64)i << 32 | (u32)index);\n        atomicMin(", error,
        " + 1, (u64)i << 32 | (u32)((u64)index >> 32));\n      }\n    }\n    ",
        y, "[i] = (", StorageType(result.dtype()), ")checked;\n  }\n");
    launches.emplace_back();
    MTF_ASSIGN_OR_RETURN(
        launches[0],
        writer.Compile(runtime,
                       writer.ShapeFor(runtime.info(), index.elements())));
  }
  return std::make_unique<CheckIndexKernel>(runtime, std::move(launches),
                                            std::move(slot));
}

KernelOr PrepareDynamicSlice(Runtime& runtime, const Binding& binding) {
  RowCopyWriter writer("dynamic_slice", binding.operands[0], binding.results[0],
                       binding.operands[1], DimensionOf(binding.instruction()));
  std::vector<Launch> launches;
  if (!writer.empty()) {
    MTF_ASSIGN_OR_RETURN(Launch launch, writer.Read(runtime));
    launches.push_back(std::move(launch));
  }
  return std::make_unique<LaunchSequence>(runtime, std::move(launches));
}

KernelOr PrepareUpdateSlice(Runtime& runtime, const Binding& binding) {
  const BoundValue &value = binding.operands[0], &result = binding.results[0];
  auto kernel = std::make_unique<KernelList>();
  if (value.data != result.data) {
    MTF_RETURN_IF_ERROR(kernel->Add(PrepareStridedCopy(
        runtime,
        StridedCopy{value.dtype(), value.dtype(), {{result.elements(), 1, 1}}},
        value.data, result.data)));
  }
  RowCopyWriter writer("update_slice", result, binding.operands[1],
                       binding.operands[2], DimensionOf(binding.instruction()));
  if (!writer.empty() && result.elements() > 0) {
    MTF_ASSIGN_OR_RETURN(Launch launch, writer.Write(runtime));
    std::unique_ptr<Kernel> rows = std::make_unique<LaunchSequence>(
        runtime, std::vector<Launch>{std::move(launch)});
    kernel->Add(std::move(rows));
  }
  return kernel;
}

}  // namespace mtf::cuda
