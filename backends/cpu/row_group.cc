// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/row_group.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/cpu/block_prefetch.h"
#include "backends/cpu/overlap.h"
#include "backends/cpu/reduce_registers.h"
#include "backends/cpu/rounding.h"
#include "backends/cpu/row_member.h"
#include "backends/cpu/row_sums.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/threads.h"

namespace mtf::cpu {
namespace {

// Elements of the rows that a thread takes through all members at a time, at
// least one row: few enough for the first-level cache.
constexpr int64_t kTileElements = 2048;
// Minimum number of elements per thread.
constexpr int64_t kRowGrain = 8192;

// The steps of a difference x - row and of sums over rows of it, of its
// squares, of another value y and of their products. A batch norm has the first
// two sums and its gradient the others.
struct MomentSteps {
  size_t difference = 0;
  std::optional<size_t> differences = std::nullopt, squares = std::nullopt,
                        weights = std::nullopt, products = std::nullopt;
  int y = 0;  // operand of the products

  bool Has(size_t step) const {
    return step == difference || differences == step || squares == step ||
           weights == step || products == step;
  }
  bool is_complete() const {
    return differences.has_value() == squares.has_value() &&
           weights.has_value() == products.has_value() &&
           (squares.has_value() || products.has_value());
  }
};

// A member with the memory that its values have while rows are computed.
struct RowStep {
  RowMember member;
  // Operands in the scratch memory of the thread: their index and the step
  // whose results they are.
  std::vector<std::pair<int, size_t>> from_scratch;
  bool reads_constants = false;  // a member computes a constant of the space
  std::vector<const ProgramValue*> operands = {};
  // Offset of the result in the scratch memory, or -1 if it has other memory.
  int64_t scratch = -1;
  // Memory to which a result in scratch memory is copied: that of an operand
  // that a later member still reads.
  void* copy_to = nullptr;

  // Whether another step computes it, in one loop with others: that of which
  // they are the moments, the last of them.
  bool is_moment = false;
  std::optional<MomentSteps> moments = std::nullopt;

  int64_t row_bytes() const {
    return member.row_elements() * DTypeSize(member.dtype());
  }
};

class RowGroupKernel : public Kernel {
 public:
  explicit RowGroupKernel(absl::Span<const Binding> members);

  void Run(StepContext&) override {
    for (const RowMember& member : column_maps_) {
      RowMember::Runner(member, nullptr).Run(0, 1);
    }
    std::fill(partial_.begin(), partial_.end(), 0.0);
    const int64_t unit_elements = unit_ * space_.columns;
    ParallelFor(CeilDivide(space_.rows, unit_),
                CeilDivide(kRowGrain, unit_elements),
                [&](int64_t begin, int64_t end) {
                  Worker worker(*this);
                  for (int64_t unit = begin; unit < end; ++unit) {
                    worker.RunUnit(unit);
                  }
                });
    CombineStripes();
  }

 private:
  // Where the result of a member is.
  struct Location {
    size_t step = 0;
    void* data = nullptr;  // if not null, in this memory
  };
  using Locations = absl::flat_hash_map<const ProgramValue*, Location>;

  // One thread in one run.
  class Worker {
   public:
    explicit Worker(RowGroupKernel& group);
    // Computes a stripe, or a tile if there are no sums over rows.
    void RunUnit(int64_t unit);

   private:
    void RunTile(int64_t first, int64_t rows);
    void RunMoments(const MomentSteps& moments, int64_t first, int64_t rows);
    void MoveToScratch(size_t step, int64_t first);
    // Adds the sums of some rows to those of a stripe.
    void FlushSums(int64_t stripe);

    RowGroupKernel& group_;
    std::byte* scratch_;
    BlockPrefetch prefetch_;
    std::vector<std::unique_ptr<RowMember::Runner>> runners_;
  };

  void AddMember(absl::Span<const Binding> members, size_t index,
                 Locations& locations);
  void FindMoments();
  std::optional<MomentSteps> MomentsOf(size_t difference) const;
  int64_t ReserveScratch(int64_t bytes) {
    const int64_t offset = scratch_bytes_;
    // Vector loops read beyond the last element.
    scratch_bytes_ += CeilDivide(bytes, 64) * 64 + 64;
    return offset;
  }
  int64_t stripes() const { return CeilDivide(space_.rows, unit_); }
  void CombineStripes();

  const RowSpace space_;
  int64_t tile_ = 1, unit_ = 1;  // rows
  std::vector<RowMember> column_maps_;
  std::vector<std::vector<std::byte>> column_values_;
  std::vector<RowStep> steps_;
  std::vector<size_t> row_sums_;     // steps
  std::vector<BoundValue> results_;  // of row sums
  std::vector<double> partial_;      // [row sums, stripes, columns]
  int64_t scratch_bytes_ = 0;
};

// Whether a member after `index` reads memory that the result of that member
// overlaps.
bool IsReadLater(absl::Span<const Binding> members, size_t index) {
  const BoundValue& result = members[index].results[0];
  for (const Binding& later : members.subspan(index + 1)) {
    for (const BoundValue& operand : later.operands) {
      if (operand.value != result.value && operand.data != nullptr &&
          Overlaps(operand, result)) {
        return true;
      }
    }
  }
  return false;
}

RowGroupKernel::RowGroupKernel(absl::Span<const Binding> members)
    : space_(RowSpace::Of(members)) {
  tile_ = std::clamp<int64_t>(kTileElements / space_.columns, 1, kRowsInFloat);
  Locations locations;
  for (size_t i = 0; i < members.size(); ++i) AddMember(members, i, locations);
  FindMoments();
  unit_ = row_sums_.empty() ? tile_ : StripeRows(space_.rows);
  partial_.resize(row_sums_.size() * stripes() * space_.columns);
}

void RowGroupKernel::AddMember(absl::Span<const Binding> members, size_t index,
                               Locations& locations) {
  Binding binding = members[index];
  std::vector<std::pair<int, size_t>> from_scratch;
  bool reads_constants = false;
  for (size_t i = 0; i < binding.operands.size(); ++i) {
    BoundValue& operand = binding.operands[i];
    const auto made = locations.find(operand.value);
    if (made == locations.end()) continue;
    reads_constants = reads_constants || operand.elements() == 1;
    operand.data = made->second.data;
    if (operand.data != nullptr) continue;
    from_scratch.emplace_back(static_cast<int>(i), made->second.step);
  }
  BoundValue& result = binding.results[0];
  RowMember member(binding, binding.operands, space_);
  Location& location = locations[result.value];
  location = {steps_.size(), result.data};
  switch (member.kind()) {
    case RowMember::Kind::kColumnMap:
      if (result.data == nullptr) {
        // Vector loops read beyond the last element.
        column_values_.emplace_back(
            result.elements() * DTypeSize(result.dtype()) + 64);
        location.data = result.data = column_values_.back().data();
        member = RowMember(binding, binding.operands, space_);
      }
      column_maps_.push_back(std::move(member));
      return;
    case RowMember::Kind::kRowSum:
      if (result.data == nullptr) return;  // without readers
      row_sums_.push_back(steps_.size());
      results_.push_back(result);
      break;
    default:
      break;
  }
  RowStep step = {std::move(member), std::move(from_scratch), reads_constants};
  for (const BoundValue& operand : binding.operands) {
    step.operands.push_back(operand.value);
  }
  if (step.member.kind() == RowMember::Kind::kRowSum) {
    step.scratch = ReserveScratch(space_.columns * int64_t{sizeof(float)});
  } else if (result.data == nullptr || IsReadLater(members, index)) {
    step.copy_to = result.data;
    step.scratch = ReserveScratch(tile_ * step.row_bytes());
    location.data = nullptr;
  }
  steps_.push_back(std::move(step));
}

// The sums of a difference, if nothing else reads it.
std::optional<MomentSteps> RowGroupKernel::MomentsOf(size_t difference) const {
  const RowStep& from = steps_[difference];
  if (!from.member.difference().has_value() || from.scratch < 0 ||
      from.copy_to != nullptr || !from.from_scratch.empty()) {
    return std::nullopt;
  }
  MomentSteps moments = {difference};
  for (size_t i : row_sums_) {
    for (const auto& [operand, step] : steps_[i].from_scratch) {
      if (step != difference) continue;
      const RowMember& sum = steps_[i].member;
      const std::optional<int> y = sum.OtherFactor(operand);
      if (sum.sums_operand() && !moments.differences.has_value()) {
        moments.differences = i;
      } else if (sum.sums_squares() && !moments.squares.has_value()) {
        moments.squares = i;
      } else if (y.has_value() && !moments.products.has_value()) {
        moments.products = i;
        moments.y = *y;
      } else {
        return std::nullopt;
      }
    }
  }
  for (size_t i = difference + 1; i < steps_.size(); ++i) {
    for (const auto& [operand, step] : steps_[i].from_scratch) {
      if (step == difference && !moments.Has(i)) return std::nullopt;
    }
  }
  if (moments.products.has_value()) {
    for (size_t i : row_sums_) {
      if (moments.Has(i) || !steps_[i].member.sums_operand()) continue;
      if (steps_[i].operands[0] ==
          steps_[*moments.products].operands[moments.y]) {
        moments.weights = i;
      }
    }
  }
  if (!moments.is_complete()) return std::nullopt;
  return moments;
}

// Computes the sums of a batch norm and of its gradient in one loop.
void RowGroupKernel::FindMoments() {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const std::optional<MomentSteps> moments = MomentsOf(i);
    if (!moments.has_value()) continue;
    size_t last = i;
    for (size_t j = i; j < steps_.size(); ++j) {
      if (moments->Has(j)) last = j;
    }
    // A result in memory may take that of x, which the loop reads late.
    const auto writes_memory = [&](const RowStep& step) {
      return step.scratch < 0;
    };
    if (std::any_of(steps_.begin() + i, steps_.begin() + last, writes_memory)) {
      continue;
    }
    for (size_t j = 0; j <= last; ++j) {
      steps_[j].is_moment = steps_[j].is_moment || moments->Has(j);
    }
    steps_[last].moments = moments;
  }
}

RowGroupKernel::Worker::Worker(RowGroupKernel& group)
    : group_(group),
      scratch_(static_cast<std::byte*>(
          ThreadScratch(ScratchUse::kKernel, group.scratch_bytes_))) {
  const int64_t blocks =
      CeilDivide(group.tile_ * group.space_.columns, kRowBlock);
  for (const RowStep& step : group.steps_) {
    // Hardware prefetchers follow the loop of moments, which reads in order.
    if (!step.is_moment) step.member.AddTo(prefetch_, blocks);
    runners_.push_back(
        std::make_unique<RowMember::Runner>(step.member, &prefetch_));
  }
}

void RowGroupKernel::Worker::RunUnit(int64_t unit) {
  const int64_t end = std::min((unit + 1) * group_.unit_, group_.space_.rows);
  const int64_t columns = group_.space_.columns;
  int64_t added = 0;  // rows, since the last call of FlushSums
  for (size_t sum : group_.row_sums_) {
    std::byte* const sums = scratch_ + group_.steps_[sum].scratch;
    std::memset(sums, 0, columns * sizeof(float));
    runners_[sum]->MoveResult(sums);
  }
  for (int64_t row = unit * group_.unit_; row < end;) {
    const int64_t rows =
        std::min({group_.tile_, end - row, kRowsInFloat - added});
    const int64_t next = std::min(row + rows, group_.space_.rows);
    const int64_t next_rows = std::min(group_.tile_, group_.space_.rows - next);
    prefetch_.Start(next * columns, next_rows * columns);
    RunTile(row, rows);
    row += rows;
    added += rows;
    if (added == kRowsInFloat) {
      FlushSums(unit);
      added = 0;
    }
  }
  FlushSums(unit);
}

// Points a step's values in scratch memory to the rows from `first` on.
void RowGroupKernel::Worker::MoveToScratch(size_t step, int64_t first) {
  const std::vector<RowStep>& steps = group_.steps_;
  // The address that row 0 would have, because elements are numbered from it.
  const auto address = [&](const RowStep& from) {
    return reinterpret_cast<void*>(
        reinterpret_cast<uintptr_t>(scratch_ + from.scratch) -
        static_cast<uintptr_t>(first * from.row_bytes()));
  };
  RowMember::Runner& runner = *runners_[step];
  for (const auto& [operand, from] : steps[step].from_scratch) {
    runner.evaluator().MoveOperand(operand, address(steps[from]));
  }
  if (steps[step].reads_constants) runner.evaluator().ReadConstants();
  if (steps[step].scratch >= 0 && steps[step].row_bytes() > 0) {
    runner.MoveResult(address(steps[step]));
  }
}

void RowGroupKernel::Worker::RunTile(int64_t first, int64_t rows) {
  const std::vector<RowStep>& steps = group_.steps_;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].moments.has_value()) {
      RunMoments(*steps[i].moments, first, rows);
    }
    if (steps[i].is_moment) continue;
    MoveToScratch(i, first);
    runners_[i]->Run(first, rows);
  }
  for (const RowStep& step : steps) {
    if (step.copy_to == nullptr) continue;
    std::memcpy(
        static_cast<std::byte*>(step.copy_to) + first * step.row_bytes(),
        scratch_ + step.scratch, rows * step.row_bytes());
  }
}

void RowGroupKernel::Worker::RunMoments(const MomentSteps& moments,
                                        int64_t first, int64_t rows) {
  const auto sums_of = [&](std::optional<size_t> step) {
    return step.has_value() ? reinterpret_cast<float*>(
                                  scratch_ + group_.steps_[*step].scratch)
                            : nullptr;
  };
  const MomentSums sums = {sums_of(moments.differences),
                           sums_of(moments.squares), sums_of(moments.weights),
                           sums_of(moments.products)};
  const int64_t columns = group_.space_.columns;
  const auto [x, center] =
      *group_.steps_[moments.difference].member.difference();
  BlockProgram::Evaluator& evaluator =
      runners_[moments.difference]->evaluator();
  if (moments.products.has_value()) MoveToScratch(*moments.products, first);
  const int64_t rows_at_once = std::max<int64_t>(1, kRowBlock / columns);
  for (int64_t row = first; row < first + rows; row += rows_at_once) {
    const int64_t count = std::min(rows_at_once, first + rows - row);
    const int64_t begin = row * columns;
    const float* const y =
        moments.products.has_value()
            ? runners_[*moments.products]->evaluator().OperandAt(moments.y,
                                                                 begin)
            : nullptr;
    AddRowMoments(evaluator.OperandAt(x, begin), evaluator.OperandAt(center, 0),
                  y, count, columns, sums);
  }
}

void RowGroupKernel::Worker::FlushSums(int64_t stripe) {
  const int64_t columns = group_.space_.columns;
  for (size_t i = 0; i < group_.row_sums_.size(); ++i) {
    auto* const sums = reinterpret_cast<float*>(
        scratch_ + group_.steps_[group_.row_sums_[i]].scratch);
    // Each stripe has an owner, so that threads write different elements.
    double* const partial =
        group_.partial_.data() + (i * group_.stripes() + stripe) * columns;
    for (int64_t c = 0; c < columns; ++c) partial[c] += sums[c];
    std::memset(sums, 0, columns * sizeof(float));
  }
}

void RowGroupKernel::CombineStripes() {
  const int64_t columns = space_.columns;
  for (size_t i = 0; i < row_sums_.size(); ++i) {
    const double* const from = partial_.data() + i * stripes() * columns;
    for (int64_t begin = 0; begin < columns; begin += kRowBlock) {
      const int64_t count = std::min(kRowBlock, columns - begin);
      double sums[kRowBlock];
      std::copy(from + begin, from + begin + count, sums);
      for (int64_t stripe = 1; stripe < stripes(); ++stripe) {
        for (int64_t c = 0; c < count; ++c) {
          sums[c] += from[stripe * columns + begin + c];
        }
      }
      FloatRegisters::Store(results_[i].dtype(), sums, count, results_[i].data,
                            begin, 1);
    }
  }
}

}  // namespace

std::unique_ptr<Kernel> PrepareRowGroup(absl::Span<const Binding> members) {
  return std::make_unique<RowGroupKernel>(members);
}

}  // namespace mtf::cpu
