// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/write_overlap.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace mtf {
namespace {

class OverlapWriter {
 public:
  OverlapWriter(const std::vector<OverlappedCollective>& collectives,
                const std::vector<int>& producer,
                const std::vector<bool>& is_view,
                const std::vector<bool>& moves_with_gather, Program& program)
      : collectives_(collectives),
        producer_(producer),
        is_view_(is_view),
        moves_with_gather_(moves_with_gather),
        program_(program),
        count_(static_cast<int>(program.instructions.size())) {}

  void Run() {
    // The events at each position, in this order: waits that must precede the
    // starts, starts of collectives, waits for values that are read there.
    enum Event { kEarlyWait, kStart, kWait };
    std::vector<std::tuple<int, Event, std::tuple<int, int, int>, int>> events;
    std::vector<bool> has_start(count_, false);
    for (size_t c = 0; c < collectives_.size(); ++c) {
      const Collective& collective = collectives_[c];
      const int id = static_cast<int>(c);
      if (collective.start < 0) continue;
      has_start[collective.instruction] = true;
      events.emplace_back(collective.start, kStart, StartOrder(collective), id);
      if (!collective.asynchronous) continue;
      events.emplace_back(collective.wait,
                          collective.waits_before_starts ? kEarlyWait : kWait,
                          StartOrder(collective), id);
    }
    std::sort(events.begin(), events.end());
    written_.assign(count_, false);
    for (const OverlappedCollective& collective : collectives_) {
      if (!collective.asynchronous) continue;
      for (int view : collective.views)
        written_[view] = true;  // written after the wait
    }
    order_.reserve(count_ + events.size() / 2);
    size_t event = 0;
    for (int i = 0; i <= count_; ++i) {
      while (event < events.size() && std::get<0>(events[event]) == i) {
        const Event kind = std::get<1>(events[event]);
        if (kind == kStart) {
          Start(collectives_[std::get<3>(events[event++])]);
          continue;
        }
        std::vector<int> waited;
        for (; event < events.size() && std::get<0>(events[event]) == i &&
               std::get<1>(events[event]) == kind;
             ++event) {
          waited.push_back(std::get<3>(events[event]));
        }
        Wait(waited);
      }
      // A moved collective is written at its start, which may come later.
      if (i < count_ && !written_[i] && !has_start[i]) Write(i);
    }
    Reorder();
  }

 private:
  using Collective = OverlappedCollective;

  const Instruction& instruction(int i) const {
    return program_.instructions[i];
  }

  void Write(int i) {
    written_[i] = true;
    order_.push_back(i);
  }

  // Writes a collective, after the instructions that move with it.
  void Start(const Collective& collective) {
    if (written_[collective.instruction]) return;
    program_.instructions[collective.instruction]
        .Get<CollectiveAttributes>()
        .asynchronous = collective.asynchronous;
    WriteProducers(instruction(collective.instruction));
    Write(collective.instruction);
  }
  void WriteProducers(const Instruction& reader) {
    for (int operand : reader.operands) {
      const int producer = producer_[operand];
      if (written_[producer] ||
          (!moves_with_gather_[producer] && !is_view_[producer]))
        continue;
      WriteProducers(instruction(producer));
      Write(producer);
    }
  }

  // Writes one wait for several collectives, then the views of their results.
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

  // Permutes the instructions into their new order. In place: those of a large
  // model take megabytes, and fresh memory costs more than the work.
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
  const std::vector<bool>& moves_with_gather_;
  Program& program_;
  const int count_;
  std::vector<Instruction> waits_;
  // By new index: the old index, or count_ plus an index in waits_.
  std::vector<int> order_;
  std::vector<bool> written_;  // by instruction
};

}  // namespace

std::tuple<int, int, int> StartOrder(const OverlappedCollective& collective) {
  return {collective.start,
          collective.asynchronous ? collective.wait : collective.start,
          collective.instruction};
}

void WriteOverlap(const std::vector<OverlappedCollective>& collectives,
                  const std::vector<int>& producer,
                  const std::vector<bool>& is_view,
                  const std::vector<bool>& moves_with_gather,
                  Program& program) {
  OverlapWriter(collectives, producer, is_view, moves_with_gather, program)
      .Run();
}

}  // namespace mtf
