// SPDX-License-Identifier: Apache-2.0
#include "lowering/overlap_collectives.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

#include "lowering/plan_buffers.h"

namespace mtf {
namespace {

// Collectives that hold their operands and are under way at once.
constexpr size_t kMostHolding = 2;

bool Moves(const Instruction& instruction) {
  return IsCollective(instruction.opcode) &&
         instruction.opcode != Opcode::kAllSlice;
}

bool IsElementwise(Opcode opcode) {
  return opcode == Opcode::kMap || opcode == Opcode::kReduce ||
         opcode == Opcode::kMask || opcode == Opcode::kRandom;
}

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
      if (collective.beside) return Rewrite();
    }
  }

 private:
  struct Collective {
    int at = -1;
    int first_result = -1;
    int origin = -1;
    int start = -1, wait = -1;  // places
    bool gathers_parameter = false;
    bool beside = false;
    bool first_of_place = false;  // its wait comes before what starts there
    std::vector<int> views;       // of its results
  };

  const Instruction& instruction(int i) const {
    return program_.instructions[i];
  }

  void FindCollectives() {
    for (int i = 0; i < count_; ++i) {
      if (!Moves(instruction(i))) continue;
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
      is_view_[i] = made.opcode == Opcode::kWriteVariable ||
                    (made.opcode == Opcode::kReshape && IsView(program_, made));
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

  // What comes from a variable by instructions that only move, cut or map it is
  // made with its gather, wherever that goes.
  void FindGathersOfParameters() {
    std::vector<bool> of_variable(program_.values.size(), false);
    for (int i = 0; i < count_; ++i) {
      const Instruction& made = instruction(i);
      switch (made.opcode) {
        case Opcode::kReadVariable:
          of_variable[made.results[0]] = true;
          break;
        case Opcode::kMap:
        case Opcode::kReshape:
        case Opcode::kSlice:
        case Opcode::kAllGather:
        case Opcode::kAllSlice:
        case Opcode::kAllToAll:
        case Opcode::kCollectivePermute:
          of_variable[made.results[0]] =
              made.operands.size() == 1 && of_variable[made.operands[0]];
          break;
        default:
          break;
      }
    }
    for (Collective& collective : collectives_) {
      const Instruction& gather = instruction(collective.at);
      collective.gathers_parameter = gather.opcode == Opcode::kAllGather &&
                                     of_variable[gather.operands[0]] &&
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
      if (!Moves(instruction(i)) && opcode != Opcode::kOutput) {
        ++kernels_[i + 1];
      }
      if (IsElementwise(opcode) && before >= 0 &&
          (IsElementwise(instruction(before).opcode) ||
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
    for (int i = count_; i-- > 0;) {
      next_[i] = i + 1 == count_ ? count_ : next_[i + 1];
      const int behind = i + 1;
      if (behind < count_ && begin_[behind] == behind && RunsInPlace(behind)) {
        next_[i] = behind;
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
        !IsElementwise(instruction(before).opcode) ||
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
    collective.beside = kernels_[wait] > kernels_[start];
    collective.first_of_place = wait < count_ && Moves(instruction(wait));
    // One that is waited for at once stays where it is, but a gather of a
    // parameter goes in front of the kernel that it would stand in.
    if (collective.beside) {
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
      if (collective.beside && !collective.gathers_parameter &&
          instruction(collective.at).opcode != Opcode::kAllReduce) {
        holding.push_back(static_cast<int>(c));
      }
    }
    std::sort(holding.begin(), holding.end(),
              [this](int a, int b) { return StartOrder(a) < StartOrder(b); });
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
        oldest.beside = kernels_[start] > kernels_[oldest.start];
        oldest.wait = start;
        oldest.first_of_place = true;
      }
      under_way.push_back(c);
    }
  }
  // What is needed first starts first.
  std::tuple<int, int, int> StartOrder(int c) const {
    const Collective& collective = collectives_[c];
    return {collective.start,
            collective.beside ? collective.wait : collective.start,
            collective.at};
  }

  void Rewrite() {
    // What is to be written at a place, in this order: waits that make room,
    // collectives that start, waits for what is read there.
    enum Step { kRoom, kStart, kNeed };
    std::vector<std::tuple<int, Step, std::tuple<int, int, int>, int>> steps;
    std::vector<bool> starts(count_, false);
    for (size_t c = 0; c < collectives_.size(); ++c) {
      const Collective& collective = collectives_[c];
      const int id = static_cast<int>(c);
      if (collective.start < 0) continue;
      starts[collective.at] = true;
      steps.emplace_back(collective.start, kStart, StartOrder(id), id);
      if (!collective.beside) continue;
      steps.emplace_back(collective.wait,
                         collective.first_of_place ? kRoom : kNeed,
                         StartOrder(id), id);
    }
    std::sort(steps.begin(), steps.end());
    done_.assign(count_, false);
    for (const Collective& collective : collectives_) {
      if (!collective.beside) continue;
      for (int view : collective.views) done_[view] = true;  // with its wait
    }
    order_.reserve(count_ + steps.size() / 2);
    size_t step = 0;
    for (int i = 0; i <= count_; ++i) {
      while (step < steps.size() && std::get<0>(steps[step]) == i) {
        const Step kind = std::get<1>(steps[step]);
        if (kind == kStart) {
          Start(collectives_[std::get<3>(steps[step++])]);
          continue;
        }
        std::vector<int> waited;
        for (; step < steps.size() && std::get<0>(steps[step]) == i &&
               std::get<1>(steps[step]) == kind;
             ++step) {
          waited.push_back(std::get<3>(steps[step]));
        }
        Wait(waited);
      }
      // A collective is written where it starts, which may be further on.
      if (i < count_ && !done_[i] && !starts[i]) Write(i);
    }
    Reorder();
  }

  void Write(int i) {
    done_[i] = true;
    order_.push_back(i);
  }

  void Start(const Collective& collective) {
    if (done_[collective.at]) return;
    program_.instructions[collective.at].beside = collective.beside;
    WriteMakers(instruction(collective.at));
    Write(collective.at);
  }
  void WriteMakers(const Instruction& reader) {
    for (int operand : reader.operands) {
      const int maker = producer_[operand];
      if (done_[maker] || (!moves_up_[maker] && !is_view_[maker])) continue;
      WriteMakers(instruction(maker));
      Write(maker);
    }
  }

  void Wait(const std::vector<int>& collectives) {
    Instruction wait;
    wait.opcode = Opcode::kWait;
    for (int c : collectives) {
      wait.operands.push_back(collectives_[c].first_result);
    }
    wait.origin = collectives_[collectives.front()].origin;
    order_.push_back(count_ + static_cast<int>(waits_.size()));
    waits_.push_back(std::move(wait));
    for (int c : collectives) {
      for (int view : collectives_[c].views) Write(view);
    }
  }

  // In place: the instructions of a large model take megabytes, and fresh
  // memory costs more than the work.
  void Reorder() {
    std::vector<Instruction>& instructions = program_.instructions;
    instructions.insert(instructions.end(),
                        std::make_move_iterator(waits_.begin()),
                        std::make_move_iterator(waits_.end()));
    for (int i = 0; i < static_cast<int>(order_.size()); ++i) {
      if (order_[i] == i) continue;
      Instruction first = std::move(instructions[i]);
      int to = i;
      while (order_[to] != i) {
        const int from = std::exchange(order_[to], to);
        instructions[to] = std::move(instructions[from]);
        to = from;
      }
      order_[to] = to;
      instructions[to] = std::move(first);
    }
  }

  Program& program_;
  const int count_;
  std::vector<Collective> collectives_;  // in the order of the program
  std::vector<Instruction> waits_;
  // By new place: the old one, or how many there were and which of waits_.
  std::vector<int> order_;
  // By value.
  std::vector<int> producer_;
  std::vector<int> collective_of_;  // whose result it is, or a view of it
  std::vector<int> reader_, last_reader_;
  // By instruction.
  std::vector<bool> is_view_;
  std::vector<bool> moves_up_;  // with a gather of a parameter
  std::vector<bool> done_;
  // By place.
  std::vector<int> begin_, next_, kernels_;
  std::vector<int> before_run_;  // what runs before it, or -1
};

}  // namespace

absl::Status OverlapCollectives(Program& program) {
  const bool has_waits = std::any_of(
      program.instructions.begin(), program.instructions.end(),
      [](const Instruction& instruction) {
        return instruction.beside || instruction.opcode == Opcode::kWait;
      });
  if (!has_waits) Overlapper(program).Run();
  return absl::OkStatus();
}

}  // namespace mtf
