// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/write_overlap.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace mtf {
namespace {

class Writer {
 public:
  Writer(const std::vector<OverlappedCollective>& collectives,
         const std::vector<int>& producer, const std::vector<bool>& is_view,
         const std::vector<bool>& moves_up, Program& program)
      : collectives_(collectives),
        producer_(producer),
        is_view_(is_view),
        moves_up_(moves_up),
        program_(program),
        count_(static_cast<int>(program.instructions.size())) {}

  void Run() {
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
      steps.emplace_back(collective.start, kStart, StartOrder(collective), id);
      if (!collective.asynchronous) continue;
      steps.emplace_back(collective.wait,
                         collective.first_of_place ? kRoom : kNeed,
                         StartOrder(collective), id);
    }
    std::sort(steps.begin(), steps.end());
    done_.assign(count_, false);
    for (const OverlappedCollective& collective : collectives_) {
      if (!collective.asynchronous) continue;
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

 private:
  using Collective = OverlappedCollective;

  const Instruction& instruction(int i) const {
    return program_.instructions[i];
  }

  void Write(int i) {
    done_[i] = true;
    order_.push_back(i);
  }

  void Start(const Collective& collective) {
    if (done_[collective.at]) return;
    program_.instructions[collective.at]
        .Get<CollectiveAttributes>()
        .asynchronous = collective.asynchronous;
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
    Instruction wait(Opcode::kWait);
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

  const std::vector<OverlappedCollective>& collectives_;
  const std::vector<int>& producer_;
  const std::vector<bool>& is_view_;
  const std::vector<bool>& moves_up_;
  Program& program_;
  const int count_;
  std::vector<Instruction> waits_;
  // By new place: the old one, or how many there were and which of waits_.
  std::vector<int> order_;
  std::vector<bool> done_;  // by instruction
};

}  // namespace

std::tuple<int, int, int> StartOrder(const OverlappedCollective& collective) {
  return {collective.start,
          collective.asynchronous ? collective.wait : collective.start,
          collective.at};
}

void WriteOverlap(const std::vector<OverlappedCollective>& collectives,
                  const std::vector<int>& producer,
                  const std::vector<bool>& is_view,
                  const std::vector<bool>& moves_up, Program& program) {
  Writer(collectives, producer, is_view, moves_up, program).Run();
}

}  // namespace mtf
