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

// When collectives are done that run next to others, as the layers that are
// left out have theirs too.
class Arrivals {
 public:
  Arrivals(const Program& program, const LayerPeriodicity& periodicity,
           const FewLayers& few)
      : twin_(program.instructions.size(), -1),
        latest_(program.instructions.size(), 0) {
    // The same collectives of several repeats are twins.
    absl::flat_hash_map<std::pair<int, int>, int> seen, twins;
    for (size_t i = 0; i < twin_.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      if (!IsAsynchronous(instruction)) continue;
      const LayerPosition& place =
          periodicity.PositionOf(instruction.results[0]);
      if (place.run < 0) continue;
      const int id = periodicity.Id(place);
      const int nth = seen[{id, place.repeat}]++;
      const auto [twin, is_new] =
          twins.try_emplace({id, nth}, static_cast<int>(done_.size()));
      if (is_new) {
        done_.emplace_back(few.kept[place.run] + few.left_out[place.run], -1.0);
      }
      twin_[i] = twin->second;
    }
  }

  // Instruction `i` has been started for this repeat of all; see Replay.
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
    if (twin_[i] < 0) return nullptr;
    std::vector<double>& done = done_[twin_[i]];
    if (repeat < 0 || repeat >= static_cast<int>(done.size())) return nullptr;
    return &done[repeat];
  }

  std::vector<int> twin_;                  // by instruction: place in done_
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
        arrivals_(program, periodicity, few),
        behind_(few.kept.size(), 0),
        until_(few.kept.size(), 0) {
    cost_.wire_bytes.assign(program.instructions.size(), 0);
  }

  // Nothing where something was taken in memory and is not left.
  std::optional<DeepCost> Run() && {
    Walk();
    const int count = static_cast<int>(program_.instructions.size());
    for (int i = count; i < count + 2; ++i) ChangeMemory(i);
    if (std::abs(Sum(alive_)) > periodicity_.Peak() / 1000) return std::nullopt;
    for (int64_t bytes : cost_.wire_bytes) cost_.cost.wire_bytes += bytes;
    cost_.cost.seconds = std::max(compute_free_, links_free_);
    MemoryParts& memory = cost_.memory;
    memory.gradients = fullest_[kGradients];
    memory.copies = fullest_[kCopies];
    memory.activations = fullest_[kActivations];
    memory.unused = program_.buffers.arena_bytes - periodicity_.Peak();
    AddVariables();
    cost_.cost.memory_bytes = memory.total();
    return std::move(cost_);
  }

 private:
  void Walk() {
    const std::vector<Traversal>& traversals = periodicity_.traversals();
    // By traversal, how often its segment is still to run again.
    std::vector<int> again;
    for (const Traversal& traversal : traversals) {
      again.push_back(few_.left_out[traversal.run] / period_);
    }
    size_t next = 0;
    for (int i = 0; i < static_cast<int>(program_.instructions.size());) {
      while (next < traversals.size() && i == traversals[next].begins.front()) {
        const Traversal& traversal = traversals[next++];
        // On the way down the last repeats come first.
        behind_[traversal.run] =
            traversal.ascends ? 0 : few_.left_out[traversal.run];
        until_[traversal.run] = traversal.begins.back();
      }
      ChangeMemory(i);
      RunInstruction(i);
      const int s = periodicity_.SegmentOf(i);
      ++i;
      if (s < 0 || i != traversals[s].end || again[s] == 0) continue;
      --again[s];
      behind_[traversals[s].run] += traversals[s].ascends ? period_ : -period_;
      i = traversals[s].begin;
    }
  }
  // Which of all repeats instruction `i` is for where `at` runs. In a traversal
  // they are as far after as it says; between two traversals are the ends of
  // both.
  int RepeatOf(int i, int at) const {
    const LayerPosition& place =
        periodicity_.PositionOf(program_.instructions[i].results[0]);
    if (place.run < 0) return -1;
    if (at < until_[place.run]) return place.repeat + behind_[place.run];
    const bool is_early = 2 * place.repeat < few_.kept[place.run];
    return place.repeat + (is_early ? 0 : few_.left_out[place.run]);
  }

  void ChangeMemory(int i) {
    const bool is_repeated = periodicity_.SegmentOf(i) >= 0;
    for (int purpose = 0; purpose < kPurposes; ++purpose) {
      alive_[purpose] += periodicity_.Change(i)[purpose];
      if (!is_repeated) alive_[purpose] += periodicity_.MoreChange(i)[purpose];
    }
    if (Sum(alive_) > Sum(fullest_)) fullest_ = alive_;
  }

  // On the clock of EstimateStep.
  void RunInstruction(int i) {
    const Instruction& at = program_.instructions[i];
    if (at.opcode == Opcode::kWait && machine_.overlaps()) {
      for (int operand : at.operands) {
        const int started = producer_[operand];
        compute_free_ = std::max(compute_free_,
                                 arrivals_.Get(started, RepeatOf(started, i)));
      }
    }
    if (seconds_[i] < 0) return;
    const bool sends = Communicates(at.opcode);
    const double end =
        (sends ? std::max(compute_free_, links_free_) : compute_free_) +
        (sends ? Send(i) : seconds_[i]);
    const bool asynchronous = IsAsynchronous(at) && machine_.overlaps();
    if (!asynchronous) compute_free_ = end;
    if (sends) links_free_ = end;
    if (asynchronous) arrivals_.Set(i, RepeatOf(i, i), end);
  }
  double Send(int i) {
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
      const auto place = few_.positions.find(variable.name);
      if (place != few_.positions.end() &&
          LayerPeriodicity::Counts(place->second, period_)) {
        bytes *= 1 + few_.left_out[place->second.run] / period_;
      }
      (variable.section == RuleSection::kOptimizer
           ? cost_.memory.optimizer_state
           : cost_.memory.parameters) += bytes;
    }
  }

  const Program& program_;
  const Machine& machine_;
  const std::vector<double>& seconds_;
  const LayerPeriodicity& periodicity_;
  const FewLayers& few_;
  const int period_;
  const std::vector<int> producer_;  // by value
  Arrivals arrivals_;
  // By run: how far the repeats that run now are after those they stand for,
  // and where the traversal that runs ends.
  std::vector<int> behind_, until_;
  double compute_free_ = 0, links_free_ = 0;
  AliveBytes alive_{}, fullest_{};
  DeepCost cost_;
};

}  // namespace

DeepEstimate CostOfAllLayers(const Program& program, const Machine& machine,
                             const MachinePlan& plan, const FewLayers& few) {
  const std::vector<double> seconds =
      InstructionSeconds(program, machine, plan.attention);
  LayerPeriodicity periodicity(program, plan, few, seconds);
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
