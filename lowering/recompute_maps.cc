// SPDX-License-Identifier: Apache-2.0
#include "lowering/recompute_maps.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "lowering/absorb_map.h"
#include "lowering/fuse_maps.h"
#include "lowering/reader_lists.h"
#include "lowering/readers.h"
#include "lowering/runs_nothing.h"

namespace mtf {
namespace {

// An instruction or two on every device.
bool IsCheap(ScalarFunction function) {
  switch (function) {
    case ScalarFunction::kIdentity:
    case ScalarFunction::kNegate:
    case ScalarFunction::kSquare:
    case ScalarFunction::kAbs:
    case ScalarFunction::kRelu:
    case ScalarFunction::kAdd:
    case ScalarFunction::kSubtract:
    case ScalarFunction::kMultiply:
    case ScalarFunction::kMaximum:
    case ScalarFunction::kMinimum:
    case ScalarFunction::kLess:
    case ScalarFunction::kLessEqual:
    case ScalarFunction::kGreater:
    case ScalarFunction::kGreaterEqual:
    case ScalarFunction::kEqual:
    case ScalarFunction::kNotEqual:
    case ScalarFunction::kLogicalAnd:
    case ScalarFunction::kLogicalOr:
    case ScalarFunction::kLogicalNot:
    case ScalarFunction::kSelect:
    case ScalarFunction::kCast:
    case ScalarFunction::kLiteral:
      return true;
    default:
      return false;
  }
}

class Recomputer {
 public:
  explicit Recomputer(Program& program)
      : program_(program),
        producers_(FindProducers(program)),
        readers_(program),
        stretch_(program.instructions.size()),
        last_read_(program.values.size(), -1),
        from_(program.values.size(), kNone),
        last_late_(program.values.size(), kNone),
        root_(program.values.size(), kNone) {}

  // False where nothing changes.
  bool Run() {
    FindStretches();
    FindLastReads();
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.opcode == Opcode::kMap) FindLateReads(instruction);
    }
    if (!Choose()) return false;
    Rewrite();
    return true;
  }

 private:
  static constexpr int kNone = -1;

  const Instruction& ProducerOf(int value) const {
    return program_.instructions[producers_[value]];
  }
  int64_t BytesOf(int value) const {
    return program_.values[value].local_bytes();
  }

  void FindStretches() {
    int stretch = 0;
    for (size_t i = 0; i < stretch_.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      const bool ends =
          !TakesMaps(instruction) && !RunsNothing(program_, instruction);
      stretch_[i] = ends ? ++stretch : stretch;
    }
  }

  // Until when each value is in memory: what views it keeps it there.
  void FindLastReads() {
    for (int i = static_cast<int>(program_.instructions.size()) - 1; i >= 0;
         --i) {
      const Instruction& instruction = program_.instructions[i];
      int last = i;
      if (RunsNothing(program_, instruction)) {
        for (int result : instruction.results) {
          last = std::max(last, last_read_[result]);
        }
      }
      for (int operand : instruction.operands) {
        last_read_[operand] = std::max(last_read_[operand], last);
      }
    }
  }

  // The operand that `map` can be made of again, and who reads it late, if all
  // of them could.
  void FindLateReads(const Instruction& map) {
    const int value = map.results[0];
    const ProgramValue& made = program_.values[value];
    // Of numbers there is nothing to save.
    if (made.shape.rank() == 0) return;
    const auto& steps = map.expression.steps;
    if (!absl::c_all_of(steps, [](const MapStep& step) {
          return IsCheap(step.function);
        })) {
      return;
    }
    int from = kNone;
    for (int operand : map.operands) {
      const ProgramValue& read = program_.values[operand];
      if (read.local_elements() < made.local_elements()) continue;
      if (from != kNone || !read.shape.SameDimensions(made.shape)) return;
      from = operand;
    }
    from_[value] = from;
    if (from == kNone || IsKeptByView(value)) return;
    int last = kNone;
    for (int reader : LateReaders(value)) {
      const Instruction& reads = program_.instructions[reader];
      if (!TakesMaps(reads) || !RunsOverElements(program_, reads, value)) {
        return;
      }
      last = reader;
    }
    last_late_[value] = last;
  }

  // Whether a view of `value`, or the variable that it is written to, keeps it
  // in memory.
  bool IsKeptByView(int value) const {
    return absl::c_any_of(readers_[value], [&](int reader) {
      const Instruction& reads = program_.instructions[reader];
      if (reads.opcode == Opcode::kWriteVariable) return true;
      if (!RunsNothing(program_, reads)) return false;
      const int last = last_read_[reads.results[0]];
      return last != kNone && stretch_[last] != stretch_[producers_[value]];
    });
  }

  // Of the readers, which ascend, those of a later stretch.
  absl::Span<const int> LateReaders(int value) const {
    absl::Span<const int> readers = readers_[value];
    const int stretch = stretch_[producers_[value]];
    while (!readers.empty() && stretch_[readers.front()] == stretch) {
      readers.remove_prefix(1);
    }
    return readers;
  }

  // Whether a value is in memory until `time` whatever is chosen.
  bool IsKept(int value, int time) const {
    return last_late_[value] == kNone && last_read_[value] >= time;
  }

  // What `value` had best be made of: the nearest that is kept anyway, or the
  // farthest. None may be larger.
  int RootOf(int value) const {
    int root = kNone;
    for (int from = from_[value]; from != kNone; from = from_[from]) {
      if (BytesOf(from) <= BytesOf(value)) {
        root = from;
        if (IsKept(from, last_late_[value])) break;
      }
    }
    return root;
  }

  // Marks by their roots the values that are made again. False if none is.
  bool Choose() {
    std::vector<std::pair<int, int>> by_root;  // root, value
    for (size_t value = 0; value < last_late_.size(); ++value) {
      if (last_late_[value] == kNone) continue;
      const int root = RootOf(static_cast<int>(value));
      if (root != kNone) by_root.emplace_back(root, static_cast<int>(value));
    }
    absl::c_sort(by_root);
    bool chosen = false;
    room_.assign(by_root.empty() ? 0 : program_.instructions.size(), {});
    for (auto begin = by_root.begin(); begin != by_root.end();) {
      const auto end = std::find_if(begin, by_root.end(), [&](const auto& of) {
        return of.first != begin->first;
      });
      std::vector<int> values;
      for (auto of = begin; of != end; ++of) {
        if (TakeRoom(of->second, of->first)) values.push_back(of->second);
      }
      if (Saves(values, begin->first)) {
        for (int value : values) root_[value] = begin->first;
        chosen = true;
      }
      begin = end;
    }
    return chosen;
  }

  // Whether all late readers can take in what makes `value` of `root`.
  bool TakeRoom(int value, int root) {
    Room more;
    for (int link = value; link != root; link = from_[link]) {
      more.steps += ProducerOf(link).expression.steps.size();
      more.operands += ProducerOf(link).operands.size();
    }
    const absl::Span<const int> readers = LateReaders(value);
    for (int reader : readers) {
      const Instruction& reads = program_.instructions[reader];
      const Room& taken = room_[reader];
      if (reads.expression.steps.size() + taken.steps + more.steps >
              kMostMapSteps ||
          reads.operands.size() + taken.operands + more.operands >
              kMostMapOperands) {
        return false;
      }
    }
    for (int reader : readers) {
      room_[reader].steps += more.steps;
      room_[reader].operands += more.operands;
    }
    return true;
  }

  // Whether making `values` of `root` again keeps fewer bytes.
  bool Saves(absl::Span<const int> values, int root) const {
    int64_t saved = 0;
    std::vector<int> kept;
    for (int value : values) {
      saved += BytesOf(value);
      for (int link = value; link != root; link = from_[link]) {
        for (int operand : ProducerOf(link).operands) {
          if (operand == root || operand != from_[link]) {
            if (!IsKept(operand, last_late_[value])) kept.push_back(operand);
          }
        }
      }
    }
    absl::c_sort(kept);
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    for (int operand : kept) saved -= BytesOf(operand);
    return saved > 0;
  }

  void Rewrite() {
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      Instruction& reader = program_.instructions[i];
      if (!TakesMaps(reader)) continue;
      // What is taken in comes from a reader's own operands, which it changes.
      const auto operands = reader.operands;
      for (int value : operands) {
        const int root = root_[value];
        if (root == kNone || stretch_[producers_[value]] == stretch_[i]) {
          continue;
        }
        for (int link = value; link != root; link = from_[link]) {
          if (!absl::c_linear_search(reader.operands, link)) continue;
          const Instruction& producer = ProducerOf(link);
          AbsorbMap(producer, producer.expression.steps, link, reader);
        }
      }
    }
    EraseUnread();
  }

  void EraseUnread() {
    std::vector<int> readers = CountReaders(program_);
    std::vector<bool> dead(program_.instructions.size(), false);
    for (size_t i = dead.size(); i-- > 0;) {
      const Instruction& instruction = program_.instructions[i];
      if (instruction.opcode != Opcode::kMap) continue;
      if (readers[instruction.results[0]] > 0) continue;
      dead[i] = true;
      for (int operand : instruction.operands) --readers[operand];
    }
    EraseInstructions(dead, program_);
  }

  // What a reader takes in besides.
  struct Room {
    size_t steps = 0, operands = 0;
  };

  Program& program_;
  const std::vector<int> producers_;  // by value
  const ReaderLists readers_;         // by value
  // By instruction: equal where only maps and reductions run in between.
  std::vector<int> stretch_;
  // By value; kNone where there is none.
  std::vector<int> last_read_;
  std::vector<int> from_;       // the operand that has its elements
  std::vector<int> last_late_;  // its last late reader, if all could make it
  std::vector<int> root_;       // what it is made of again, where it is
  std::vector<Room> room_;      // by instruction
};

}  // namespace

absl::Status RecomputeMaps(Program& program) {
  if (!Recomputer(program).Run()) return absl::OkStatus();
  // What lost its late readers may have one reader now.
  return FuseMaps(program);
}

}  // namespace mtf
