// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/regather_parameters.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "lowering/program/derived_from_parameters.h"

namespace mtf {
namespace {

// Other parameters that may be read before a copy is read again.
constexpr size_t kNear = 4;
// Instructions between a variable and its copy. What is longer is arithmetic
// of the user's, not worth to be done twice.
constexpr int kLongest = 8;

class Repeater {
 public:
  explicit Repeater(Program& program)
      : program_(program), copies_(program.values.size()) {}

  void Run() {
    FindCopies();
    FindSunk();
    before_ = std::move(program_.instructions);
    program_.instructions.clear();
    program_.instructions.reserve(before_.size() + before_.size() / 8);
    for (Instruction& instruction : before_) {
      // Written before its readers.
      if (!instruction.results.empty() && copies_[instruction.results[0]].sunk)
        continue;
      for (int& operand : instruction.operands) {
        if (copies_[operand].sunk) {
          operand = CopyFor(operand, instruction.origin);
        }
      }
      program_.instructions.push_back(std::move(instruction));
    }
  }

 private:
  // What is known of a value that a variable alone was made into.
  struct Copy {
    int variable = -1;      // which one; -1 for any other value
    int depth = 0;          // instructions between the two
    int maker = -1;         // place of its instruction
    bool gathered = false;  // by a rule of [parameters]
    bool keep = false;      // of [parameters keep_gathered]
    bool sunk = false;      // it is made where it is read, not where it stands
    int now = -1;           // the value that holds it at present
    size_t read = 0;        // how many reads there were up to its latest
  };

  void FindCopies() {
    absl::flat_hash_map<std::string, int> variables;
    for (size_t i = 0; i < before().size(); ++i) {
      const Instruction& instruction = before()[i];
      if (instruction.opcode == Opcode::kReadVariable) {
        const int next = static_cast<int>(variables.size());
        copies_[instruction.results[0]].variable =
            variables.try_emplace(instruction.Get<NameAttributes>().name, next)
                .first->second;
        continue;
      }
      if (!IsUnaryMapOrMove(instruction)) continue;
      const Copy& from = copies_[instruction.operands[0]];
      if (from.variable < 0 || from.depth == kLongest) continue;
      Copy& copy = copies_[instruction.results[0]];
      copy = from;
      ++copy.depth;
      copy.maker = static_cast<int>(i);
      if (instruction.opcode != Opcode::kAllGather) continue;
      for (const Cause& cause : instruction.causes) {
        if (cause.rule < 0) continue;
        const LayoutRule& rule = program_.rules[cause.rule];
        if (rule.section != RuleSection::kParameters) continue;
        copy.gathered = true;
        copy.keep = copy.keep || rule.keep_gathered;
      }
    }
  }

  // Gathered copies are made where they are read, and with them what is made
  // for nothing else, such as the cast of a shard.
  void FindSunk() {
    // By value: who reads it, what sinks or what stays?
    std::vector<bool> sinks(copies_.size()), stays(copies_.size());
    for (size_t i = before().size(); i-- > 0;) {
      const Instruction& instruction = before()[i];
      bool sunk = false;
      if (!instruction.results.empty()) {
        const int result = instruction.results[0];
        Copy& copy = copies_[result];
        copy.sunk = copy.maker >= 0 &&
                    (copy.gathered || (sinks[result] && !stays[result]));
        sunk = copy.sunk;
      }
      for (int operand : instruction.operands) {
        (sunk ? sinks : stays)[operand] = true;
      }
    }
  }

  // The value that holds `value` for a reader of `origin`.
  int CopyFor(int value, int origin) {
    Copy& copy = copies_[value];
    if (!IsThere(copy)) {
      const bool first = copy.now < 0;
      const int now =
          first ? value : Like(value, program_.values[value].layout);
      Instruction made = before_[copy.maker];
      const int from = made.operands[0];
      if (IsCastOfGather(made) && !IsThere(copies_[from])) {
        // Nobody but the cast would read what is gathered: the narrower dtype
        // goes over the wire.
        Instruction gather = before_[copies_[from].maker];
        gather.operands[0] = OperandFor(gather.operands[0], origin);
        made.operands[0] = gather.operands[0];
        made.results[0] = gather.operands[0] =
            Like(value, program_.values[gather.operands[0]].layout);
        Write(std::move(made), first, origin);
        made = std::move(gather);
      } else {
        made.operands[0] = OperandFor(from, origin);
      }
      made.results[0] = now;
      Write(std::move(made), first, origin);
      copy.now = now;
    }
    if (reads_.empty() || reads_.back() != copy.variable) {
      reads_.push_back(copy.variable);
    }
    copy.read = reads_.size();
    return copy.now;
  }

  int OperandFor(int value, int origin) {
    return copies_[value].sunk ? CopyFor(value, origin) : value;
  }

  // Another value of the kind of `value`, in `layout`.
  int Like(int value, TensorLayout layout) {
    const ProgramValue like = program_.values[value];  // values will move
    return program_.AddValue(like.name, like.dtype, like.shape,
                             std::move(layout));
  }

  // A gather is explained by its reader.
  void Write(Instruction instruction, bool first, int origin) {
    if (!first) instruction.origin = origin;
    program_.instructions.push_back(std::move(instruction));
  }

  bool IsCastOfGather(const Instruction& cast) const {
    const Copy& from = copies_[cast.operands[0]];
    const ProgramValue &wide = program_.values[cast.operands[0]],
                       &narrow = program_.values[cast.results[0]];
    return IsCast(cast) && from.sunk &&
           before_[from.maker].opcode == Opcode::kAllGather &&
           wide.shape == narrow.shape &&
           DTypeSize(narrow.dtype) < DTypeSize(wide.dtype);
  }

  // Whether the copy is still kept for a reader that comes now.
  bool IsThere(const Copy& copy) const {
    return copy.now >= 0 && (copy.keep || IsNear(copy));
  }

  bool IsNear(const Copy& copy) const {
    absl::InlinedVector<int, kNear> others;
    for (size_t i = copy.read; i < reads_.size(); ++i) {
      if (reads_[i] == copy.variable ||
          std::find(others.begin(), others.end(), reads_[i]) != others.end()) {
        continue;
      }
      if (others.size() == kNear) return false;
      others.push_back(reads_[i]);
    }
    return true;
  }

  const std::vector<Instruction>& before() const {
    return program_.instructions;
  }

  Program& program_;
  std::vector<Instruction> before_;
  std::vector<Copy> copies_;  // by value
  std::vector<int> reads_;    // variables, in order of their reads
};

}  // namespace

absl::Status RegatherParameters(Program& program) {
  const bool rests = std::any_of(
      program.rules.begin(), program.rules.end(), [](const LayoutRule& rule) {
        return rule.section == RuleSection::kParameters;
      });
  if (rests) Repeater(program).Run();
  return absl::OkStatus();
}

}  // namespace mtf
