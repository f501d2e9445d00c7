// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_FUSION_ROW_SPACE_H_
#define BACKENDS_CUDA_FUSION_ROW_SPACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// The rows and columns that a group of FindRowGroups works on. In kernels
// `row0`, `row1`, ... are the indices along the dimensions of the rows,
// `column` is the place in a row.
class RowSpace {
 public:
  // That of the first reduction to rows among `members`.
  explicit RowSpace(absl::Span<const Binding> members);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

  // A value without columns is one register a row; one without rows is the same
  // for all.
  bool HasColumns(const BoundValue& value) const;
  bool HasRows(const BoundValue& value) const;
  // Whether a row of `value` is the space's, place by place.
  bool IsDense(const BoundValue& value) const;

  // Whether a reduction gives one number for each row.
  static bool ReducesColumns(const Binding& reduce);

  // The first element of the row in `value`, and what a column adds to it.
  std::string RowOffset(const BoundValue& value) const;
  std::string ColumnOffset(const BoundValue& value) const;
  // The global index along a dimension that `member` works on.
  std::string IotaText(const Binding& member,
                       const std::string& dimension) const;
  // Definitions of row0, row1, ... from `row`.
  std::string RowIndices(const std::string& indent) const;

 private:
  struct Dim {
    std::string name;
    int64_t extent = 1;
  };
  static bool HasAny(const std::vector<Dim>& dims, const BoundValue& value);

  std::vector<Dim> row_dims_, column_dims_;
  int64_t rows_ = 1, columns_ = 1;
};

// How threads take a row, and where on the chip it is kept between the passes
// over it.
struct RowTiling {
  enum class Kept : uint8_t {
    kRegisters,  // all that was read or computed
    kShared,     // what was read; the rest is computed again
    kNowhere,    // it is read once, or again from the cache
  };
  int threads = 32;  // for a row
  int block_rows = 1;
  int pack = 1;        // neighbouring columns that a thread takes at once
  int64_t packs = 1;   // of a row
  int64_t shares = 1;  // packs of a thread
  Kept kept = Kept::kNowhere;
  // Of kShared: packs of a row that are kept, all of them where there is room,
  // and where each of the kept inputs begins.
  int64_t kept_packs = 0;
  std::vector<int64_t> offsets;
  int64_t shared_bytes = 0;

  // For rows of `columns` elements of up to `size` bytes at addresses that are
  // all multiples of `alignment`; `kept_sizes` are the sizes of elements of the
  // inputs that are read in more than one pass.
  static RowTiling For(const GpuInfo& gpu, int64_t columns, int64_t size,
                       int64_t alignment, absl::Span<const int64_t> kept_sizes);
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_ROW_SPACE_H_
