// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_FUSION_ROW_PLAN_H_
#define BACKENDS_CUDA_FUSION_ROW_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cuda/fusion/group_dataflow.h"
#include "backends/cuda/fusion/row_space.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// The schedule of a row group's kernel: one pass over a row's columns, called a
// phase, for each level of dependent reductions and a last one that stores; and
// the inputs kept between passes.
class RowPlan {
 public:
  using Source = GroupDataflow::Source;
  // The values needed for a column.
  struct Needs {
    std::vector<bool> inputs, maps;
  };

  RowPlan(const GpuInfo& gpu, absl::Span<const Binding> members,
          const GroupDataflow& dataflow);

  const Binding& member(int i) const { return members_[i]; }
  const GroupDataflow& dataflow() const { return dataflow_; }
  const RowSpace& space() const { return space_; }
  const RowTiling& tiling() const { return tiling_; }
  int members() const { return static_cast<int>(members_.size()); }
  int inputs() const { return static_cast<int>(dataflow_.inputs.size()); }
  const BoundValue& input(int i) const { return dataflow_.inputs[i]; }
  const BoundValue& result(int member) const {
    return members_[member].results[0];
  }

  bool IsMap(int member) const {
    return members_[member].instruction().opcode == Opcode::kMap;
  }
  // Whether the member reduces each row to one number.
  bool IsReduce(int member) const {
    return !IsMap(member) && RowSpace::ReducesColumns(members_[member]);
  }
  bool IsRowSum(int member) const {
    return !IsMap(member) && !IsReduce(member);
  }
  // Whether the member's result has columns, which are held in registers.
  bool IsWide(int member) const {
    return IsMap(member) && space_.HasColumns(result(member));
  }
  bool IsStoredWide(int member) const {
    return dataflow_.stored[member] && IsWide(member);
  }
  bool InRegisters() const {
    return tiling_.kept == RowTiling::Kept::kRegisters;
  }
  bool IsInShared(int input) const;

  // Number of phases with reductions; one more phase stores all other results.
  int phases() const { return phases_; }
  // The phase in which a member is known; a reduction is known after its phase.
  int phase(int member) const { return phase_[member]; }
  // The values that a phase needs if the maps in `done` are in registers.
  Needs NeedsOf(int phase, const std::vector<bool>& done) const;

  // Inputs kept in shared memory.
  const std::vector<int>& kept() const { return kept_; }
  // Members that sum over rows, one stripe of rows at a time.
  const std::vector<int>& row_sums() const { return row_sums_; }
  int64_t stripe() const { return stripe_; }    // rows per stripe
  int64_t stripes() const { return stripes_; }  // 0 without sums over rows

  // Memory traffic.
  int64_t BytesRead() const;
  int64_t BytesWritten() const;

 private:
  bool IsWide(const Source& source) const {
    return source.member >= 0
               ? IsWide(source.member)
               : space_.HasColumns(dataflow_.inputs[source.input]);
  }
  // Adds the values needed to compute `source`.
  void AddNeeds(const Source& source, const std::vector<bool>& done,
                Needs& needs) const;
  void FindPhases();
  void FindTiling(const GpuInfo& gpu);
  void FindStripes();
  int64_t BytesRead(int input) const;
  int64_t PartialBytes() const;

  absl::Span<const Binding> members_;
  const GroupDataflow& dataflow_;
  const RowSpace space_;
  RowTiling tiling_;
  std::vector<int> phase_;  // by member
  int phases_ = 0;
  std::vector<int> passes_;  // by input: passes that read it
  std::vector<int> kept_, row_sums_;
  int64_t stripe_ = 1, stripes_ = 0;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_ROW_PLAN_H_
