// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_KERNELS_GATHER_H_
#define BACKENDS_CUDA_KERNELS_GATHER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/codegen/kernel_writer.h"
#include "backends/cuda/codegen/loop_nest.h"
#include "backends/cuda/kernels/step_state.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// The iteration over indices that gather and scatter_add share: the table row
// that each index selects, and the offset of the corresponding row on the other
// side.
//
// In both nests array 0 is the table and array 1 the rows (gather's result,
// scatter_add's updates). `indices` covers the dimensions of the indices, with
// variable "i"; `columns` covers the table's remaining dimensions, with
// variable "c".
class IndexWalk {
 public:
  IndexWalk(const Binding& binding, const BoundValue& table,
            const BoundValue& indices, const BoundValue& rows);

  const LoopNest& indices() const { return indices_; }
  const LoopNest& columns() const { return columns_; }
  int64_t row_stride() const { return row_stride_; }
  const ShardedDimension& row_shard() const { return shard_; }
  // The number of combinations of matched coordinates: those of dimensions that
  // the table and the indices share.
  int64_t matched() const { return matched_; }

  // Statements that declare "i64 row", the local row selected by index i or -1,
  // and record an index out of range where the condition `reports` holds. Needs
  // the coordinates of `indices`.
  std::string RowOf(KernelWriter& writer, const StepState::Slot* slot,
                    absl::string_view indent, absl::string_view reports) const;
  // The matched coordinates of index i as one number below matched().
  std::string MatchedNumber() const { return SumText({indices_.Offset(2)}); }
  // The table's offset for the number that MatchedNumber gives, as a nest over
  // "m" with array 0 the table.
  const LoopNest& matched_offsets() const { return matched_offsets_; }

  // Number of neighbouring columns per access of up to `most` bytes.
  int PackWidth(int64_t most) const;

 private:
  BoundValue table_, values_, rows_;
  int64_t size_ = 0, row_stride_ = 1, matched_ = 1;
  ShardedDimension shard_;
  LoopNest indices_, columns_, matched_offsets_;
  std::vector<std::pair<std::string, int64_t>> padded_;  // dimension, valid
};

// Selects rows of a table. Rows of other ranks, padding and indices out of
// range give zeros; the first index out of range is recorded.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareGather(Runtime& runtime,
                                                      StepState& state,
                                                      const Binding& binding);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_GATHER_H_
