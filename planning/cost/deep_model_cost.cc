// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/deep_model_cost.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "layouts/shard.h"
#include "lowering/program/readers.h"
#include "planning/cost/estimate_time.h"

namespace mtf::internal {
namespace {

using LayerPosition = RepeatedLayers::LayerPosition;

// The times at which asynchronous collectives are done, for all repeats
// including those that are left out.
class CollectiveEndTimes {
 public:
  CollectiveEndTimes(const Program& program,
                     const LayerPeriodicity& periodicity, const FewLayers& few)
      : twin_of_(program.instructions.size(), -1),
        latest_(program.instructions.size(), 0) {
    // The same collectives of several repeats are twins.
    absl::flat_hash_map<std::pair<int, int>, int> seen, twins;
    for (size_t i = 0; i < twin_of_.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      if (!IsAsynchronous(instruction)) continue;
      const LayerPosition& position =
          periodicity.PositionOf(instruction.results[0]);
      if (position.run < 0) continue;
      const int id = periodicity.Id(position);
      const int nth = seen[{id, position.repeat}]++;
      const auto [twin, is_new] =
          twins.try_emplace({id, nth}, static_cast<int>(done_.size()));
      if (is_new) {
        done_.emplace_back(few.kept[position.run] + few.left_out[position.run],
                           -1.0);
      }
      twin_of_[i] = twin->second;
    }
  }

  // Instruction `i` of this repeat (of all repeats, see Replay) is done at
  // `seconds`.
  void Set(int i, int repeat, double seconds) {
    latest_[i] = seconds;
    if (double* done = Find(i, repeat)) *done = seconds;
  }
  double Get(int i, int repeat) {
    const double* done = Find(i, repeat);
    return done != nullptr && *done >= 0 ? *done : latest_[i];
  }

 private:
  double* Find(int i, int repeat) {
    if (twin_of_[i] < 0) return nullptr;
    std::vector<double>& done = done_[twin_of_[i]];
    if (repeat < 0 || repeat >= static_cast<int>(done.size())) return nullptr;
    return &done[repeat];
  }

  std::vector<int> twin_of_;               // by instruction: index in done_
  std::vector<double> latest_;             // by instruction
  std::vector<std::vector<double>> done_;  // by twin and repeat
};

class Replay {
 public:
  Replay(const Program& program, const Machine& machine,
         const std::vector<double>& seconds,
         const LayerPeriodicity& periodicity, const FewLayers& few, int period)
      : program_(program),
        machine_(machine),
        seconds_(seconds),
        periodicity_(periodicity),
        few_(few),
        period_(period),
        producer_(FindProducers(program)),
        end_times_(program, periodicity, few),
        repeat_offset_(few.kept.size(), 0),
        traversal_end_(few.kept.size(), 0) {
    cost_.wire_bytes.assign(program.instructions.size(), 0);
  }

  // Returns nullopt if memory is allocated but not released.
  std::optional<DeepCost> Run() && {
    Walk();
    const int count = static_cast<int>(program_.instructions.size());
    for (int i = count; i < count + 2; ++i) ChangeMemory(i);
    if (std::abs(Sum(live_bytes_)) > periodicity_.Peak() / 1000) {
      return std::nullopt;
    }
    for (int64_t bytes : cost_.wire_bytes) cost_.cost.wire_bytes += bytes;
    cost_.cost.seconds = std::max(compute_free_, links_free_);
    MemoryParts& memory = cost_.memory;
    memory.gradients = peak_bytes_[kGradients];
    memory.copies = peak_bytes_[kCopies];
    memory.activations = peak_bytes_[kActivations];
    memory.unused = program_.buffers.arena_bytes - periodicity_.Peak();
    AddVariables();
    cost_.cost.memory_bytes = memory.total();
    return std::move(cost_);
  }

 private:
  void Walk() {
    const std::vector<Traversal>& traversals = periodicity_.traversals();
    // By traversal: how many more times its segment runs.
    std::vector<int> runs_left;
    for (const Traversal& traversal : traversals) {
      runs_left.push_back(few_.left_out[traversal.run] / period_);
    }
    size_t next = 0;
    for (int i = 0; i < static_cast<int>(program_.instructions.size());) {
      while (next < traversals.size() && i == traversals[next].begins.front()) {
        const Traversal& traversal = traversals[next++];
        // A descending traversal begins with the last repeats.
        repeat_offset_[traversal.run] =
            traversal.ascends ? 0 : few_.left_out[traversal.run];
        traversal_end_[traversal.run] = traversal.begins.back();
      }
      ChangeMemory(i);
      RunInstruction(i);
      const int s = periodicity_.SegmentOf(i);
      ++i;
      if (s < 0 || i != traversals[s].end || runs_left[s] == 0) continue;
      --runs_left[s];
      repeat_offset_[traversals[s].run] +=
          traversals[s].ascends ? period_ : -period_;
      i = traversals[s].begin;
    }
  }
  // The repeat, among all repeats, that instruction `i` belongs to while
  // instruction `at` runs. Inside of a traversal it is offset by the repeats
  // that ran in place of left out ones. Between two traversals the first
  // repeats of the program stand for the first, and the last for the last.
  int RepeatOf(int i, int at) const {
    const LayerPosition& position =
        periodicity_.PositionOf(program_.instructions[i].results[0]);
    if (position.run < 0) return -1;
    if (at < traversal_end_[position.run]) {
      return position.repeat + repeat_offset_[position.run];
    }
    const bool is_early = 2 * position.repeat < few_.kept[position.run];
    return position.repeat + (is_early ? 0 : few_.left_out[position.run]);
  }

  void ChangeMemory(int i) {
    const bool is_repeated = periodicity_.SegmentOf(i) >= 0;
    for (int purpose = 0; purpose < kPurposes; ++purpose) {
      live_bytes_[purpose] += periodicity_.Change(i)[purpose];
      if (!is_repeated) {
        live_bytes_[purpose] += periodicity_.MoreChange(i)[purpose];
      }
    }
    if (Sum(live_bytes_) > Sum(peak_bytes_)) peak_bytes_ = live_bytes_;
  }

  // Advances time by the rules of EstimateStep.
  void RunInstruction(int i) {
    const Instruction& at = program_.instructions[i];
    if (at.opcode == Opcode::kWait && machine_.overlaps()) {
      for (int operand : at.operands) {
        const int started = producer_[operand];
        compute_free_ = std::max(compute_free_,
                                 end_times_.Get(started, RepeatOf(started, i)));
      }
    }
    if (seconds_[i] < 0) return;
    const bool sends = Communicates(at.opcode);
    const double end =
        (sends ? std::max(compute_free_, links_free_) : compute_free_) +
        (sends ? AddTransfer(i) : seconds_[i]);
    const bool asynchronous = IsAsynchronous(at) && machine_.overlaps();
    if (!asynchronous) compute_free_ = end;
    if (sends) links_free_ = end;
    if (asynchronous) end_times_.Set(i, RepeatOf(i, i), end);
  }
  // Counts the bytes of a collective and returns its seconds.
  double AddTransfer(int i) {
    const Instruction& at = program_.instructions[i];
    const CollectiveKind kind = CollectiveOf(at.opcode);
    const AxisList& axes = at.Get<CollectiveAttributes>().axes;
    const int64_t more = periodicity_.MoreBytes(i);
    const int64_t bytes = periodicity_.OperandBytes(i) + more;
    cost_.wire_bytes[i] += WireBytes(kind, program_.mesh.SizeOf(axes), bytes);
    return more == 0
               ? seconds_[i]
               : machine_.CollectiveSeconds(kind, program_.mesh, axes, bytes);
  }

  void AddVariables() {
    for (const ProgramVariable& variable : program_.variables) {
      int64_t bytes =
          LocalElements(program_.grains, variable.shape, variable.layout) *
          DTypeSize(variable.dtype);
      const auto position = few_.positions.find(variable.name);
      if (position != few_.positions.end() &&
          LayerPeriodicity::IsInPeriod(position->second, period_)) {
        bytes *= 1 + few_.left_out[position->second.run] / period_;
      }
      PartOf(variable, cost_.memory) += bytes;
    }
  }

  const Program& program_;
  const Machine& machine_;
  const std::vector<double>& seconds_;
  const LayerPeriodicity& periodicity_;
  const FewLayers& few_;
  const int period_;
  const std::vector<int> producer_;  // by value
  CollectiveEndTimes end_times_;
  // By run: what to add to the repeat of an instruction to get its index among
  // all repeats, and the instruction at which the current traversal ends.
  std::vector<int> repeat_offset_, traversal_end_;
  double compute_free_ = 0, links_free_ = 0;
  AliveBytes live_bytes_{}, peak_bytes_{};
  DeepCost cost_;
};

}  // namespace

DeepEstimate CostOfAllLayers(const Program& program, const Machine& machine,
                             const FewLayers& few) {
  const std::vector<double> seconds = InstructionSeconds(program, machine);
  LayerPeriodicity periodicity(program, few, seconds);
  DeepEstimate estimate;
  estimate.period = periodicity.FindPeriod();
  if (estimate.period == 0) {
    estimate.guess = periodicity.GuessFromCalls();
    return estimate;
  }
  for (int left_out : few.left_out) {
    if (left_out % estimate.period != 0) return estimate;
  }
  estimate.cost =
      Replay(program, machine, seconds, periodicity, few, estimate.period)
          .Run();
  if (!estimate.cost) estimate.period = 0;
  return estimate;
}

}  // namespace mtf::internal
