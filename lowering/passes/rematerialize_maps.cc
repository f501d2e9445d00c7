// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/rematerialize_maps.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "lowering/fusion/long_reduce.h"
#include "lowering/passes/absorb_map.h"
#include "lowering/passes/fuse_maps.h"
#include "lowering/program/is_no_op.h"
#include "lowering/program/reader_lists.h"
#include "lowering/program/readers.h"
#include "mtf/status.h"

namespace mtf {
namespace {

// The maximum number of steps to recompute a value: more take longer than
// reading it from memory.
constexpr size_t kMaxChainSteps = 8;

// Whether a function takes at most two machine instructions on every device.
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

constexpr int kNone = -1;

// How long values stay alive in a program, and which readers are late.
class LateReaders {
 public:
  explicit LateReaders(const Program& program)
      : program_(program),
        producers_(FindProducers(program)),
        readers_(program),
        segment_(program.instructions.size()),
        depth_(program.instructions.size(), 0),
        last_reader_(program.values.size(), kNone) {
    FindSegments();
    FindDepths();
    FindLastReaders();
  }

  // By value: the instruction that produces it, or kNone.
  int producer(int value) const { return producers_[value]; }
  // By value: the instruction until which it stays alive, or kNone.
  int last_reader(int value) const { return last_reader_[value]; }
  absl::Span<const int> readers(int value) const { return readers_[value]; }
  // By instruction: equal if only maps and reductions run in between.
  int segment(int instruction) const { return segment_[instruction]; }

  // Whether a view of `value`, or a variable that it is written to, keeps it
  // alive.
  bool IsKeptByView(int value) const {
    return absl::c_any_of(readers_[value], [&](int reader) {
      const Instruction& reads = program_.instructions[reader];
      if (reads.opcode == Opcode::kWriteVariable) return true;
      if (!IsNoOp(program_, reads)) return false;
      const int last = last_reader_[reads.results[0]];
      return last != kNone && segment_[last] != segment_[producers_[value]];
    });
  }

  // Whether `reader` has more kernels before it than the producer of `value`.
  bool IsLate(int reader, int value) const {
    return depth_[reader] != depth_[producers_[value]];
  }

  // The readers of `value` from the first late one on, in program order.
  absl::Span<const int> Of(int value) const {
    absl::Span<const int> readers = readers_[value];
    while (!readers.empty() && !IsLate(readers.front(), value)) {
      readers.remove_prefix(1);
    }
    return readers;
  }

 private:
  const Instruction& ProducerOf(int value) const {
    return program_.instructions[producers_[value]];
  }

  // Divides the program at the instructions that cannot fuse with maps.
  void FindSegments() {
    int segment = 0;
    for (size_t i = 0; i < segment_.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      const bool ends =
          !HasExpression(instruction) && !IsNoOp(program_, instruction);
      segment_[i] = ends ? ++segment : segment;
    }
  }

  // Numbers the kernels before each instruction; maps and reductions of rows
  // join the kernel of their operands.
  void FindDepths() {
    for (size_t i = 0; i < depth_.size(); ++i) {
      for (int operand : program_.instructions[i].operands) {
        if (producers_[operand] < 0) continue;
        const Instruction& producer = ProducerOf(operand);
        const bool passes =
            IsNoOp(program_, producer) || (IsLoopFusible(producer.opcode) &&
                                           !IsLongReduce(program_, producer));
        depth_[i] =
            std::max(depth_[i], depth_[producers_[operand]] + (passes ? 0 : 1));
      }
    }
  }

  // The last reader of each value; a value lives as long as its views.
  void FindLastReaders() {
    for (int i = static_cast<int>(program_.instructions.size()) - 1; i >= 0;
         --i) {
      const Instruction& instruction = program_.instructions[i];
      int last = i;
      if (IsNoOp(program_, instruction)) {
        for (int result : instruction.results) {
          last = std::max(last, last_reader_[result]);
        }
      }
      for (int operand : instruction.operands) {
        last_reader_[operand] = std::max(last_reader_[operand], last);
      }
    }
  }

  const Program& program_;
  const std::vector<int> producers_;  // by value
  const ReaderLists readers_;         // by value
  std::vector<int> segment_;          // by instruction
  // By instruction: the number of kernels on the longest path of dependencies
  // before it. Instructions of one depth never wait for each other through
  // another kernel.
  std::vector<int> depth_;
  std::vector<int> last_reader_;  // by value
};

// Rewrites a program once. A rewrite can make further values cheaper to
// recompute than to keep, so RematerializeMaps repeats it until nothing
// changes.
class MapRematerializer {
 public:
  explicit MapRematerializer(Program& program)
      : program_(program),
        late_readers_(program),
        recompute_source_(program.values.size(), kNone),
        last_late_reader_(program.values.size(), kNone),
        chosen_root_(program.values.size(), kNone),
        must_stay_(program.values.size(), false) {}

  // Returns false if nothing changes.
  bool Run() {
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.opcode == Opcode::kMap) FindCandidate(instruction);
    }
    if (!ChooseValues()) return false;
    Rewrite();
    return true;
  }

 private:
  const Instruction& ProducerOf(int value) const {
    return program_.instructions[late_readers_.producer(value)];
  }
  int64_t BytesOf(int value) const {
    return program_.values[value].local_bytes();
  }

  // Finds the operand from which the result of `map` can be recomputed and, if
  // all late readers of the result could recompute it, the last of them.
  void FindCandidate(const Instruction& map) {
    const int value = map.results[0];
    const ProgramValue& produced = program_.values[value];
    // Scalars are not worth it.
    if (produced.shape.rank() == 0) return;
    if (!AreCheap(ExpressionOf(map).steps)) return;
    int source = kNone;
    for (int operand : map.operands) {
      const ProgramValue& read = program_.values[operand];
      if (read.local_elements() < produced.local_elements()) continue;
      if (source != kNone || !read.shape.SameDimensions(produced.shape)) return;
      source = operand;
    }
    recompute_source_[value] = source;
    if (source == kNone || late_readers_.IsKeptByView(value)) return;
    int last = kNone;
    for (int reader : late_readers_.Of(value)) {
      const Instruction& reads = program_.instructions[reader];
      if (!HasExpression(reads) || !IteratesOver(program_, reads, value) ||
          !late_readers_.IsLate(reader, value) || MayBeEpilogue(reads)) {
        return;
      }
      last = reader;
    }
    last_late_reader_[value] = last;
  }

  // Whether `reader` may be the epilogue of a matmul, a sum or the gradient of
  // a GELU, or compute the logits of a softmax in attention: a map that is the
  // only reader of an einsum. Devices match those patterns with their operands
  // as they are.
  bool MayBeEpilogue(const Instruction& reader) const {
    const bool alone = absl::c_any_of(reader.operands, [&](int operand) {
      return late_readers_.producer(operand) >= 0 &&
             ProducerOf(operand).opcode == Opcode::kEinsum &&
             late_readers_.readers(operand).size() == 1;
    });
    if (reader.opcode != Opcode::kMap || !alone) return false;
    const auto& steps = ExpressionOf(reader).steps;
    const bool adds = absl::c_all_of(steps, [](const MapStep& step) {
      return step.function == ScalarFunction::kAdd;
    });
    const bool is_logits =
        absl::c_any_of(late_readers_.readers(reader.results[0]), [&](int next) {
          const Instruction& reduce = program_.instructions[next];
          return reduce.opcode == Opcode::kReduce &&
                 ReductionOf(reduce) == ReduceKind::kMax;
        });
    return adds || is_logits || !AreCheap(steps);
  }

  // Whether a value stays alive until `time` whatever is chosen.
  bool IsKept(int value, int time) const {
    return last_late_reader_[value] == kNone &&
           late_readers_.last_reader(value) >= time;
  }

  // The best value to recompute `value` from, along the chain of sources: the
  // nearest that is kept alive anyway, or else the farthest. It must not be
  // larger than `value`. kNone if there is none.
  int RootOf(int value) const {
    int root = kNone;
    size_t steps = ExpressionOf(ProducerOf(value)).steps.size();
    for (int source = recompute_source_[value];
         source != kNone && steps <= kMaxChainSteps;
         source = recompute_source_[source]) {
      if (BytesOf(source) <= BytesOf(value)) {
        root = source;
        if (IsKept(source, last_late_reader_[value])) break;
      }
      if (recompute_source_[source] != kNone) {
        steps += ExpressionOf(ProducerOf(source)).steps.size();
      }
    }
    return root;
  }

  // Chooses, root by root, the values to rematerialize. Returns false if there
  // are none.
  bool ChooseValues() {
    std::vector<std::pair<int, int>> by_root;  // root, value
    for (const Instruction& map : program_.instructions) {
      if (map.opcode != Opcode::kMap) continue;
      const int value = map.results[0];
      if (last_late_reader_[value] == kNone) continue;
      const int root = RootOf(value);
      if (root != kNone) {
        by_root.emplace_back(root, value);
      } else {
        last_late_reader_[value] = kNone;  // kept alive: a source for others
      }
    }
    absl::c_sort(by_root);
    bool chosen = false;
    growth_.assign(by_root.empty() ? 0 : program_.instructions.size(), {});
    for (auto begin = by_root.begin(); begin != by_root.end();) {
      const auto end = std::find_if(begin, by_root.end(), [&](const auto& of) {
        return of.first != begin->first;
      });
      // The values that would be recomputed from one root, chosen together:
      // what must stay alive for one serves all.
      const int root = begin->first;
      std::vector<int> values;
      for (auto of = begin; of != end; ++of) {
        if (ReserveGrowth(of->second, root)) values.push_back(of->second);
      }
      if (AreIndependent(values, root) && SaveMemory(values, root)) {
        for (int value : values) {
          chosen_root_[value] = root;
          for (int operand : LateOperands(value, root)) {
            must_stay_[operand] = true;
          }
        }
        chosen = true;
      } else {
        for (int value : values) AddGrowth(value, root, -1);
      }
      begin = end;
    }
    return chosen;
  }

  // Adds `sign` times the steps and operands that recompute `value` from `root`
  // to the growth of its late readers. Returns whether all of them stay within
  // the limits of a kernel.
  bool AddGrowth(int value, int root, int sign) {
    int steps = 0, operands = 0;
    for (int link = value; link != root; link = recompute_source_[link]) {
      steps += static_cast<int>(ExpressionOf(ProducerOf(link)).steps.size());
      operands += static_cast<int>(ProducerOf(link).operands.size());
    }
    bool fits = true;
    for (int reader : late_readers_.Of(value)) {
      const Instruction& reads = program_.instructions[reader];
      Growth& growth = growth_[reader];
      growth.steps += sign * steps;
      growth.operands += sign * operands;
      fits = fits &&
             ExpressionOf(reads).steps.size() + growth.steps <= kMaxMapSteps &&
             reads.operands.size() + growth.operands <= kMaxMapOperands;
    }
    return fits;
  }
  // Reserves the growth if it is within the limits.
  bool ReserveGrowth(int value, int root) {
    if (AddGrowth(value, root, 1)) return true;
    AddGrowth(value, root, -1);
    return false;
  }

  // The operands of the maps from `root` to `value` that those maps read late.
  std::vector<int> LateOperands(int value, int root) const {
    std::vector<int> late;
    for (int link = value; link != root; link = recompute_source_[link]) {
      for (int operand : ProducerOf(link).operands) {
        if (late_readers_.producer(operand) >= 0 &&
            late_readers_.IsLate(late_readers_.producer(link), operand)) {
          late.push_back(operand);
        }
      }
    }
    return late;
  }

  // Whether none of the maps to be recomputed is itself chosen or extended in
  // this round: its size would not be known yet.
  bool AreIndependent(const std::vector<int>& values, int root) const {
    return absl::c_all_of(values, [&](int value) {
      return !must_stay_[value] &&
             absl::c_all_of(LateOperands(value, root), [&](int operand) {
               return chosen_root_[operand] == kNone;
             });
    });
  }

  // Whether recomputing `values` from `root` keeps fewer bytes alive in all,
  // and not notably more at the end of each segment, when the values read last
  // are all that is left to save. Row and column statistics, at most an eighth,
  // do not count there.
  bool SaveMemory(std::vector<int> values, int root) const {
    absl::c_stable_sort(values, [this](int a, int b) {
      return last_late_reader_[a] > last_late_reader_[b];
    });
    int64_t saved = 0, kept = 0;
    std::vector<int> known;
    for (size_t i = 0; i < values.size(); ++i) {
      const int value = values[i];
      saved += BytesOf(value);
      for (int link = value; link != root; link = recompute_source_[link]) {
        for (int operand : ProducerOf(link).operands) {
          if ((operand == recompute_source_[link] && operand != root) ||
              IsKept(operand, last_late_reader_[value]) ||
              absl::c_linear_search(known, operand)) {
            continue;
          }
          known.push_back(operand);
          kept += BytesOf(operand);
        }
      }
      const bool ends =
          i + 1 == values.size() ||
          late_readers_.segment(last_late_reader_[values[i + 1]]) !=
              late_readers_.segment(last_late_reader_[value]);
      if (ends && kept > saved + saved / 8) return false;
    }
    return kept < saved;
  }

  // Fuses the chosen values into their late readers.
  void Rewrite() {
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      Instruction& reader = program_.instructions[i];
      if (!HasExpression(reader)) continue;
      // AbsorbMap changes the operands of the reader.
      const auto operands = reader.operands;
      for (int value : operands) {
        const int root = chosen_root_[value];
        if (root == kNone || !late_readers_.IsLate(static_cast<int>(i), value))
          continue;
        for (int link = value; link != root; link = recompute_source_[link]) {
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

  // Steps and operands that recomputation adds to a reader.
  struct Growth {
    int steps = 0, operands = 0;
  };

  Program& program_;
  const LateReaders late_readers_;
  // By value; kNone where there is none.
  std::vector<int> recompute_source_;  // operand to recompute it from
  std::vector<int> last_late_reader_;  // if all late readers can recompute it
  std::vector<int> chosen_root_;       // what it is recomputed from, if chosen
  // By value: a map chosen in this round reads it late, so it is not chosen
  // itself.
  std::vector<bool> must_stay_;
  std::vector<Growth> growth_;  // by instruction
};

}  // namespace

absl::Status RematerializeMaps(Program& program) {
  // A value kept alive for one rematerialization may be the source of another.
  while (MapRematerializer(program).Run()) {
    // A value that lost its late readers may have a single reader now.
    MTF_RETURN_IF_ERROR(FuseMaps(program));
  }
  return absl::OkStatus();
}

}  // namespace mtf
