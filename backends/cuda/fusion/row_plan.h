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

// What the kernel of a group of rows does when: a pass over the columns of a
// row for each layer of its reductions, which are its phases, and a last one
// that stores; what is kept in between, and where.
class RowPlan {
 public:
  using Source = GroupDataflow::Source;
  // What has to be known of a column.
  struct Needs {
    std::vector<bool> inputs, maps;
  };

  RowPlan(const GpuInfo& gpu, absl::Span<const Binding> members,
          const GroupDataflow& wiring);

  const Binding& member(int i) const { return members_[i]; }
  const GroupDataflow& wiring() const { return wiring_; }
  const RowSpace& space() const { return space_; }
  const RowTiling& tiling() const { return tiling_; }
  int members() const { return static_cast<int>(members_.size()); }
  int inputs() const { return static_cast<int>(wiring_.inputs.size()); }
  const BoundValue& input(int i) const { return wiring_.inputs[i]; }
  const BoundValue& result(int member) const {
    return members_[member].results[0];
  }

  bool IsMap(int member) const {
    return members_[member].instruction().opcode == Opcode::kMap;
  }
  // To one number for each row.
  bool IsReduce(int member) const {
    return !IsMap(member) && RowSpace::ReducesColumns(members_[member]);
  }
  bool IsRowSum(int member) const {
    return !IsMap(member) && !IsReduce(member);
  }
  // Whether it has columns, which values in between have in registers.
  bool IsWide(int member) const {
    return IsMap(member) && space_.HasColumns(result(member));
  }
  bool IsStoredWide(int member) const {
    return wiring_.stored[member] && IsWide(member);
  }
  bool InRegisters() const {
    return tiling_.kept == RowTiling::Kept::kRegisters;
  }
  bool IsInShared(int input) const;

  // Phases with reductions; in the one behind them all else is stored.
  int phases() const { return phases_; }
  // In which a member is known, but for a reduction, which is behind it.
  int phase(int member) const { return phase_[member]; }
  // What a phase needs, where the maps that are `done` are in registers.
  Needs NeedsOf(int phase, const std::vector<bool>& done) const;

  // Inputs in shared memory.
  const std::vector<int>& kept() const { return kept_; }
  // Members that add up rows, which they do stripe by stripe.
  const std::vector<int>& row_sums() const { return row_sums_; }
  int64_t stripe() const { return stripe_; }    // rows of one
  int64_t stripes() const { return stripes_; }  // 0 where nothing adds up rows

  // Of memory.
  int64_t BytesRead() const;
  int64_t BytesWritten() const;

 private:
  bool IsWide(const Source& source) const {
    return source.member >= 0 ? IsWide(source.member)
                              : space_.HasColumns(wiring_.inputs[source.input]);
  }
  // Adds what computing `source` takes.
  void Demand(const Source& source, const std::vector<bool>& done,
              Needs& needs) const;
  void FindPhases();
  void FindTiling(const GpuInfo& gpu);
  void FindStripes();
  int64_t BytesRead(int input) const;
  int64_t PartialBytes() const;

  absl::Span<const Binding> members_;
  const GroupDataflow& wiring_;
  const RowSpace space_;
  RowTiling tiling_;
  std::vector<int> phase_;  // by member
  int phases_ = 0;
  std::vector<int> passes_;  // by input: in which it is read
  std::vector<int> kept_, row_sums_;
  int64_t stripe_ = 1, stripes_ = 0;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_ROW_PLAN_H_
