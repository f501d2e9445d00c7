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
#include "backends/cuda/kernels/step_counters.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// The walk over indices that gather and scatter_add share: which row of the
// table each index means, and where its row lies on the other side.
//
// Array 0 of both nests is the table, array 1 the rows (gather's result,
// scatter_add's updates); `indices` runs over the dimensions of the indices,
// `columns` over those of the table that no index chooses. In the text the
// indices are counted by "i", columns by "c".
class IndexWalk {
 public:
  IndexWalk(const Binding& binding, const BoundValue& table,
            const BoundValue& indices, const BoundValue& rows);

  const LoopNest& indices() const { return indices_; }
  const LoopNest& columns() const { return columns_; }
  int64_t row_stride() const { return row_stride_; }
  const ShardedDimension& row_shard() const { return shard_; }
  // How many places apart equal rows of the table are that different matched
  // dimensions choose: its dimensions that are also dimensions of the indices.
  int64_t matched() const { return matched_; }

  // Statements that declare "i64 row", the local row that index i means or -1,
  // and report an index out of range where `reports` (a condition) holds. Needs
  // the coordinates of `indices`.
  std::string RowOf(KernelWriter& writer, const StepCounters::Slot* slot,
                    absl::string_view indent, absl::string_view reports) const;
  // The table's matched coordinates of index i as one number below matched().
  std::string MatchedNumber() const { return SumText({indices_.Place(2)}); }
  // The place in the table of the number that MatchedNumber gives, as a nest
  // over "m" with array 0 the table.
  const LoopNest& matched_places() const { return matched_places_; }

  // How many neighbouring columns are taken at once: up to `most` bytes.
  int PackWidth(int64_t most) const;

 private:
  BoundValue table_, values_, rows_;
  int64_t size_ = 0, row_stride_ = 1, matched_ = 1;
  ShardedDimension shard_;
  LoopNest indices_, columns_, matched_places_;
  std::vector<std::pair<std::string, int64_t>> padded_;  // dimension, valid
};

// Rows of a table; zeros for rows of other ranks, for padding and for indices
// out of range, the first of which is reported.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareGather(Runtime& runtime,
                                                      StepCounters& words,
                                                      const Binding& binding);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_GATHER_H_
