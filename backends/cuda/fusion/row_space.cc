// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/fusion/row_space.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backends/cuda/codegen/rounding.h"
#include "mtf/check.h"

namespace mtf::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;
// Threads of a block that shares a multiprocessor with another block: one
// computes while the other waits for memory.
constexpr int kThreadsOfTwo = 512;
// Elements of a row per thread below which a row gets fewer threads; also the
// most elements of each value that a thread holds in registers, of which it has
// 64 for the few live values.
constexpr int64_t kGoodShare = 8;
// Shared memory that the kernel declares elsewhere and the system reserves.
constexpr int64_t kOtherShared = 2048;

}  // namespace

RowSpace::RowSpace(absl::Span<const Binding> members) {
  for (const Binding& member : members) {
    const auto* reduce = member.instruction().Find<ReduceAttributes>();
    if (reduce == nullptr || !ReducesColumns(member)) continue;
    const int rank = reduce->iteration.rank();
    const int row_rank = member.results[0].value->shape.rank();
    for (int i = 0; i < rank; ++i) {
      const int64_t extent = member.iteration[i].extent;
      (i < row_rank ? row_dims_ : column_dims_)
          .push_back({reduce->iteration[i].name, extent});
      (i < row_rank ? rows_ : columns_) *= extent;
    }
    return;
  }
}

bool RowSpace::ReducesColumns(const Binding& reduce) {
  const Shape& result = reduce.results[0].value->shape;
  return result.rank() > 0 &&
         result[0].name ==
             reduce.instruction().Get<ReduceAttributes>().iteration[0].name;
}

bool RowSpace::HasAny(const std::vector<Dim>& dims, const BoundValue& value) {
  return std::any_of(dims.begin(), dims.end(), [&](const Dim& dim) {
    return value.value->shape.Contains(dim.name);
  });
}
bool RowSpace::HasColumns(const BoundValue& value) const {
  return HasAny(column_dims_, value);
}
bool RowSpace::HasRows(const BoundValue& value) const {
  return HasAny(row_dims_, value);
}

bool RowSpace::IsDense(const BoundValue& value) const {
  const int rank = value.value->shape.rank();
  const int columns = static_cast<int>(column_dims_.size());
  if (rank < columns) return false;
  for (int i = 0; i < columns; ++i) {
    const int dim_index = rank - columns + i;
    if (value.value->shape[dim_index].name != column_dims_[i].name)
      return false;
    if (value.dims[dim_index].extent != column_dims_[i].extent) return false;
  }
  return true;
}

std::string RowSpace::RowOffset(const BoundValue& value) const {
  std::string text;
  for (size_t i = 0; i < row_dims_.size(); ++i) {
    const int dim_index = value.value->shape.Find(row_dims_[i].name);
    if (dim_index < 0 || value.dims[dim_index].extent == 1) continue;
    absl::StrAppend(&text, text.empty() ? "" : " + ", "row", i, " * ",
                    value.stride(dim_index), "LL");
  }
  return text.empty() ? "0" : text;
}

std::string RowSpace::ColumnOffset(const BoundValue& value) const {
  std::string text;
  int64_t below = columns_;
  for (const Dim& dim : column_dims_) {
    below /= std::max<int64_t>(dim.extent, 1);
    const int dim_index = value.value->shape.Find(dim.name);
    if (dim_index < 0 || dim.extent == 1) continue;
    std::string index = "column";
    if (below > 1) index = absl::StrCat(index, " / ", below);
    if (below * dim.extent < columns_) {
      index = absl::StrCat("(", index, ") % ", dim.extent);
    }
    absl::StrAppend(&text, text.empty() ? "" : " + ", "(i64)(", index, ") * ",
                    value.stride(dim_index));
  }
  return text.empty() ? "0" : text;
}

std::string RowSpace::IotaText(const Binding& member,
                               const std::string& dimension) const {
  const auto* reduce = member.instruction().Find<ReduceAttributes>();
  const Shape& shape =
      reduce != nullptr ? reduce->iteration : member.results[0].value->shape;
  const std::vector<ShardedDimension>& dims =
      reduce != nullptr ? member.iteration : member.results[0].dims;
  const int dim_index = shape.Find(dimension);
  MTF_CHECK_GE(dim_index, 0);
  const std::string offset = absl::StrCat(dims[dim_index].offset, "LL");
  for (size_t i = 0; i < row_dims_.size(); ++i) {
    if (row_dims_[i].name == dimension) {
      return absl::StrCat(offset, " + row", i);
    }
  }
  int64_t below = columns_;
  for (const Dim& dim : column_dims_) {
    below /= std::max<int64_t>(dim.extent, 1);
    if (dim.name != dimension) continue;
    std::string index = "column";
    if (below > 1) absl::StrAppend(&index, " / ", below);
    if (below * dim.extent < columns_) {
      absl::StrAppend(&index, " % ", dim.extent);
    }
    return absl::StrCat(offset, " + ", index);
  }
  return offset;
}

std::string RowSpace::RowIndices(const std::string& indent) const {
  std::string text;
  int64_t below = rows_;
  for (size_t i = 0; i < row_dims_.size(); ++i) {
    below /= std::max<int64_t>(row_dims_[i].extent, 1);
    absl::StrAppend(&text, indent, "const i64 row", i, " = row / ", below,
                    " % ", row_dims_[i].extent, ";\n", indent, "(void)row", i,
                    ";\n");
  }
  return text;
}

RowTiling RowTiling::For(const GpuInfo& gpu, int64_t columns, int64_t size,
                         int64_t alignment,
                         absl::Span<const int64_t> kept_sizes) {
  RowTiling tiling;
  tiling.pack = static_cast<int>(16 / std::max<int64_t>(size, 2));
  while (tiling.pack > 1 && (columns % tiling.pack != 0 || alignment < 16)) {
    tiling.pack /= 2;
  }
  const int64_t pack = tiling.pack;
  tiling.packs = columns / pack;
  const int64_t share = std::max<int64_t>(1, kGoodShare / pack);
  const auto take = [&](int64_t threads) {
    tiling.threads = static_cast<int>(
        std::clamp<int64_t>(RoundUp(threads, kWarp), kWarp, kMaxThreads));
    tiling.shares = CeilDivide(tiling.packs, tiling.threads);
  };
  take(CeilDivide(tiling.packs, share));
  tiling.block_rows = tiling.threads == kWarp ? 4 : 1;
  if (tiling.shares * pack <= kGoodShare) {
    tiling.kept = Kept::kRegisters;
    return tiling;
  }
  if (kept_sizes.empty()) return tiling;
  int64_t bytes = 0;
  for (int64_t kept : kept_sizes) bytes += kept * pack;
  // Every input begins at a multiple of 16 bytes.
  const int64_t room = gpu.shared_bytes - kOtherShared -
                       16 * static_cast<int64_t>(kept_sizes.size());
  const bool two = 2 * tiling.packs * bytes <= room;
  take(two ? std::min<int64_t>(tiling.threads, kThreadsOfTwo) : tiling.threads);
  tiling.kept_packs =
      std::min(tiling.packs, room / bytes / tiling.threads * tiling.threads);
  if (tiling.kept_packs == 0) return tiling;
  tiling.kept = Kept::kShared;
  for (int64_t kept : kept_sizes) {
    tiling.offsets.push_back(tiling.shared_bytes);
    tiling.shared_bytes += RoundUp(kept * pack * tiling.kept_packs, 16);
  }
  return tiling;
}

}  // namespace mtf::cuda
