// SPDX-License-Identifier: Apache-2.0
//
// Where the program of a few equal layers repeats itself, so that the program
// of many layers runs the same more often.
#ifndef PLANNING_COST_LAYER_PERIODICITY_H_
#define PLANNING_COST_LAYER_PERIODICITY_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "lowering/passes/plan_for_machine.h"
#include "lowering/program/program.h"
#include "planning/cost/few_layers.h"
#include "planning/cost/lifetimes.h"
#include "planning/cost/repeated_layers.h"

namespace mtf::internal {

// Bytes that are alive, by what they are for.
enum Purpose { kGradients, kCopies, kActivations, kPurposes };
using AliveBytes = std::array<int64_t, kPurposes>;
inline int64_t Sum(const AliveBytes& bytes) {
  return bytes[kGradients] + bytes[kCopies] + bytes[kActivations];
}

// One pass over the layers of a run, from the first to the last or back, in the
// forward pass, the backward pass or the update.
struct Traversal {
  int run = 0;
  bool ascends = true;
  // Where the kernel stands that begins each repeat in it, ascending.
  std::vector<int> begins;
  // The stretch that does the same as the one in front of it or behind it.
  int begin = 0, end = 0;

  bool Spans(int place) const {
    return begins.front() <= place && place < begins.back();
  }
};

// The arguments are to outlive it. `seconds` are those of each instruction
// (InstructionSeconds).
class LayerPeriodicity {
 public:
  using LayerPosition = RepeatedLayers::LayerPosition;

  LayerPeriodicity(const Program& program, const MachinePlan& plan,
                   const FewLayers& few, const std::vector<double>& seconds);

  // Finds a stretch in each sweep such that all of them together hold what is
  // computed and sent for as many repeats as this returns, and the memory that
  // is taken and left for them; but for sums of one call of all repeats, which
  // is not full with those of all that are left out either. 0 where there are
  // none: where gathers start layers ahead, or a call joins sums of several
  // layers, it takes more of them. So it does where something outside of the
  // layers keeps what is left out, as an update does that mixes all of them.
  int FindPeriod();

  // Where calls join sums of several layers until they are full: after how many
  // repeats calls of the same sums come, and how many it takes to see that at
  // least. A guess, for what else is sent may close a call.
  struct Guess {
    int period = 1;
    int needed = 0;
  };
  Guess GuessFromCalls() const;

  // In the order of their begin.
  const std::vector<Traversal>& traversals() const { return traversals_; }
  // The sweep in whose stretch an instruction is, or -1.
  int SegmentOf(int instruction) const { return segment_[instruction]; }

  // Which repeat and operation a value is of, or a run of -1. What is sent is
  // of the repeat that made it, whoever asks for it.
  const LayerPosition& PositionOf(int value) const { return of_value_[value]; }
  // One number for an operation of any repeat of a run.
  int Id(const LayerPosition& place) const {
    return first_id_[place.run] + place.operation;
  }
  // Whether a repeat is one of those, a period of them, that what is left out
  // is counted by.
  static bool Counts(const LayerPosition& place, int period) {
    return place.repeat >= 1 && place.repeat <= period;
  }

  // The operands of what an instruction sends, and what those of the repeats
  // that are left out add to it where it stands outside of the stretches.
  int64_t OperandBytes(int instruction) const {
    return operand_bytes_[instruction];
  }
  int64_t MoreBytes(int instruction) const { return more_bytes_[instruction]; }
  // The same of what comes alive in front of an instruction, less what is not
  // needed any more. Two more places stand behind the last.
  const AliveBytes& Change(int place) const { return change_[place]; }
  const AliveBytes& MoreChange(int place) const { return more_change_[place]; }
  // The most that is alive at once in this program.
  int64_t Peak() const { return peak_; }

 private:
  const Instruction& instruction(int i) const {
    return program_.instructions[i];
  }
  bool Computes(int i) const {
    return seconds_[i] >= 0 && !Communicates(instruction(i).opcode) &&
           positions_[i].run >= 0;
  }

  void FindPositions();
  void FindMemory(const MachinePlan& plan);
  void FindTraversals();
  void AddTraversal(int run, std::vector<int> begins);
  bool Alike(int a, int b) const;
  bool FindSegments(int period);
  bool HoldAllCompute(int period) const;
  bool HoldAllSent(int period);
  bool HoldAllMemory(int period);
  void VisitSent(
      absl::FunctionRef<void(int i, int operand, const LayerPosition&)> visit)
      const;
  void VisitMemory(
      bool begins,
      absl::FunctionRef<void(const Lifetime&, const LayerPosition&, int at)>
          visit) const;

  const Program& program_;
  const FewLayers& few_;
  const std::vector<double>& seconds_;
  const int count_;
  std::vector<Traversal> traversals_;
  std::vector<int> first_id_;  // by run
  std::vector<Lifetime> lifetimes_;
  int64_t peak_ = 0;
  // By instruction.
  std::vector<LayerPosition> positions_;
  std::vector<int64_t> operand_bytes_, more_bytes_;
  std::vector<int> segment_;
  std::vector<AliveBytes> change_, more_change_;
  // By value.
  std::vector<LayerPosition> of_value_;
  std::vector<Purpose> purposes_;
};

}  // namespace mtf::internal

#endif  // PLANNING_COST_LAYER_PERIODICITY_H_
