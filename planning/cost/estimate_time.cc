// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/estimate_time.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "layouts/shard.h"
#include "lowering/passes/plan_buffers.h"
#include "lowering/program/attention_size.h"
#include "lowering/program/convolution_spec.h"
#include "lowering/program/fused_attention.h"
#include "lowering/program/is_no_op.h"
#include "lowering/program/written_bytes.h"
#include "planning/cost/fused_kernels.h"

namespace mtf {
namespace {

// Estimates how long each instruction takes on the device or the links of a
// rank.
class InstructionCosts {
 public:
  InstructionCosts(const Program& program, const Machine& machine)
      : program_(program),
        machine_(machine),
        owners_(HasUpdates(program) ? FindBufferOwners(program)
                                    : std::vector<int>()) {
    if (machine.fuses()) fused_ = FindFusedKernels(program);
    for (const FusedGroup& group : program.groups) {
      if (group.Find<ConvolutionGroup>() == nullptr) continue;
      const auto spec = FindConvolution(program, group.members);
      if (!spec.has_value()) continue;
      // The others compute values that have no memory.
      for (int member : group.members) convolutions_[member] = -1;
      convolutions_[group.members.front()] = machine_.ConvolutionSeconds(*spec);
    }
  }

  // Negative for instructions without a kernel.
  double SecondsOf(int index) const {
    const Instruction& instruction = program_.instructions[index];
    const auto convolution = convolutions_.find(index);
    if (convolution != convolutions_.end()) return convolution->second;
    if (!fused_.kernel.empty() && fused_.kernel[index] >= 0) {
      return FusedSeconds(index);
    }
    switch (instruction.opcode) {
      case Opcode::kInput:
      case Opcode::kReadVariable:
      case Opcode::kOutput:
      case Opcode::kReshard:
      case Opcode::kDepend:
      case Opcode::kWait:
        return -1;
      case Opcode::kWriteVariable: {
        const int64_t written = WrittenBytes(program_, instruction, owners_);
        return written == 0 ? -1 : CopySeconds(2 * written);
      }
      case Opcode::kCopyToDevice:
      case Opcode::kCopyToHost:
        return machine_.HostCopySeconds(ResultBytes(instruction));
      case Opcode::kReshape:
        if (IsFreeReshape(program_, instruction)) return -1;
        return CopySeconds(OperandBytes(instruction) +
                           ResultBytes(instruction));
      case Opcode::kEinsum:
        return EinsumSeconds(instruction);
      case Opcode::kAttention:
      case Opcode::kAttentionGradient:
        return AttentionSeconds(instruction);
      case Opcode::kSlice:
      case Opcode::kAllSlice:
      case Opcode::kTakeRows:
      case Opcode::kWindows:
        // Only the slice of the operand is read. Windows overlap, and are read
        // again from caches at best.
        return CopySeconds(2 * ResultBytes(instruction));
      case Opcode::kGather:
        // Only the rows that are looked up are read from the table.
        return CopySeconds(2 * ResultBytes(instruction) +
                           Bytes(instruction.operands.back()));
      case Opcode::kDynamicSlice:
        return CopySeconds(2 * ResultBytes(instruction) +
                           Bytes(instruction.operands.back()));
      case Opcode::kUpdateSlice:
        // Rows are read and written, and all of the value if it is copied.
        return CopySeconds(Bytes(instruction.operands[1]) +
                           Bytes(instruction.operands[2]) +
                           WrittenBytes(program_, instruction, owners_) +
                           (IsUpdateInPlace(program_, instruction, owners_)
                                ? 0
                                : ResultBytes(instruction)));
      case Opcode::kScatterAdd:
        // Zero the result, then read, add to and write rows.
        return CopySeconds(ResultBytes(instruction) +
                           OperandBytes(instruction) +
                           2 * Bytes(instruction.operands.front()));
      case Opcode::kMap:
      case Opcode::kReduce:
        return machine_.MapSeconds(
            OperandBytes(instruction) + ResultBytes(instruction),
            FunctionEvaluations(instruction));
      case Opcode::kConstant:
      case Opcode::kRandom:
      case Opcode::kPad:
      case Opcode::kConcat:
      case Opcode::kPlaceRows:
      case Opcode::kFoldWindows:
      case Opcode::kCheckIndex:
      case Opcode::kMask:
      case Opcode::kScan:
      case Opcode::kReduceBlocks:
      case Opcode::kTopK:
        return CopySeconds(OperandBytes(instruction) +
                           ResultBytes(instruction));
      case Opcode::kAllReduce:
      case Opcode::kAllGather:
      case Opcode::kReduceScatter:
      case Opcode::kAllToAll:
      case Opcode::kCollectivePermute:
        return CollectiveSeconds(instruction);
    }
    return -1;
  }

 private:
  // Of kernels without measured rates: the products of visible pairs of queries
  // and keys, and a pass over the operands and results.
  double AttentionSeconds(const Instruction& instruction) const {
    if (machine_.attention() == AttentionSupport::kFusedKernels) {
      return machine_.AttentionSeconds(
          AttentionProblemOf(program_, instruction));
    }
    const AttentionSize size = SizeOfAttention(program_, instruction);
    const DType dtype = program_.values[instruction.operands[0]].dtype;
    const auto memory = std::max<int64_t>(
        1,
        static_cast<int64_t>(static_cast<double>(size.memory) * size.visible));
    return size.over_d_kv * machine_.MatmulSeconds(dtype, size.batch,
                                                   size.length, memory,
                                                   size.d_kv) +
           size.over_d_v * machine_.MatmulSeconds(dtype, size.batch,
                                                  size.length, size.d_v,
                                                  memory) +
           CopySeconds(OperandBytes(instruction) + ResultBytes(instruction));
  }

  double CopySeconds(int64_t bytes) const {
    return machine_.CopySeconds(bytes);
  }

  // The time that this instruction adds to its fused kernel. The first member
  // has the latency of the launch.
  double FusedSeconds(int index) const {
    const Instruction& instruction = program_.instructions[index];
    const int64_t bytes = fused_.bytes[index];
    if (instruction.opcode == Opcode::kEinsum) {
      return std::max(EinsumSeconds(instruction), CopySeconds(bytes));
    }
    const bool launches = fused_.kernel[index] == index;
    return launches ? CopySeconds(bytes) : CopySeconds(bytes) - CopySeconds(0);
  }

  int64_t Bytes(int id) const {
    const ProgramValue& value = program_.values[id];
    if (!value.local.empty() || value.shape.rank() == 0) {
      return value.local_bytes();
    }
    return LocalElements(program_.grains, value.shape, value.layout) *
           DTypeSize(value.dtype);
  }
  // Counts an operand that occurs twice once.
  int64_t OperandBytes(const Instruction& instruction) const {
    int64_t bytes = 0;
    for (auto it = instruction.operands.begin();
         it != instruction.operands.end(); ++it) {
      if (std::find(instruction.operands.begin(), it, *it) == it) {
        bytes += Bytes(*it);
      }
    }
    return bytes;
  }
  int64_t ResultBytes(const Instruction& instruction) const {
    int64_t bytes = 0;
    for (int result : instruction.results) bytes += Bytes(result);
    return bytes;
  }

  // Evaluations of scalar functions: steps of the expression times elements. A
  // reduction without a map has the identity as its expression, which counts as
  // its addition.
  double FunctionEvaluations(const Instruction& instruction) const {
    if (!HasExpression(instruction)) return 0;
    double elements = static_cast<double>(
        program_.values[instruction.results[0]].local_elements());
    const double steps =
        static_cast<double>(ExpressionOf(instruction).steps.size());
    if (const auto* reduce = instruction.Find<ReduceAttributes>()) {
      elements = 1;
      for (int64_t extent : reduce->iteration_local) {
        elements *= static_cast<double>(extent);
      }
    }
    return elements * steps;
  }

  double EinsumSeconds(const Instruction& instruction) const {
    const EinsumPlan& plan = *instruction.Get<EinsumAttributes>().plan;
    int64_t batch = 1, runs = 1;
    for (const EinsumLoop& loop : plan.batch) batch *= loop.extent;
    for (const EinsumLoop& loop : plan.outer_k) runs *= loop.extent;
    const int x = instruction.operands.front(), y = instruction.operands.back();
    double seconds =
        static_cast<double>(runs) *
        machine_.MatmulSeconds(program_.values[x].dtype, batch, plan.m.extent,
                               plan.n.extent, plan.k.extent);
    if (plan.copy_x) seconds += CopySeconds(2 * Bytes(plan.swapped ? y : x));
    if (plan.copy_y) seconds += CopySeconds(2 * Bytes(plan.swapped ? x : y));
    if (plan.copy_z) seconds += CopySeconds(2 * ResultBytes(instruction));
    return seconds;
  }

  double CollectiveSeconds(const Instruction& instruction) const {
    const CollectiveKind kind = CollectiveOf(instruction.opcode);
    const AxisList& axes = instruction.Get<CollectiveAttributes>().axes;
    int64_t bytes = 0;
    for (int operand : instruction.operands) bytes += Bytes(operand);
    if (kind == CollectiveKind::kAllGather) {
      bytes *= program_.mesh.SizeOf(axes);
    }
    return machine_.CollectiveSeconds(kind, program_.mesh, axes, bytes);
  }

  const Program& program_;
  const Machine& machine_;
  const std::vector<int> owners_;  // by value (FindBufferOwners)
  FusedKernels fused_;             // empty if the machine does not fuse
  // By instruction of a convolution: the seconds of all of it at the first
  // member, where it runs, and -1 at the others.
  std::map<int, double> convolutions_;
};

// Sets `exposed` of the collectives and the step. Kernels do not overlap each
// other, nor do collectives, so both are sorted by time and one sweep over them
// finds the overlaps.
void SetExposed(StepEstimate& step) {
  std::vector<const TimedInstruction*> kernels;
  for (const TimedInstruction& timed : step.timeline) {
    if (!timed.is_collective) kernels.push_back(&timed);
  }
  size_t first = 0;
  for (TimedInstruction& timed : step.timeline) {
    if (!timed.is_collective) continue;
    double hidden = 0;
    while (first < kernels.size() && kernels[first]->end <= timed.begin) {
      ++first;
    }
    for (size_t i = first; i < kernels.size() && kernels[i]->begin < timed.end;
         ++i) {
      hidden += std::min(kernels[i]->end, timed.end) -
                std::max(kernels[i]->begin, timed.begin);
    }
    timed.exposed = std::max(0.0, timed.end - timed.begin - hidden);
    step.exposed += timed.exposed;
  }
}

}  // namespace

std::vector<double> InstructionSeconds(const Program& program,
                                       const Machine& machine) {
  const InstructionCosts costs(program, machine);
  std::vector<double> seconds(program.instructions.size());
  for (size_t i = 0; i < seconds.size(); ++i) {
    seconds[i] = costs.SecondsOf(static_cast<int>(i));
  }
  return seconds;
}

StepEstimate EstimateStep(const Program& program, const Machine& machine) {
  StepEstimate step;
  const std::vector<double> instruction_seconds =
      InstructionSeconds(program, machine);
  // By value: when the asynchronous collective that computes it is done.
  std::vector<double> ready(program.values.size(), 0);
  double compute_free = 0, links_free = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.opcode == Opcode::kWait && machine.overlaps()) {
      for (int operand : instruction.operands) {
        compute_free = std::max(compute_free, ready[operand]);
      }
    }
    const double seconds = instruction_seconds[i];
    if (seconds < 0) continue;
    TimedInstruction timed;
    timed.instruction = static_cast<int>(i);
    timed.is_collective = Communicates(instruction.opcode);
    // Collectives run one after another, each after the compute before it.
    // Synchronous ones block the compute after them.
    timed.begin =
        timed.is_collective ? std::max(compute_free, links_free) : compute_free;
    timed.end = timed.begin + seconds;
    const bool overlaps = IsAsynchronous(instruction) && machine.overlaps();
    if (!overlaps) compute_free = timed.end;
    if (timed.is_collective) links_free = timed.end;
    if (overlaps) ready[instruction.results[0]] = timed.end;
    timed.is_host_copy = CopiesToOrFromHost(instruction.opcode);
    (timed.is_collective  ? step.collectives
     : timed.is_host_copy ? step.host_copies
                          : step.compute) += seconds;
    step.timeline.push_back(timed);
  }
  step.seconds = std::max(compute_free, links_free);
  SetExposed(step);
  return step;
}

}  // namespace mtf
