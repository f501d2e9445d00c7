// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels/gather.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf::cuda {

IndexWalk::IndexWalk(const Binding& binding, const BoundValue& table,
                     const BoundValue& indices, const BoundValue& rows)
    : table_(table),
      values_(indices),
      rows_(rows),
      indices_("i", 3),
      columns_("c", 2),
      matched_offsets_("m", 1) {
  const std::string& dimension = DimensionOf(binding.instruction());
  const Shape& table_shape = table.value->shape;
  const Shape& shape = indices.value->shape;
  const int dim = table_shape.Find(dimension);
  MTF_CHECK_LE(0, dim) << dimension;
  size_ = table_shape[dim].size;
  shard_ = table.dims[dim];
  row_stride_ = table.stride(dim);
  const auto matched = [&](const std::string& name) {
    return name == dimension ? -1 : table_shape.Find(name);
  };
  // Numbers the matched coordinates, the innermost first.
  std::vector<int64_t> number(shape.rank(), 0);
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (matched(shape[i].name) < 0) continue;
    number[i] = matched_;
    matched_ *= indices.dims[i].extent;
  }
  for (int i = 0; i < shape.rank(); ++i) {
    const std::string& name = shape[i].name;
    const ShardedDimension& local = indices.dims[i];
    const int there = matched(name);
    const int other = rows.value->shape.Find(name);
    const int64_t in_table = there < 0 ? 0 : table.stride(there);
    const bool padded = local.valid != local.extent;
    if (padded) padded_.push_back({name, local.valid});
    indices_.Add(name, local.extent,
                 {in_table, other < 0 ? 0 : rows.stride(other), number[i]},
                 padded);
    if (there >= 0) {
      matched_offsets_.Add(name, local.extent, {in_table}, false);
    }
  }
  for (int i = 0; i < table_shape.rank(); ++i) {
    const std::string& name = table_shape[i].name;
    if (name == dimension || shape.Contains(name)) continue;
    const int other = rows.value->shape.Find(name);
    MTF_CHECK_LE(0, other) << name;
    columns_.Add(name, table.dims[i].extent,
                 {table.stride(i), rows.stride(other)}, false);
  }
}

int IndexWalk::PackWidth(int64_t most) const {
  const int64_t size =
      std::max(DTypeSize(table_.dtype()), DTypeSize(rows_.dtype()));
  int64_t width = std::max<int64_t>(most / size, 1);
  const auto fits = [&] {
    if (!columns_.InnerDivides(width) || row_stride_ % width != 0) return false;
    for (int array = 0; array < 2; ++array) {
      const BoundValue& value = array == 0 ? table_ : rows_;
      const auto address = reinterpret_cast<uintptr_t>(value.data);
      if (columns_.inner_stride(array) != 1 ||
          !columns_.OffsetsDivide(array, width) ||
          !indices_.StridesDivide(array, width) ||
          address % (width * DTypeSize(value.dtype())) != 0) {
        return false;
      }
    }
    return true;
  };
  while (width > 1 && !fits()) width /= 2;
  return static_cast<int>(width);
}

std::string IndexWalk::RowOf(KernelWriter& writer, const StepState::Slot* slot,
                             absl::string_view indent,
                             absl::string_view reports) const {
  const std::string x =
      writer.Read(values_.data, values_.dtype(), values_.elements());
  std::string text = absl::StrCat(indent, "i64 row = -1;\n");
  std::string condition;
  for (const auto& [name, valid] : padded_) {
    absl::StrAppend(&condition, condition.empty() ? "" : " && ",
                    indices_.Coordinate(name), " < ", writer.Number(valid));
  }
  absl::StrAppend(&text, indent, "if (", condition.empty() ? "true" : condition,
                  ") {\n", indent, "  const i64 index = Rounded<i64>(Value(", x,
                  "[i])).v;\n", indent, "  row = index");
  if (shard_.offset != 0) {
    absl::StrAppend(&text, " - ", writer.Number(shard_.offset));
  }
  const std::string valid =
      shard_.valid == size_ ? absl::StrCat(size_) : writer.Number(shard_.valid);
  absl::StrAppend(&text, ";\n", indent, "  if (index < 0 || index >= ", size_,
                  ") {\n");
  if (slot != nullptr) {
    const std::string error = writer.WriteAs(slot->words(), "u64", 16);
    absl::StrAppend(
        &text, indent, "    if (", reports, ") {\n", indent, "      atomicMin(",
        error, ", (u64)i << 32 | (u32)index);\n", indent, "      atomicMin(",
        error, " + 1, (u64)i << 32 | (u32)((u64)index >> 32));\n", indent,
        "    }\n");
  }
  absl::StrAppend(&text, indent, "    row = -1;\n", indent,
                  "  } else if (row < 0 || row >= ", valid, ") {\n", indent,
                  "    row = -1;\n", indent, "  }\n", indent, "}\n");
  return text;
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareGather(Runtime& runtime,
                                                      StepState& state,
                                                      const Binding& binding) {
  // Owns its error slot.
  class GatherKernel : public LaunchSequence {
   public:
    GatherKernel(Runtime& runtime, std::vector<Launch> launches,
                 std::unique_ptr<StepState::Slot> slot)
        : LaunchSequence(runtime, std::move(launches)),
          slot_(std::move(slot)) {}

   private:
    std::unique_ptr<StepState::Slot> slot_;
  };
  const BoundValue& table = binding.operands[0];
  const BoundValue& indices = binding.operands[1];
  const BoundValue& result = binding.results[0];
  MTF_ASSIGN_OR_RETURN(std::unique_ptr<StepState::Slot> slot,
                       state.NewSlot(binding.index, indices));
  const IndexWalk walk(binding, table, indices, result);
  std::vector<Launch> launches;
  const int64_t count = walk.indices().elements();
  if (count > 0) {
    KernelWriter writer("gather");
    const std::string type(StorageType(result.dtype()));
    const LoopNest &rows = walk.indices(), &columns = walk.columns();
    const int width = walk.PackWidth(16);
    const int64_t packs = columns.elements() / width;
    writer.SetIndexReach(count * std::max<int64_t>(packs, 1));
    writer.SetIndexReach(table.elements());
    writer.SetIndexReach(result.elements());
    const std::string access =
        width == 1 ? type : absl::StrCat("Pack<", type, ", ", width, ">");
    writer.Add(writer.GridLoop("n", count * std::max<int64_t>(packs, 1)));
    if (packs > 1) {
      writer.Add("    const Index i = n / ", packs, ", c = n % ", packs, " * ",
                 width, ";\n");
    } else {
      writer.Add("    const Index i = n, c = 0;\n");
    }
    writer.Add(rows.Coordinates("    "),
               walk.RowOf(writer, slot.get(), "    ", "c == 0"));
    if (packs > 0) {
      const std::string x =
          writer.Read(table.data, table.dtype(), table.elements());
      const std::string y =
          writer.Write(result.data, result.dtype(), result.elements());
      writer.Add(
          columns.Coordinates("    "), "    ", access,
          " element = {};\n    if (row >= 0) {\n      element = *(const ",
          access, "*)(", x, " + ",
          SumText({rows.Offset(0), columns.Offset(0),
                   absl::StrCat("(Index)row * ", walk.row_stride())}),
          ");\n    }\n    *(", access, "*)(", y, " + ",
          SumText({rows.Offset(1), columns.Offset(1)}), ") = element;\n");
    }
    writer.Add("  }\n");
    launches.emplace_back();
    MTF_ASSIGN_OR_RETURN(
        launches[0],
        writer.Compile(runtime,
                       writer.ShapeFor(runtime.info(),
                                       count * std::max<int64_t>(packs, 1))));
  }
  return std::make_unique<GatherKernel>(runtime, std::move(launches),
                                        std::move(slot));
}

}  // namespace mtf::cuda
