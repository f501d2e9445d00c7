// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/overlap_collectives.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "lowering/fusion/find_attention.h"
#include "lowering/passes/plan_buffers.h"
#include "lowering/passes/write_overlap.h"
#include "lowering/program/derived_from_parameters.h"
#include "lowering/program/is_no_op.h"

namespace mtf {
namespace {

// Collectives that hold their operands and are under way at once.
constexpr size_t kMostHolding = 2;

// Places are those of the program before the pass; "at place k" is in front of
// instruction k, and the place behind the last instruction is their number.
class Overlapper {
 public:
  explicit Overlapper(Program& program)
      : program_(program),
        count_(static_cast<int>(program.instructions.size())),
        producer_(program.values.size(), -1),
        collective_of_(program.values.size(), -1),
        reader_(program.values.size(), count_),
        last_reader_(program.values.size(), -1),
        is_view_(count_, false),
        moves_up_(count_, false) {}

  void Run() {
    FindCollectives();
    if (collectives_.empty()) return;
    FindReaders();
    FindGathersOfParameters();
    FindFusible();
    if (kernels_[count_] == 0) return;
    PlaceGathers();
    PlaceOthers();
    BoundHeldOperands();
    for (const Collective& collective : collectives_) {
      if (collective.asynchronous) {
        return WriteOverlap(collectives_, producer_, is_view_, moves_up_,
                            program_);
      }
    }
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
      collective.at = i;
      collective.first_result = instruction(i).results[0];
      collective.origin = instruction(i).origin;
      collectives_.push_back(std::move(collective));
    }
  }

  // Who makes each value and who reads it first and last. A view of what a
  // collective makes is its reader only where it is read itself, and a value
  // that is written to a variable in the end is needed in the end.
  void FindReaders() {
    for (int i = 0; i < count_; ++i) {
      const Instruction& made = instruction(i);
      for (int result : made.results) producer_[result] = i;
      is_view_[i] = IsView(program_, made);
      if (!is_view_[i]) continue;
      const int collective = collective_of_[made.operands[0]];
      if (collective < 0) continue;
      collective_of_[made.results[0]] = collective;
      collectives_[collective].views.push_back(i);
    }
    for (int i = count_; i-- > 0;) {
      for (int operand : instruction(i).operands) {
        int first = i, last = i;
        if (is_view_[i]) {
          first = reader_[instruction(i).results[0]];
          last = std::max(last, last_reader_[instruction(i).results[0]]);
        }
        reader_[operand] = std::min(reader_[operand], first);
        last_reader_[operand] = std::max(last_reader_[operand], last);
      }
    }
  }

  // The first place where a result of a collective is read.
  int ReaderOf(const Collective& collective) const {
    int reader = count_;
    for (int result : instruction(collective.at).results) {
      reader = std::min(reader, reader_[result]);
    }
    return reader;
  }

  // What comes from a variable is made with its gather, wherever that goes.
  void FindGathersOfParameters() {
    const std::vector<bool> of_variable = FindDerivedFromVariables(program_);
    for (Collective& collective : collectives_) {
      const Instruction& gather = instruction(collective.at);
      collective.gathers_parameter =
          gather.opcode == Opcode::kAllGather &&
          of_variable[producer_[gather.operands[0]]] &&
          ReaderOf(collective) < count_;
    }
    // A gather of what is gathered goes with it and is not waited for.
    for (size_t c = collectives_.size(); c-- > 0;) {
      Collective& collective = collectives_[c];
      if (!collective.gathers_parameter) continue;
      if (moves_up_[collective.at]) {
        collective.gathers_parameter = false;
        continue;
      }
      MoveUp(collective.at);
    }
  }
  void MoveUp(int i) {
    moves_up_[i] = true;
    for (int operand : instruction(i).operands) {
      if (!moves_up_[producer_[operand]]) MoveUp(producer_[operand]);
    }
  }

  // Where a kernel begins that instruction i may be a part of, and where the
  // next begins; how many instructions compute before each place.
  void FindFusible() {
    begin_.resize(count_ + 1);
    before_run_.resize(count_, -1);
    next_.resize(count_ + 1, count_);
    kernels_.resize(count_ + 1, 0);
    int before = -1;  // the instruction that runs before
    for (int i = 0; i < count_; ++i) {
      begin_[i] = i;
      kernels_[i + 1] = kernels_[i];
      const Opcode opcode = instruction(i).opcode;
      if (!RunsInPlace(i)) continue;
      if (!Communicates(instruction(i).opcode) && opcode != Opcode::kOutput) {
        ++kernels_[i + 1];
      }
      if (IsLoopFusible(opcode) && before >= 0 &&
          (IsLoopFusible(instruction(before).opcode) ||
           instruction(before).opcode == Opcode::kEinsum)) {
        for (int operand : instruction(i).operands) {
          const int maker = MakerOf(operand);
          if (maker >= begin_[before] && RunsInPlace(maker)) {
            begin_[i] = begin_[before];
          }
        }
      }
      before_run_[i] = before;
      before = i;
    }
    begin_[count_] = count_;
    FindFusedAttention();
    for (int i = count_; i-- > 0;) {
      next_[i] = i + 1 == count_ ? count_ : next_[i + 1];
      const int behind = i + 1;
      if (behind < count_ && begin_[behind] == behind && RunsInPlace(behind)) {
        next_[i] = behind;
      }
    }
  }
  // Attention is one kernel where a device has it, whatever stands in it.
  void FindFusedAttention() {
    for (const AttentionGroup& group : FindAttention(program_)) {
      for (const std::vector<int>* members :
           {&group.forward, &group.backward}) {
        for (int member : *members) begin_[member] = begin_[members->front()];
      }
    }
  }
  // Through views, which take no kernel.
  int MakerOf(int value) const {
    int maker = producer_[value];
    while (is_view_[maker]) maker = producer_[instruction(maker).operands[0]];
    return maker;
  }
  bool RunsInPlace(int i) const {
    return !is_view_[i] && !moves_up_[i] &&
           instruction(i).opcode != Opcode::kInput &&
           instruction(i).opcode != Opcode::kReadVariable;
  }

  int64_t ResultBytes(const Collective& collective) const {
    int64_t bytes = 0;
    for (int result : instruction(collective.at).results) {
      bytes += program_.values[result].local_bytes();
    }
    return bytes;
  }

  // Gathers of parameters that one kernel waits for.
  struct Batch {
    int wait = -1;
    int64_t bytes = 0;
    std::vector<int> gathers;
  };

  void PlaceGathers() {
    std::vector<Batch> batches = BatchesOfGathers();
    const int64_t most = MostGathered(batches);
    const int first = static_cast<int>(
        std::find(kernels_.begin(), kernels_.end(), 1) - kernels_.begin() - 1);
    int64_t ahead = 0;
    size_t oldest = 0;  // of those that are ahead together with this one
    for (size_t b = 0; b < batches.size(); ++b) {
      ahead += batches[b].bytes;
      while (ahead > most) ahead -= batches[oldest++].bytes;
      const int start = oldest == 0 ? std::min(begin_[first], batches[b].wait)
                                    : batches[oldest - 1].wait;
      for (int c : batches[b].gathers) Place(c, start, batches[b].wait);
    }
  }

  std::vector<Batch> BatchesOfGathers() const {
    std::vector<std::pair<int, int>> gathers;  // wait, collective
    for (size_t c = 0; c < collectives_.size(); ++c) {
      if (!collectives_[c].gathers_parameter) continue;
      gathers.emplace_back(begin_[ReaderOf(collectives_[c])],
                           static_cast<int>(c));
    }
    std::sort(gathers.begin(), gathers.end());
    std::vector<Batch> batches;
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

  // The most bytes of gathered parameters that there are at once before the
  // pass, or that one kernel uses.
  int64_t MostGathered(const std::vector<Batch>& batches) const {
    std::vector<int64_t> change(count_ + 2, 0);
    int64_t most = 0, now = 0;
    for (const Batch& batch : batches) {
      most = std::max(most, batch.bytes);
      for (int c : batch.gathers) {
        const int at = collectives_[c].at;
        const int64_t bytes = ResultBytes(collectives_[c]);
        change[at] += bytes;
        change[last_reader_[instruction(at).results[0]] + 1] -= bytes;
      }
    }
    for (int64_t bytes : change) most = std::max(most, now += bytes);
    return most;
  }

  void PlaceOthers() {
    for (size_t c = 0; c < collectives_.size(); ++c) {
      const Collective& collective = collectives_[c];
      // What goes with another gather stands before it.
      if (moves_up_[collective.at]) continue;
      Place(static_cast<int>(c), EarliestStart(collective),
            BeginOfChain(ReaderOf(collective)));
    }
  }

  // The place where the kernel begins that reads at `reader`. Two einsums with
  // nothing but maps and reductions between them may be attention, which is one
  // kernel; it reads nothing that is gathered for it alone but activations.
  int BeginOfChain(int reader) const {
    const int before = reader < count_ ? before_run_[reader] : -1;
    if (before < 0 || instruction(reader).opcode != Opcode::kEinsum ||
        !IsLoopFusible(instruction(before).opcode) ||
        instruction(begin_[before]).opcode != Opcode::kEinsum) {
      return begin_[reader];
    }
    for (int operand : instruction(reader).operands) {
      const int maker = MakerOf(operand);
      if (maker >= begin_[before] && RunsInPlace(maker)) return begin_[before];
    }
    return begin_[reader];
  }

  // Behind the kernels that make the operands.
  int EarliestStart(const Collective& collective) const {
    if (instruction(collective.at).opcode == Opcode::kAllGather) {
      return collective.at;
    }
    int start = 0;
    for (int operand : instruction(collective.at).operands) {
      // Collectives keep their order.
      if (collective_of_[operand] >= 0) return collective.at;
      start = std::max(start, next_[MakerOf(operand)]);
    }
    return std::min(start, collective.at);
  }

  void Place(int c, int start, int wait) {
    Collective& collective = collectives_[c];
    collective.asynchronous = kernels_[wait] > kernels_[start];
    collective.first_of_place =
        wait < count_ && Communicates(instruction(wait).opcode);
    // One that is waited for at once stays where it is, but a gather of a
    // parameter goes in front of the kernel that it would stand in.
    if (collective.asynchronous) {
      collective.start = start;
      collective.wait = wait;
    } else {
      collective.start = collective.gathers_parameter
                             ? std::min(wait, collective.at)
                             : collective.at;
    }
  }

  void BoundHeldOperands() {
    std::vector<int> holding;
    for (size_t c = 0; c < collectives_.size(); ++c) {
      const Collective& collective = collectives_[c];
      if (collective.asynchronous && !collective.gathers_parameter &&
          instruction(collective.at).opcode != Opcode::kAllReduce) {
        holding.push_back(static_cast<int>(c));
      }
    }
    std::sort(holding.begin(), holding.end(), [this](int a, int b) {
      return StartOrder(collectives_[a]) < StartOrder(collectives_[b]);
    });
    std::deque<int> under_way;
    for (int c : holding) {
      const int start = collectives_[c].start;
      under_way.erase(std::remove_if(under_way.begin(), under_way.end(),
                                     [&](int other) {
                                       return collectives_[other].wait <= start;
                                     }),
                      under_way.end());
      if (under_way.size() == kMostHolding) {
        Collective& oldest = collectives_[under_way.front()];
        under_way.pop_front();
        oldest.asynchronous = kernels_[start] > kernels_[oldest.start];
        oldest.wait = start;
        oldest.first_of_place = true;
      }
      under_way.push_back(c);
    }
  }
  Program& program_;
  const int count_;
  std::vector<Collective> collectives_;  // in the order of the program
  // By value.
  std::vector<int> producer_;
  std::vector<int> collective_of_;  // whose result it is, or a view of it
  std::vector<int> reader_, last_reader_;
  // By instruction.
  std::vector<bool> is_view_;
  std::vector<bool> moves_up_;  // with a gather of a parameter
  // By place.
  std::vector<int> begin_, next_, kernels_;
  std::vector<int> before_run_;  // what runs before it, or -1
};

}  // namespace

absl::Status OverlapCollectives(Program& program) {
  const bool has_waits =
      std::any_of(program.instructions.begin(), program.instructions.end(),
                  [](const Instruction& instruction) {
                    return IsAsynchronous(instruction) ||
                           instruction.opcode == Opcode::kWait;
                  });
  if (!has_waits) Overlapper(program).Run();
  return absl::OkStatus();
}

}  // namespace mtf
