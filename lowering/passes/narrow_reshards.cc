// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/narrow_reshards.h"

#include <utility>
#include <vector>

#include "lowering/program/readers.h"

namespace mtf {
namespace {

// Whether `instruction` only casts a value of the same shape.
bool IsCastInShape(const Program& program, const Instruction& instruction) {
  return IsCast(instruction) &&
         program.values[instruction.operands[0]].shape ==
             program.values[instruction.results[0]].shape;
}

bool IsNarrower(const ProgramValue& a, const ProgramValue& b) {
  return DTypeSize(a.dtype) < DTypeSize(b.dtype);
}

bool IsWideningCast(const Program& program, const Instruction& instruction) {
  return IsCastInShape(program, instruction) &&
         IsNarrower(program.values[instruction.operands[0]],
                    program.values[instruction.results[0]]);
}

// Casts and reshards that follow each other and are to be swapped.
struct SwappedPairs {
  std::vector<int> earlier;  // by instruction: its partner before it, or -1
  std::vector<bool> has_partner;  // by instruction: it is such a partner
  bool any = false;               // a pair, or a widening cast to delay
};

// Whether swapping `later` with `earlier`, the producer of its operand, sends
// fewer bytes and keeps the result.
bool CanSwap(const Program& program, const Instruction& earlier,
             const Instruction& later) {
  if (earlier.operands.size() != 1) return false;
  const ProgramValue &source = program.values[earlier.operands[0]],
                     &middle = program.values[later.operands[0]],
                     &result = program.values[later.results[0]];
  if (later.opcode == Opcode::kReshard) {
    return IsCastInShape(program, earlier) && IsNarrower(source, middle) &&
           source.layout == middle.layout;
  }
  // Before a reduction a narrowing cast would lose precision.
  return earlier.opcode == Opcode::kReshard && IsNarrower(result, middle) &&
         result.layout == middle.layout && source.layout.unreduced == 0;
}

SwappedPairs FindPairs(const Program& program) {
  const std::vector<int> readers = CountReaders(program);
  const std::vector<int> producers = FindProducers(program);
  SwappedPairs pairs;
  pairs.earlier.assign(program.instructions.size(), -1);
  pairs.has_partner.assign(program.instructions.size(), false);
  for (size_t i = 0; i < pairs.earlier.size(); ++i) {
    const Instruction& later = program.instructions[i];
    if (later.opcode != Opcode::kReshard && !IsCastInShape(program, later))
      continue;
    pairs.any = pairs.any || IsWideningCast(program, later);
    const int earlier = producers[later.operands[0]];
    if (earlier < 0 || pairs.has_partner[earlier] ||
        pairs.earlier[earlier] >= 0 || readers[later.operands[0]] != 1 ||
        !CanSwap(program, program.instructions[earlier], later)) {
      continue;
    }
    pairs.earlier[i] = earlier;
    pairs.has_partner[earlier] = pairs.any = true;
  }
  return pairs;
}

// Rewrites a program: swaps the pairs, at the position of the later
// instruction, and delays each widening cast until its first reader.
class NarrowingWriter {
 public:
  NarrowingWriter(const SwappedPairs& pairs, Program& program)
      : pairs_(pairs),
        program_(program),
        delayed_cast_(program.values.size(), -1) {}

  void Run() {
    before_ = std::move(program_.instructions);
    program_.instructions.clear();
    program_.instructions.reserve(before_.size());
    for (size_t i = 0; i < before_.size(); ++i) {
      if (pairs_.has_partner[i]) continue;
      if (pairs_.earlier[i] >= 0) {
        WriteSwapped(pairs_.earlier[i], before_[i]);
      } else if (IsWideningCast(program_, before_[i])) {
        delayed_cast_[before_[i].results[0]] = static_cast<int>(i);
      } else {
        Write(before_[i]);
      }
    }
  }

 private:
  // The delayed cast that produces `value`, or -1.
  int DelayedCast(int value) const {
    return value < static_cast<int>(delayed_cast_.size()) ? delayed_cast_[value]
                                                          : -1;
  }

  // Writes an instruction, after the delayed casts that it reads.
  void Write(Instruction& instruction) {
    // A cast may read the result of another: collects them from the reader
    // back to the first, then writes them in reverse.
    std::vector<int>& values = values_;
    values.assign(instruction.operands.begin(), instruction.operands.end());
    for (size_t i = 0; i < values.size(); ++i) {
      const int cast = DelayedCast(values[i]);
      if (cast >= 0) values.push_back(before_[cast].operands[0]);
    }
    for (size_t i = values.size(); i-- > 0;) {
      const int cast = DelayedCast(values[i]);
      if (cast < 0) continue;
      delayed_cast_[values[i]] = -1;
      program_.instructions.push_back(std::move(before_[cast]));
    }
    program_.instructions.push_back(std::move(instruction));
  }

  // Writes a pair in the other order, with a new value in between.
  void WriteSwapped(int earlier_index, Instruction& later) {
    Instruction& earlier = before_[earlier_index];
    const ProgramValue source = program_.values[earlier.operands[0]];
    const int result = later.results[0];
    const bool is_reshard = later.opcode == Opcode::kReshard;
    const int between = program_.AddValue(
        source.name, is_reshard ? source.dtype : program_.values[result].dtype,
        source.shape,
        is_reshard ? program_.values[result].layout : source.layout);
    program_.values[between].causes =
        is_reshard ? program_.values[result].causes : source.causes;
    later.operands = {earlier.operands[0]};
    later.results = {between};
    earlier.operands = {between};
    earlier.results = {result};
    Write(later);
    if (is_reshard) {
      delayed_cast_[result] = earlier_index;
    } else {
      Write(earlier);
    }
  }

  const SwappedPairs& pairs_;
  Program& program_;
  std::vector<Instruction> before_;
  std::vector<int> delayed_cast_;  // by value of the original program, or -1
  std::vector<int> values_;        // of Write, which would allocate each time
};

}  // namespace

absl::Status NarrowReshards(Program& program) {
  const SwappedPairs pairs = FindPairs(program);
  if (pairs.any) NarrowingWriter(pairs, program).Run();
  return absl::OkStatus();
}

}  // namespace mtf
