// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/overlap_collectives.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "lowering/passes/plan_buffers.h"
#include "lowering/passes/write_overlap.h"
#include "lowering/program/derived_from_parameters.h"
#include "lowering/program/is_no_op.h"

namespace mtf {
namespace {

// The maximum number of collectives in flight that keep their operands alive.
constexpr size_t kMaxHoldingOperands = 2;

// Divides a program into segments that a device may run as one kernel. Position
// k is directly before instruction k, and the number of instructions is the
// end. Views, and instructions that move with a gather, belong to no segment.
class KernelSegments {
 public:
  // All arguments must outlive this object.
  KernelSegments(const Program& program, const std::vector<int>& producer,
                 const std::vector<bool>& is_view,
                 const std::vector<bool>& moves_with_gather)
      : program_(program),
        producer_(producer),
        is_view_(is_view),
        moves_with_gather_(moves_with_gather),
        count_(static_cast<int>(program.instructions.size())),
        begin_(count_ + 1),
        next_(count_ + 1, count_),
        kernels_before_(count_ + 1, 0) {
    FindSegments();
  }

  // By position: the begin of its segment, that of the next segment, and the
  // number of kernels before it.
  int begin(int position) const { return begin_[position]; }
  int next(int position) const { return next_[position]; }
  int kernels_before(int position) const { return kernels_before_[position]; }

  // The first instruction that runs as a kernel; there must be one.
  int FirstKernel() const {
    return static_cast<int>(
        std::find(kernels_before_.begin(), kernels_before_.end(), 1) -
        kernels_before_.begin() - 1);
  }

  // The producer of `value`; views do not count, because they run no kernel.
  int ProducerOf(int value) const {
    int producer = producer_[value];
    while (is_view_[producer])
      producer = producer_[instruction(producer).operands[0]];
    return producer;
  }

 private:
  const Instruction& instruction(int i) const {
    return program_.instructions[i];
  }

  // Whether instruction i runs at its own position: it is not a view, does not
  // move with a gather, and its result does not exist before the step.
  bool IsScheduled(int i) const {
    return !is_view_[i] && !moves_with_gather_[i] &&
           !ExistsBeforeStep(instruction(i).opcode);
  }

  void FindSegments() {
    // Elementwise instructions join the segment of the instruction scheduled
    // before them, if they read from it.
    int before = -1;  // the last scheduled instruction
    for (int i = 0; i < count_; ++i) {
      begin_[i] = i;
      kernels_before_[i + 1] = kernels_before_[i];
      const Opcode opcode = instruction(i).opcode;
      if (!IsScheduled(i)) continue;
      if (!Communicates(instruction(i).opcode) && opcode != Opcode::kOutput) {
        ++kernels_before_[i + 1];
      }
      if (IsLoopFusible(opcode) && before >= 0 &&
          (IsLoopFusible(instruction(before).opcode) ||
           instruction(before).opcode == Opcode::kEinsum)) {
        for (int operand : instruction(i).operands) {
          const int producer = ProducerOf(operand);
          if (producer >= begin_[before] && IsScheduled(producer)) {
            begin_[i] = begin_[before];
          }
        }
      }
      before = i;
    }
    begin_[count_] = count_;
    for (int i = count_; i-- > 0;) {
      next_[i] = i + 1 == count_ ? count_ : next_[i + 1];
      const int after = i + 1;
      if (after < count_ && begin_[after] == after && IsScheduled(after)) {
        next_[i] = after;
      }
    }
  }

  const Program& program_;
  const std::vector<int>& producer_;
  const std::vector<bool>&is_view_, &moves_with_gather_;
  const int count_;
  std::vector<int> begin_, next_, kernels_before_;
};

// Decides where collectives start and where they are waited for. Positions are
// those of the program before the pass: position k is directly before
// instruction k, and `count_` is the end.
class CollectiveScheduler {
 public:
  explicit CollectiveScheduler(Program& program)
      : program_(program),
        count_(static_cast<int>(program.instructions.size())),
        producer_(program.values.size(), -1),
        collective_of_(program.values.size(), -1),
        first_reader_(program.values.size(), count_),
        last_reader_(program.values.size(), -1),
        is_view_(count_, false),
        moves_with_gather_(count_, false) {}

  void Run() {
    FindCollectives();
    if (collectives_.empty()) return;
    FindReaders();
    FindGathersOfParameters();
    segments_.emplace(program_, producer_, is_view_, moves_with_gather_);
    if (segments_->kernels_before(count_) == 0) return;
    ScheduleGathers();
    ScheduleOthers();
    BoundHeldOperands();
    const bool overlaps = std::any_of(
        collectives_.begin(), collectives_.end(),
        [](const Collective& collective) { return collective.asynchronous; });
    if (!overlaps) return;
    WriteOverlap(collectives_, producer_, is_view_, moves_with_gather_,
                 program_);
  }

 private:
  using Collective = OverlappedCollective;

  const Instruction& instruction(int i) const {
    return program_.instructions[i];
  }

  void FindCollectives() {
    for (int i = 0; i < count_; ++i) {
      if (!Communicates(instruction(i).opcode)) continue;
      for (int result : instruction(i).results) {
        collective_of_[result] = static_cast<int>(collectives_.size());
      }
      Collective collective;
      collective.instruction = i;
      collective.first_result = instruction(i).results[0];
      collective.origin = instruction(i).origin;
      collectives_.push_back(std::move(collective));
    }
  }

  // Finds the producer, the first and the last reader of each value. Reading a
  // view of a collective's result counts as a read of the result when the view
  // itself is read, and a value that is written to a variable is needed at the
  // end of the program.
  void FindReaders() {
    for (int i = 0; i < count_; ++i) {
      const Instruction& each = instruction(i);
      for (int result : each.results) producer_[result] = i;
      is_view_[i] = IsView(program_, each);
      if (!is_view_[i]) continue;
      const int collective = collective_of_[each.operands[0]];
      if (collective < 0) continue;
      collective_of_[each.results[0]] = collective;
      collectives_[collective].views.push_back(i);
    }
    for (int i = count_; i-- > 0;) {
      for (int operand : instruction(i).operands) {
        int first = i, last = i;
        if (is_view_[i] && operand == instruction(i).operands[0]) {
          first = first_reader_[instruction(i).results[0]];
          last = std::max(last, last_reader_[instruction(i).results[0]]);
        }
        first_reader_[operand] = std::min(first_reader_[operand], first);
        last_reader_[operand] = std::max(last_reader_[operand], last);
      }
    }
  }

  // The first instruction that reads a result of the collective.
  int ReaderOf(const Collective& collective) const {
    int reader = count_;
    for (int result : instruction(collective.instruction).results) {
      reader = std::min(reader, first_reader_[result]);
    }
    return reader;
  }

  // Finds the all_gathers of values derived from variables. The instructions
  // that lead from the variable to the gather move with it.
  void FindGathersOfParameters() {
    const std::vector<bool> derived_from_variable =
        FindDerivedFromVariables(program_);
    for (Collective& collective : collectives_) {
      const Instruction& gather = instruction(collective.instruction);
      collective.gathers_parameter =
          gather.opcode == Opcode::kAllGather &&
          derived_from_variable[producer_[gather.operands[0]]] &&
          ReaderOf(collective) < count_;
    }
    // A gather whose result is gathered again moves with the second gather and
    // needs no wait of its own.
    for (size_t c = collectives_.size(); c-- > 0;) {
      Collective& collective = collectives_[c];
      if (!collective.gathers_parameter) continue;
      if (moves_with_gather_[collective.instruction]) {
        collective.gathers_parameter = false;
        continue;
      }
      MoveWithGather(collective.instruction);
    }
  }
  void MoveWithGather(int i) {
    moves_with_gather_[i] = true;
    for (int operand : instruction(i).operands) {
      if (!moves_with_gather_[producer_[operand]])
        MoveWithGather(producer_[operand]);
    }
  }

  int64_t ResultBytes(const Collective& collective) const {
    int64_t bytes = 0;
    for (int result : instruction(collective.instruction).results) {
      bytes += program_.values[result].local_bytes();
    }
    return bytes;
  }

  // Gathers of parameters that have the same first reader.
  struct GatherBatch {
    int wait = -1;
    int64_t bytes = 0;
    std::vector<int> gathers;
  };

  // Starts each batch of gathers as early as the memory limit allows: at the
  // first kernel, or where an earlier batch is waited for.
  void ScheduleGathers() {
    std::vector<GatherBatch> batches = GatherBatches();
    const int64_t limit = PeakGatheredBytes(batches);
    const int first = segments_->FirstKernel();
    int64_t ahead = 0;  // gathered and not used yet
    size_t oldest = 0;  // of the batches that are ahead at the same time
    for (size_t b = 0; b < batches.size(); ++b) {
      ahead += batches[b].bytes;
      while (ahead > limit) ahead -= batches[oldest++].bytes;
      const int start = oldest == 0
                            ? std::min(segments_->begin(first), batches[b].wait)
                            : batches[oldest - 1].wait;
      for (int c : batches[b].gathers) Schedule(c, start, batches[b].wait);
    }
  }

  std::vector<GatherBatch> GatherBatches() const {
    std::vector<std::pair<int, int>> gathers;  // wait, collective
    for (size_t c = 0; c < collectives_.size(); ++c) {
      if (!collectives_[c].gathers_parameter) continue;
      gathers.emplace_back(segments_->begin(ReaderOf(collectives_[c])),
                           static_cast<int>(c));
    }
    std::sort(gathers.begin(), gathers.end());
    std::vector<GatherBatch> batches;
    for (const auto& [wait, c] : gathers) {
      if (batches.empty() || batches.back().wait != wait) {
        batches.emplace_back();
        batches.back().wait = wait;
      }
      batches.back().gathers.push_back(c);
      batches.back().bytes += ResultBytes(collectives_[c]);
    }
    return batches;
  }

  // The peak of the bytes of gathered parameters before this pass, or the bytes
  // that one kernel reads if that is more.
  int64_t PeakGatheredBytes(const std::vector<GatherBatch>& batches) const {
    std::vector<int64_t> change(count_ + 2, 0);
    int64_t peak = 0, now = 0;
    for (const GatherBatch& batch : batches) {
      peak = std::max(peak, batch.bytes);
      for (int c : batch.gathers) {
        const int gather = collectives_[c].instruction;
        const int64_t bytes = ResultBytes(collectives_[c]);
        change[gather] += bytes;
        change[last_reader_[instruction(gather).results[0]] + 1] -= bytes;
      }
    }
    for (int64_t bytes : change) peak = std::max(peak, now += bytes);
    return peak;
  }

  void ScheduleOthers() {
    for (size_t c = 0; c < collectives_.size(); ++c) {
      const Collective& collective = collectives_[c];
      // Moved already, with another gather.
      if (moves_with_gather_[collective.instruction]) continue;
      Schedule(static_cast<int>(c), EarliestStart(collective),
               segments_->begin(ReaderOf(collective)));
    }
  }

  // The position after the kernels that produce the operands.
  int EarliestStart(const Collective& collective) const {
    if (instruction(collective.instruction).opcode == Opcode::kAllGather) {
      return collective.instruction;
    }
    int start = 0;
    for (int operand : instruction(collective.instruction).operands) {
      // Collectives stay in program order.
      if (collective_of_[operand] >= 0) return collective.instruction;
      start = std::max(start, segments_->next(segments_->ProducerOf(operand)));
    }
    return std::min(start, collective.instruction);
  }

  // Records start and wait of a collective; it is asynchronous if a kernel runs
  // in between.
  void Schedule(int c, int start, int wait) {
    Collective& collective = collectives_[c];
    collective.asynchronous =
        segments_->kernels_before(wait) > segments_->kernels_before(start);
    collective.waits_before_starts =
        wait < count_ && Communicates(instruction(wait).opcode);
    // A synchronous collective keeps its position, except that a gather of a
    // parameter moves before the segment that it would interrupt.
    if (collective.asynchronous) {
      collective.start = start;
      collective.wait = wait;
    } else {
      collective.start = collective.gathers_parameter
                             ? std::min(wait, collective.instruction)
                             : collective.instruction;
    }
  }

  // Moves waits forward until at most kMaxHoldingOperands collectives that keep
  // their operands alive are in flight.
  void BoundHeldOperands() {
    std::vector<int> holding;
    for (size_t c = 0; c < collectives_.size(); ++c) {
      const Collective& collective = collectives_[c];
      if (collective.asynchronous && !collective.gathers_parameter &&
          instruction(collective.instruction).opcode != Opcode::kAllReduce) {
        holding.push_back(static_cast<int>(c));
      }
    }
    std::sort(holding.begin(), holding.end(), [this](int a, int b) {
      return StartOrder(collectives_[a]) < StartOrder(collectives_[b]);
    });
    std::deque<int> in_flight;
    for (int c : holding) {
      const int start = collectives_[c].start;
      in_flight.erase(std::remove_if(in_flight.begin(), in_flight.end(),
                                     [&](int other) {
                                       return collectives_[other].wait <= start;
                                     }),
                      in_flight.end());
      if (in_flight.size() == kMaxHoldingOperands) {
        Collective& oldest = collectives_[in_flight.front()];
        in_flight.pop_front();
        oldest.asynchronous = segments_->kernels_before(start) >
                              segments_->kernels_before(oldest.start);
        oldest.wait = start;
        oldest.waits_before_starts = true;
      }
      in_flight.push_back(c);
    }
  }
  Program& program_;
  const int count_;
  std::vector<Collective> collectives_;  // in the order of the program
  // By value.
  std::vector<int> producer_;
  std::vector<int> collective_of_;  // produces it, or the value it is a view of
  std::vector<int> first_reader_, last_reader_;
  // By instruction.
  std::vector<bool> is_view_;
  std::vector<bool> moves_with_gather_;  // to the gather of a parameter
  std::optional<KernelSegments> segments_;
};

}  // namespace

absl::Status OverlapCollectives(Program& program) {
  const bool has_waits =
      std::any_of(program.instructions.begin(), program.instructions.end(),
                  [](const Instruction& instruction) {
                    return IsAsynchronous(instruction) ||
                           instruction.opcode == Opcode::kWait;
                  });
  if (!has_waits) CollectiveScheduler(program).Run();
  return absl::OkStatus();
}

}  // namespace mtf
