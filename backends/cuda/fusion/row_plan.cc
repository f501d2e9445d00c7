// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/fusion/row_plan.h"

#include <algorithm>

#include "mtf/check.h"

namespace mtf::cuda {
namespace {

// Rows that are added in float32 before the sum becomes a double; fewer if
// there would not be enough stripes to fill a GPU. Constants, so that the order
// of a sum does not depend on the GPU.
constexpr int64_t kLongStripe = 64, kShortStripe = 8, kManyStripes = 512;

}  // namespace

RowPlan::RowPlan(const GpuInfo& gpu, absl::Span<const Binding> members,
                 const GroupDataflow& dataflow)
    : members_(members), dataflow_(dataflow), space_(members) {
  FindPhases();
  FindTiling(gpu);
  FindStripes();
}

bool RowPlan::IsInShared(int input) const {
  return std::count(kept_.begin(), kept_.end(), input) > 0;
}

// A reduction ends the phase in which its operands are known. Its readers
// belong to a later phase.
void RowPlan::FindPhases() {
  for (int i = 0; i < members(); ++i) {
    int phase = 0;
    for (const Source& source : dataflow_.sources[i]) {
      if (source.member < 0) continue;
      phase = std::max(
          phase, phase_[source.member] + (IsReduce(source.member) ? 1 : 0));
    }
    phase_.push_back(phase);
    if (IsReduce(i)) phases_ = std::max(phases_, phase + 1);
  }
}

void RowPlan::FindTiling(const GpuInfo& gpu) {
  // The pack must suit every value that is read or written completely. Values
  // that are the same for all rows stay in the cache and may take several
  // words.
  int64_t size = 1, alignment = 16;
  const auto see = [&](const BoundValue& value) {
    if (!space_.HasColumns(value) || !space_.IsDense(value)) return;
    if (space_.HasRows(value)) size = std::max(size, DTypeSize(value.dtype()));
    if (reinterpret_cast<uintptr_t>(value.data) % 16 != 0) alignment = 1;
  };
  for (const BoundValue& input : dataflow_.inputs) see(input);
  for (int i = 0; i < members(); ++i) {
    if (dataflow_.stored[i] && !IsRowSum(i)) see(result(i));
  }
  passes_.assign(inputs(), 0);
  const std::vector<bool> done(members_.size(), false);
  for (int phase = 0; phase <= phases_; ++phase) {
    const Needs needs = NeedsOf(phase, done);
    for (int i = 0; i < inputs(); ++i) passes_[i] += needs.inputs[i];
  }
  std::vector<int64_t> sizes;
  for (int i = 0; i < inputs(); ++i) {
    const BoundValue& input = this->input(i);
    // Values that are the same for all rows stay in the cache.
    if (passes_[i] < 2 || !space_.IsDense(input) || !space_.HasRows(input)) {
      continue;
    }
    kept_.push_back(i);
    sizes.push_back(DTypeSize(input.dtype()));
  }
  tiling_ = RowTiling::For(gpu, space_.columns(), size, alignment, sizes);
  if (tiling_.kept != RowTiling::Kept::kShared) kept_.clear();
}

void RowPlan::FindStripes() {
  for (int i = 0; i < members(); ++i) {
    if (IsRowSum(i)) row_sums_.push_back(i);
  }
  if (row_sums_.empty()) return;
  // FusionCapabilities limits the columns per thread of such groups.
  MTF_CHECK(InRegisters()) << space_.columns() << " columns";
  stripe_ = std::clamp<int64_t>(space_.rows() / kManyStripes, kShortStripe,
                                kLongStripe);
  stripes_ = (space_.rows() + stripe_ - 1) / stripe_;
}

int64_t RowPlan::BytesRead(int i) const {
  const BoundValue& input = this->input(i);
  const int64_t bytes = input.elements() * DTypeSize(input.dtype());
  if (InRegisters() || !space_.HasRows(input) || !space_.HasColumns(input)) {
    return bytes;
  }
  int64_t packs = passes_[i] * tiling_.packs;
  if (IsInShared(i)) {
    packs -= (passes_[i] - 1) * tiling_.kept_packs;
  }
  return bytes / tiling_.packs * packs;
}

int64_t RowPlan::PartialBytes() const {
  return static_cast<int64_t>(row_sums_.size()) * stripes_ * space_.columns() *
         int64_t{sizeof(float)};
}

int64_t RowPlan::BytesRead() const {
  int64_t bytes = PartialBytes();
  for (int i = 0; i < inputs(); ++i) bytes += BytesRead(i);
  return bytes;
}

int64_t RowPlan::BytesWritten() const {
  int64_t bytes = PartialBytes();
  for (int i = 0; i < members(); ++i) {
    if (!dataflow_.stored[i]) continue;
    bytes += result(i).elements() * DTypeSize(result(i).dtype());
  }
  return bytes;
}

void RowPlan::AddNeeds(const Source& source, const std::vector<bool>& done,
                       Needs& needs) const {
  if (!IsWide(source)) return;
  if (source.input >= 0) {
    needs.inputs[source.input] = true;
    return;
  }
  if (needs.maps[source.member]) return;
  needs.maps[source.member] = true;
  if (done[source.member]) return;
  for (const Source& operand : dataflow_.sources[source.member]) {
    AddNeeds(operand, done, needs);
  }
}

RowPlan::Needs RowPlan::NeedsOf(int phase,
                                const std::vector<bool>& done) const {
  Needs needs;
  needs.inputs.resize(inputs(), false);
  needs.maps.resize(members_.size(), false);
  for (int i = 0; i < members(); ++i) {
    if (!IsMap(i) && phase_[i] == phase) {
      for (const Source& source : dataflow_.sources[i]) {
        AddNeeds(source, done, needs);
      }
    }
    if (phase == phases_ && IsStoredWide(i)) {
      AddNeeds({.member = i}, done, needs);
    }
  }
  return needs;
}

}  // namespace mtf::cuda
