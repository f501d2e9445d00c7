// SPDX-License-Identifier: Apache-2.0
#include "lowering/verify_overlap.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/plan_buffers.h"
#include "mtf/status.h"

namespace mtf::internal {
namespace {

// Some memory: bytes of the arena, or a variable.
struct Range {
  int value = -1;
  const std::string* variable = nullptr;
  int64_t begin = 0, end = 0;  // in the arena

  bool Meets(const Range& other) const {
    if (variable != nullptr || other.variable != nullptr) {
      return variable != nullptr && other.variable != nullptr &&
             *variable == *other.variable;
    }
    return begin < other.end && other.begin < end;
  }
};

class Verifier {
 public:
  explicit Verifier(const Program& program)
      : program_(program),
        has_places_(program.buffers.buffers.size() == program.values.size()),
        made_by_(program.values.size(), -1) {}

  absl::Status Run(int* bad) {
    const bool overlaps = std::any_of(
        program_.instructions.begin(), program_.instructions.end(),
        [](const Instruction& instruction) {
          return instruction.beside || instruction.opcode == Opcode::kWait;
        });
    if (!overlaps) return absl::OkStatus();
    if (has_places_) FindOwners();
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      *bad = static_cast<int>(i);
      MTF_RETURN_IF_ERROR(Check(static_cast<int>(i)));
    }
    if (open_.empty()) return absl::OkStatus();
    *bad = open_.front().instruction;
    return absl::InternalError("nobody waits for a collective that is beside");
  }

 private:
  // A collective that may still be under way.
  struct Open {
    int instruction = -1;
    std::vector<Range> operands, results;
  };

  absl::Status Check(int i) {
    const Instruction& instruction = program_.instructions[i];
    if (instruction.opcode == Opcode::kWait) return CheckWait(instruction);
    for (int operand : instruction.operands) {
      if (made_by_[operand] < 0) continue;
      return absl::InternalError(absl::StrCat(
          "%", program_.values[operand].name, " is read before its wait"));
    }
    if (has_places_) MTF_RETURN_IF_ERROR(CheckPlaces(instruction));
    if (!instruction.beside) return absl::OkStatus();
    if (!IsCollective(instruction.opcode) ||
        instruction.opcode == Opcode::kAllSlice) {
      return absl::InternalError(
          "only what moves between ranks can run beside");
    }
    Open open;
    open.instruction = i;
    for (int operand : instruction.operands) Add(operand, open.operands);
    for (int result : instruction.results) {
      made_by_[result] = i;
      Add(result, open.results);
    }
    open_.push_back(std::move(open));
    return absl::OkStatus();
  }

  absl::Status CheckWait(const Instruction& wait) {
    for (int operand : wait.operands) {
      const int by = made_by_[operand];
      if (by < 0) {
        return absl::InternalError(absl::StrCat(
            "%", program_.values[operand].name, " is not made beside"));
      }
      const Instruction& collective = program_.instructions[by];
      if (collective.results[0] != operand) {
        return absl::InternalError(
            absl::StrCat("a wait names the first result, which is %",
                         program_.values[collective.results[0]].name, ", not %",
                         program_.values[operand].name));
      }
      for (int result : collective.results) made_by_[result] = -1;
      open_.erase(std::find_if(
          open_.begin(), open_.end(),
          [by](const Open& open) { return open.instruction == by; }));
    }
    return absl::OkStatus();
  }

  // Values that share memory with another, from which a view was taken.
  void FindOwners() {
    owner_.resize(program_.values.size());
    for (size_t v = 0; v < owner_.size(); ++v) owner_[v] = static_cast<int>(v);
    for (const Instruction& instruction : program_.instructions) {
      if (IsViewOfOperand(instruction)) {
        owner_[instruction.results[0]] = owner_[instruction.operands[0]];
      }
    }
  }
  bool IsViewOfOperand(const Instruction& instruction) const {
    return instruction.opcode == Opcode::kWriteVariable ||
           (instruction.opcode == Opcode::kReshape &&
            IsView(program_, instruction));
  }

  void Add(int value, std::vector<Range>& ranges) const {
    if (!has_places_) return;
    const BufferPlan::Buffer& buffer = program_.buffers.buffers[owner_[value]];
    Range range;
    range.value = value;
    if (buffer.place == BufferPlan::Place::kNone) return;
    if (buffer.place == BufferPlan::Place::kVariable) {
      range.variable = &buffer.symbol;
    } else {
      const ProgramValue& described = program_.values[value];
      range.begin = buffer.offset;
      range.end =
          buffer.offset +
          LocalElements(program_.grains, described.shape, described.layout) *
              DTypeSize(described.dtype);
    }
    ranges.push_back(range);
  }

  absl::Status CheckPlaces(const Instruction& instruction) const {
    if (open_.empty()) return absl::OkStatus();
    if (instruction.opcode == Opcode::kInput ||
        instruction.opcode == Opcode::kReadVariable ||
        IsViewOfOperand(instruction)) {
      return absl::OkStatus();  // touches no memory in its place
    }
    std::vector<Range> reads, writes;
    for (int operand : instruction.operands) Add(operand, reads);
    for (int result : instruction.results) Add(result, writes);
    for (const Open& open : open_) {
      for (const Range& write : writes) {
        MTF_RETURN_IF_ERROR(CheckApart(write, open.operands, "written"));
        MTF_RETURN_IF_ERROR(CheckApart(write, open.results, "written"));
      }
      for (const Range& read : reads) {
        MTF_RETURN_IF_ERROR(CheckApart(read, open.results, "read"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckApart(const Range& range, const std::vector<Range>& open,
                          absl::string_view what) const {
    for (const Range& other : open) {
      if (!range.Meets(other)) continue;
      return absl::InternalError(
          absl::StrCat("%", program_.values[range.value].name, " is ", what,
                       " where a collective beside has %",
                       program_.values[other.value].name));
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const bool has_places_;
  std::vector<int> made_by_;  // by value: the open collective, or -1
  std::vector<int> owner_;    // by value
  std::vector<Open> open_;    // in the order of the program
};

}  // namespace

absl::Status VerifyOverlap(const Program& program, int* bad) {
  return Verifier(program).Run(bad);
}

}  // namespace mtf::internal
