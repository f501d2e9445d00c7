// SPDX-License-Identifier: Apache-2.0
//
// Finds the periodic segments of a program with few of its equal layers. The
// program of all layers runs them more often.
#ifndef PLANNING_COST_LAYER_PERIODICITY_H_
#define PLANNING_COST_LAYER_PERIODICITY_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "lowering/program/program.h"
#include "planning/cost/few_layers.h"
#include "planning/cost/lifetimes.h"
#include "planning/cost/repeated_layers.h"

namespace mtf::internal {

// Live bytes by purpose.
enum Purpose { kGradients, kCopies, kActivations, kPurposes };
using AliveBytes = std::array<int64_t, kPurposes>;
inline int64_t Sum(const AliveBytes& bytes) {
  return bytes[kGradients] + bytes[kCopies] + bytes[kActivations];
}

// One traversal of the layers of a run, upward or downward: by the forward
// pass, the backward pass or the update.
struct Traversal {
  int run = 0;
  bool ascends = true;
  // Index of the kernel that begins each repeat, ascending.
  std::vector<int> begins;
  // The segment of one period, equal to the one before it or after it.
  int begin = 0, end = 0;

  bool Spans(int index) const {
    return begins.front() <= index && index < begins.back();
  }
};

// Finds the period of a program that was lowered with `few` layers. `seconds`
// is InstructionSeconds. The arguments must outlive the object.
class LayerPeriodicity {
 public:
  using LayerPosition = RepeatedLayers::LayerPosition;

  LayerPeriodicity(const Program& program, const FewLayers& few,
                   const std::vector<double>& seconds);

  // Finds one segment in each traversal such that together they contain all
  // kernels, collectives, allocations and releases of one period. Returns the
  // period in repeats. Sums of all repeats may instead be in one call outside
  // of the segments, if that call stays below the bucket size with all layers.
  // Returns 0 if more layers are needed: gathers start several layers ahead, a
  // call has the sums of several layers, or an operation outside of the layers,
  // such as an update of all parameters at once, reads layers that are left
  // out.
  int FindPeriod();

  // For calls with the sums of several layers: the number of repeats after
  // which the same sums share a call again, and the least number of repeats in
  // which that can be seen. Other collectives may end a call early, so this is
  // a guess.
  struct Guess {
    int period = 1;
    int needed = 0;
  };
  Guess GuessFromCalls() const;

  // Ordered by their begin.
  const std::vector<Traversal>& traversals() const { return traversals_; }
  // The traversal whose segment contains an instruction, or -1.
  int SegmentOf(int instruction) const { return segment_[instruction]; }

  // The repeat and operation that a value belongs to; run is -1 if there is
  // none. The result of a collective belongs to the repeat that computed the
  // operand.
  const LayerPosition& PositionOf(int value) const {
    return value_positions_[value];
  }
  // The number of an operation. It is the same in all repeats of a run.
  int Id(const LayerPosition& position) const {
    return first_id_[position.run] + position.operation;
  }
  // Whether a repeat belongs to the period that represents the layers that are
  // left out.
  static bool IsInPeriod(const LayerPosition& position, int period) {
    return position.repeat >= 1 && position.repeat <= period;
  }

  // Bytes of the operands of a collective, and the bytes that left out layers
  // add to them if the collective is outside of all segments.
  int64_t OperandBytes(int instruction) const {
    return operand_bytes_[instruction];
  }
  int64_t MoreBytes(int instruction) const { return more_bytes_[instruction]; }
  // The change of live bytes before an instruction, and what left out layers
  // add to it outside of all segments. There are two more entries than
  // instructions.
  const AliveBytes& Change(int index) const { return change_[index]; }
  const AliveBytes& MoreChange(int index) const { return more_change_[index]; }
  // The most bytes that are live at once in this program.
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
  void FindMemory();
  void FindTraversals();
  void AddTraversal(int run, std::vector<int> begins);
  bool AreEqual(int a, int b) const;
  bool FindSegments(int period);
  bool SegmentsHaveAllCompute(int period) const;
  bool SegmentsHaveAllTransfers(int period);
  bool SegmentsHaveAllMemory(int period);
  void VisitTransfers(
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
  std::vector<LayerPosition> value_positions_;
  std::vector<Purpose> purposes_;
};

}  // namespace mtf::internal

#endif  // PLANNING_COST_LAYER_PERIODICITY_H_
