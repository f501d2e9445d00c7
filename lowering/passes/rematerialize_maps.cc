// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/rematerialize_maps.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "lowering/fusion/fused_kernels.h"
#include "lowering/passes/absorb_map.h"
#include "lowering/passes/fuse_maps.h"
#include "lowering/program/is_no_op.h"
#include "lowering/program/reader_lists.h"
#include "lowering/program/readers.h"
#include "mtf/status.h"

namespace mtf {
namespace {

// Steps between a value and what it is made of: more take longer than to read
// it.
constexpr size_t kMostChainSteps = 8;

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

bool AreCheap(const std::vector<MapStep>& steps) {
  return absl::c_all_of(
      steps, [](const MapStep& step) { return IsCheap(step.function); });
}

class Recomputer {
 public:
  explicit Recomputer(Program& program)
      : program_(program),
        producers_(FindProducers(program)),
        readers_(program),
        stretch_(program.instructions.size()),
        depth_(program.instructions.size(), 0),
        last_read_(program.values.size(), -1),
        from_(program.values.size(), kNone),
        last_late_(program.values.size(), kNone),
        root_(program.values.size(), kNone),
        stays_(program.values.size(), false) {}

  // False where nothing changes.
  bool Run() {
    FindStretches();
    FindDepths();
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
          !HasExpression(instruction) && !IsNoOp(program_, instruction);
      stretch_[i] = ends ? ++stretch : stretch;
    }
  }

  void FindDepths() {
    for (size_t i = 0; i < depth_.size(); ++i) {
      for (int operand : program_.instructions[i].operands) {
        if (producers_[operand] < 0) continue;
        const Instruction& maker = ProducerOf(operand);
        const bool passes =
            IsNoOp(program_, maker) || maker.opcode == Opcode::kRandom ||
            maker.opcode == Opcode::kMask ||
            (HasExpression(maker) && !IsLongReduce(program_, maker));
        depth_[i] =
            std::max(depth_[i], depth_[producers_[operand]] + (passes ? 0 : 1));
      }
    }
  }

  // Until when each value is in memory: what views it keeps it there.
  void FindLastReads() {
    for (int i = static_cast<int>(program_.instructions.size()) - 1; i >= 0;
         --i) {
      const Instruction& instruction = program_.instructions[i];
      int last = i;
      if (IsNoOp(program_, instruction)) {
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
    if (!AreCheap(ExpressionOf(map).steps)) return;
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
      if (!HasExpression(reads) || !RunsOverElements(program_, reads, value) ||
          !IsLate(reader, value) || FinishesMatmul(reads)) {
        return;
      }
      last = reader;
    }
    last_late_[value] = last;
  }

  // Whether `reader` may be what a matmul does before it writes, a sum or the
  // slope of a gelu, or make the logits of a softmax, as within attention: a
  // map that alone reads the result of an einsum. Devices look for those with
  // their operands as they stand.
  bool FinishesMatmul(const Instruction& reader) const {
    const bool alone = absl::c_any_of(reader.operands, [&](int operand) {
      return producers_[operand] >= 0 &&
             ProducerOf(operand).opcode == Opcode::kEinsum &&
             readers_[operand].size() == 1;
    });
    if (reader.opcode != Opcode::kMap || !alone) return false;
    const auto& steps = ExpressionOf(reader).steps;
    const bool adds = absl::c_all_of(steps, [](const MapStep& step) {
      return step.function == ScalarFunction::kAdd;
    });
    const bool is_logits =
        absl::c_any_of(readers_[reader.results[0]], [&](int next) {
          const Instruction& reduce = program_.instructions[next];
          return reduce.opcode == Opcode::kReduce &&
                 ReductionOf(reduce) == ReduceKind::kMax;
        });
    return adds || is_logits || !AreCheap(steps);
  }

  // Whether a view of `value`, or the variable that it is written to, keeps it
  // in memory.
  bool IsKeptByView(int value) const {
    return absl::c_any_of(readers_[value], [&](int reader) {
      const Instruction& reads = program_.instructions[reader];
      if (reads.opcode == Opcode::kWriteVariable) return true;
      if (!IsNoOp(program_, reads)) return false;
      const int last = last_read_[reads.results[0]];
      return last != kNone && stretch_[last] != stretch_[producers_[value]];
    });
  }

  // Whether more kernels lie before `reader` than before `value`.
  bool IsLate(int reader, int value) const {
    return depth_[reader] != depth_[producers_[value]];
  }

  // Of the readers, which ascend, the first that is late and all behind it.
  absl::Span<const int> LateReaders(int value) const {
    absl::Span<const int> readers = readers_[value];
    while (!readers.empty() && !IsLate(readers.front(), value)) {
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
    size_t steps = ExpressionOf(ProducerOf(value)).steps.size();
    for (int from = from_[value]; from != kNone && steps <= kMostChainSteps;
         from = from_[from]) {
      if (BytesOf(from) <= BytesOf(value)) {
        root = from;
        if (IsKept(from, last_late_[value])) break;
      }
      if (from_[from] != kNone) {
        steps += ExpressionOf(ProducerOf(from)).steps.size();
      }
    }
    return root;
  }

  // Marks by their roots the values that are made again. False if none is.
  bool Choose() {
    std::vector<std::pair<int, int>> by_root;  // root, value
    for (const Instruction& map : program_.instructions) {
      if (map.opcode != Opcode::kMap) continue;
      const int value = map.results[0];
      if (last_late_[value] == kNone) continue;
      const int root = RootOf(value);
      if (root != kNone) {
        by_root.emplace_back(root, value);
      } else {
        last_late_[value] = kNone;  // it is kept for all that are made of it
      }
    }
    absl::c_sort(by_root);
    bool chosen = false;
    room_.assign(by_root.empty() ? 0 : program_.instructions.size(), {});
    for (auto begin = by_root.begin(); begin != by_root.end();) {
      const auto end = std::find_if(begin, by_root.end(), [&](const auto& of) {
        return of.first != begin->first;
      });
      const int root_of_all = begin->first;
      std::vector<int> values;
      for (auto of = begin; of != end; ++of) {
        if (TakeRoom(of->second, root_of_all)) values.push_back(of->second);
      }
      if (StandAlone(values, root_of_all) && Saves(values, root_of_all)) {
        for (int value : values) {
          root_[value] = root_of_all;
          for (int operand : LateOperands(value, root_of_all)) {
            stays_[operand] = true;
          }
        }
        chosen = true;
      } else {
        for (int value : values) AddRoom(value, root_of_all, -1);
      }
      begin = end;
    }
    return chosen;
  }

  // What makes `value` of `root`, counted `times`, into the room that its late
  // readers take in. True while all of them stay within bounds.
  bool AddRoom(int value, int root, int times) {
    int steps = 0, operands = 0;
    for (int link = value; link != root; link = from_[link]) {
      steps += static_cast<int>(ExpressionOf(ProducerOf(link)).steps.size());
      operands += static_cast<int>(ProducerOf(link).operands.size());
    }
    bool fits = true;
    for (int reader : LateReaders(value)) {
      const Instruction& reads = program_.instructions[reader];
      Room& room = room_[reader];
      room.steps += times * steps;
      room.operands += times * operands;
      fits = fits &&
             ExpressionOf(reads).steps.size() + room.steps <= kMostMapSteps &&
             reads.operands.size() + room.operands <= kMostMapOperands;
    }
    return fits;
  }
  bool TakeRoom(int value, int root) {
    if (AddRoom(value, root, 1)) return true;
    AddRoom(value, root, -1);
    return false;
  }

  // What the maps between `value` and `root` read late themselves.
  std::vector<int> LateOperands(int value, int root) const {
    std::vector<int> late;
    for (int link = value; link != root; link = from_[link]) {
      for (int operand : ProducerOf(link).operands) {
        if (producers_[operand] >= 0 && IsLate(producers_[link], operand)) {
          late.push_back(operand);
        }
      }
    }
    return late;
  }

  // Whether none of the maps that are taken in takes in more in this round: of
  // those its size is not known yet.
  bool StandAlone(const std::vector<int>& values, int root) const {
    return absl::c_all_of(values, [&](int value) {
      return !stays_[value] &&
             absl::c_all_of(LateOperands(value, root), [&](int operand) {
               return root_[operand] == kNone;
             });
    });
  }

  // Whether making `values` of `root` again keeps fewer bytes, and, while those
  // that are read last are all that is left of them, not more. Numbers of rows
  // and columns, at most an eighth, do not count there.
  bool Saves(std::vector<int> values, int root) const {
    absl::c_stable_sort(
        values, [this](int a, int b) { return last_late_[a] > last_late_[b]; });
    int64_t saved = 0, kept = 0;
    std::vector<int> known;
    for (size_t i = 0; i < values.size(); ++i) {
      const int value = values[i];
      saved += BytesOf(value);
      for (int link = value; link != root; link = from_[link]) {
        for (int operand : ProducerOf(link).operands) {
          if ((operand == from_[link] && operand != root) ||
              IsKept(operand, last_late_[value]) ||
              absl::c_linear_search(known, operand)) {
            continue;
          }
          known.push_back(operand);
          kept += BytesOf(operand);
        }
      }
      const bool ends =
          i + 1 == values.size() ||
          stretch_[last_late_[values[i + 1]]] != stretch_[last_late_[value]];
      if (ends && kept > saved + saved / 8) return false;
    }
    return kept < saved;
  }

  void Rewrite() {
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      Instruction& reader = program_.instructions[i];
      if (!HasExpression(reader)) continue;
      // What is taken in comes from a reader's own operands, which it changes.
      const auto operands = reader.operands;
      for (int value : operands) {
        const int root = root_[value];
        if (root == kNone || !IsLate(static_cast<int>(i), value)) continue;
        for (int link = value; link != root; link = from_[link]) {
          if (!absl::c_linear_search(reader.operands, link)) continue;
          const Instruction& producer = ProducerOf(link);
          AbsorbMap(producer, ExpressionOf(producer).steps, link, reader);
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
    int steps = 0, operands = 0;
  };

  Program& program_;
  const std::vector<int> producers_;  // by value
  const ReaderLists readers_;         // by value
  // By instruction: equal where only maps and reductions run in between.
  std::vector<int> stretch_;
  // By instruction: how many others lie before it on the longest way. Two of
  // one depth never wait for each other through another kernel.
  std::vector<int> depth_;
  // By value; kNone where there is none.
  std::vector<int> last_read_;
  std::vector<int> from_;       // the operand that has its elements
  std::vector<int> last_late_;  // its last late reader, if all could make it
  std::vector<int> root_;       // what it is made of again, where it is
  // A map that is taken in this round reads it late: this round it stays.
  std::vector<bool> stays_;
  std::vector<Room> room_;  // by instruction
};

}  // namespace

absl::Status RematerializeMaps(Program& program) {
  // What is kept for one may be what another can be made of.
  while (Recomputer(program).Run()) {
    // What lost its late readers may have one reader now.
    MTF_RETURN_IF_ERROR(FuseMaps(program));
  }
  return absl::OkStatus();
}

}  // namespace mtf
