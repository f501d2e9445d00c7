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

// The rows and columns of a group of rows (lowering/passes/fuse_rows.h). In
// kernels `row0`, `row1`, ... are the indices along the row dimensions and
// `column` is the index within a row.
class RowSpace {
 public:
  // The space of the first reduction to rows among `members`.
  explicit RowSpace(absl::Span<const Binding> members);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

  // A value without columns is one register per row; a value without rows is
  // the same for all rows.
  bool HasColumns(const BoundValue& value) const;
  bool HasRows(const BoundValue& value) const;
  // Whether a row of `value` is contiguous and has all columns of the space.
  bool IsDense(const BoundValue& value) const;

  // Whether a reduction gives one number per row.
  static bool ReducesColumns(const Binding& reduce);

  // The offset of the row's first element in `value`, and that of a column in
  // it.
  std::string RowOffset(const BoundValue& value) const;
  std::string ColumnOffset(const BoundValue& value) const;
  // The global index along a dimension of `member`.
  std::string IotaText(const Binding& member,
                       const std::string& dimension) const;
  // Definitions of row0, row1, ... in terms of `row`.
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

// The assignment of threads to a row, and where the row is kept on chip between
// passes.
struct RowTiling {
  enum class Kept : uint8_t {
    kRegisters,  // all values read or computed
    kShared,     // values read; computed ones are computed again
    kNowhere,    // read once, or again from the cache
  };
  int threads = 32;  // per row
  int block_rows = 1;
  int pack = 1;        // neighbouring columns per access
  int64_t packs = 1;   // per row
  int64_t shares = 1;  // packs per thread
  Kept kept = Kept::kNowhere;
  // For kShared: packs of a row that are kept, all of them if they fit, and the
  // offset of each kept input.
  int64_t kept_packs = 0;
  std::vector<int64_t> offsets;
  int64_t shared_bytes = 0;

  // The tiling of rows of `columns` elements of up to `size` bytes, whose
  // addresses are multiples of `alignment`. `kept_sizes` are the element sizes
  // of the inputs that more than one pass reads.
  static RowTiling For(const GpuInfo& gpu, int64_t columns, int64_t size,
                       int64_t alignment, absl::Span<const int64_t> kept_sizes);
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_ROW_SPACE_H_
