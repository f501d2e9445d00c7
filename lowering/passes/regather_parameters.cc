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

// The number of other parameters that may be read between two reads of a copy
// that is kept.
constexpr size_t kMaxReuseDistance = 4;
// The maximum number of instructions between a variable and its copy. Longer
// chains are arithmetic of the user's and not worth repeating.
constexpr int kMaxCopyDepth = 8;

class ParameterRegatherer {
 public:
  explicit ParameterRegatherer(Program& program)
      : program_(program), copies_(program.values.size()) {}

  void Run() {
    FindCopies();
    FindDeferred();
    before_ = std::move(program_.instructions);
    program_.instructions.clear();
    program_.instructions.reserve(before_.size() + before_.size() / 8);
    for (Instruction& instruction : before_) {
      // Written directly before its readers instead.
      if (!instruction.results.empty() &&
          copies_[instruction.results[0]].is_deferred)
        continue;
      for (int& operand : instruction.operands) {
        if (copies_[operand].is_deferred) {
          operand = CopyFor(operand, instruction.origin);
        }
      }
      program_.instructions.push_back(std::move(instruction));
    }
  }

 private:
  // A value computed from one variable alone by cheap instructions.
  struct Copy {
    int variable = -1;           // its index; -1 for any other value
    int depth = 0;               // instructions from the variable
    int producer = -1;           // instruction
    bool gathered = false;       // a rule of [parameters] causes the gather
    bool keep_gathered = false;  // by [parameters keep_gathered]
    bool is_deferred = false;    // computed directly before its readers
    int current = -1;            // the value that currently holds it
    size_t last_read = 0;        // size of reads_ after its latest read
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
      if (from.variable < 0 || from.depth == kMaxCopyDepth) continue;
      Copy& copy = copies_[instruction.results[0]];
      copy = from;
      ++copy.depth;
      copy.producer = static_cast<int>(i);
      if (instruction.opcode != Opcode::kAllGather) continue;
      for (const Cause& cause : instruction.causes) {
        if (cause.rule < 0) continue;
        const LayoutRule& rule = program_.rules[cause.rule];
        if (rule.section != RuleSection::kParameters) continue;
        copy.gathered = true;
        copy.keep_gathered = copy.keep_gathered || rule.keep_gathered;
      }
    }
  }

  // Gathered copies are computed directly before their readers, and with them
  // values without other readers, such as the cast of a shard.
  void FindDeferred() {
    // By value: whether a deferred instruction reads it, and whether any other
    // does.
    std::vector<bool> has_deferred_reader(copies_.size()),
        has_other_reader(copies_.size());
    for (size_t i = before().size(); i-- > 0;) {
      const Instruction& instruction = before()[i];
      bool is_deferred = false;
      if (!instruction.results.empty()) {
        const int result = instruction.results[0];
        Copy& copy = copies_[result];
        copy.is_deferred = copy.producer >= 0 &&
                           (copy.gathered || (has_deferred_reader[result] &&
                                              !has_other_reader[result]));
        is_deferred = copy.is_deferred;
      }
      for (int operand : instruction.operands) {
        (is_deferred ? has_deferred_reader : has_other_reader)[operand] = true;
      }
    }
  }

  // The value that a reader of `origin` reads in place of `value`; computes it
  // again if it is not kept.
  int CopyFor(int value, int origin) {
    Copy& copy = copies_[value];
    if (!IsAvailable(copy)) {
      const bool first = copy.current < 0;
      const int current =
          first ? value : AddValueLike(value, program_.values[value].layout);
      Instruction repeated = before_[copy.producer];
      const int from = repeated.operands[0];
      if (IsCastOfGather(repeated) && !IsAvailable(copies_[from])) {
        // Only the cast reads the gathered value: cast first, so that the
        // narrower dtype is sent.
        Instruction gather = before_[copies_[from].producer];
        gather.operands[0] = OperandFor(gather.operands[0], origin);
        repeated.operands[0] = gather.operands[0];
        repeated.results[0] = gather.operands[0] =
            AddValueLike(value, program_.values[gather.operands[0]].layout);
        Write(std::move(repeated), first, origin);
        repeated = std::move(gather);
      } else {
        repeated.operands[0] = OperandFor(from, origin);
      }
      repeated.results[0] = current;
      Write(std::move(repeated), first, origin);
      copy.current = current;
    }
    if (reads_.empty() || reads_.back() != copy.variable) {
      reads_.push_back(copy.variable);
    }
    copy.last_read = reads_.size();
    return copy.current;
  }

  int OperandFor(int value, int origin) {
    return copies_[value].is_deferred ? CopyFor(value, origin) : value;
  }

  // Adds a value with the name, dtype and shape of `value`, in `layout`.
  int AddValueLike(int value, TensorLayout layout) {
    const ProgramValue like =
        program_.values[value];  // AddValue may reallocate
    return program_.AddValue(like.name, like.dtype, like.shape,
                             std::move(layout));
  }

  // A repeated gather has the origin of its reader.
  void Write(Instruction instruction, bool first, int origin) {
    if (!first) instruction.origin = origin;
    program_.instructions.push_back(std::move(instruction));
  }

  bool IsCastOfGather(const Instruction& cast) const {
    const Copy& from = copies_[cast.operands[0]];
    const ProgramValue &wide = program_.values[cast.operands[0]],
                       &narrow = program_.values[cast.results[0]];
    return IsCast(cast) && from.is_deferred &&
           before_[from.producer].opcode == Opcode::kAllGather &&
           wide.shape == narrow.shape &&
           DTypeSize(narrow.dtype) < DTypeSize(wide.dtype);
  }

  // Whether the copy is still kept for a reader at the current position.
  bool IsAvailable(const Copy& copy) const {
    return copy.current >= 0 &&
           (copy.keep_gathered || IsWithinReuseDistance(copy));
  }

  // Whether at most kMaxReuseDistance other variables were read since.
  bool IsWithinReuseDistance(const Copy& copy) const {
    absl::InlinedVector<int, kMaxReuseDistance> others;
    for (size_t i = copy.last_read; i < reads_.size(); ++i) {
      if (reads_[i] == copy.variable ||
          std::find(others.begin(), others.end(), reads_[i]) != others.end()) {
        continue;
      }
      if (others.size() == kMaxReuseDistance) return false;
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
  std::vector<int> reads_;    // variables in the order of their reads
};

}  // namespace

absl::Status RegatherParameters(Program& program) {
  const bool stores_shards = std::any_of(
      program.rules.begin(), program.rules.end(), [](const LayoutRule& rule) {
        return rule.section == RuleSection::kParameters;
      });
  if (stores_shards) ParameterRegatherer(program).Run();
  return absl::OkStatus();
}

}  // namespace mtf
