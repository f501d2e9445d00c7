// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/place_host_copies.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "lowering/program/is_no_op.h"

namespace mtf {
namespace {

// A copy in device memory is kept for its next reader over so many
// instructions, such as the arithmetic of an update.
constexpr int kMaxIdleInstructions = 8;

// A copy is placed at most so many instructions before its reader.
constexpr int kMaxGroupSpan = 8;

class HostCopyPlacer {
 public:
  explicit HostCopyPlacer(Program& program)
      : program_(program),
        variable_of_(program.values.size(), -1),
        written_value_(program.values.size(), -1),
        ready_at_(program.values.size(), -1),
        copies_(program.values.size()),
        last_read_(program.variables.size(), -1) {
    for (size_t v = 0; v < program.variables.size(); ++v) {
      if (!program.variables[v].offloaded) continue;
      offloaded_[program.variables[v].name] = static_cast<int>(v);
    }
  }

  void Run() {
    FindReads();
    const int count = static_cast<int>(program_.instructions.size());
    before_.resize(count);
    after_.resize(count);
    for (int i = 0; i < count; ++i) Place(i);
    std::vector<Instruction> placed;
    for (int i = 0; i < count; ++i) {
      for (auto* list : {&before_[i], &after_[i]}) {
        placed.insert(placed.end(), std::make_move_iterator(list->begin()),
                      std::make_move_iterator(list->end()));
      }
    }
    program_.instructions = std::move(placed);
  }

 private:
  // The copy of a variable in device memory, for the readers up to some more
  // instructions.
  struct DeviceCopy {
    int value = -1;
    int last_reader = -1;
    int read_variable = -1;  // the instruction
  };

  // Puts instruction `i` with the copies that it needs into the lists.
  void Place(int i) {
    Instruction instruction = program_.instructions[i];
    for (int& operand : instruction.operands) operand = OnDevice(operand, i);
    const int variable = OffloadedBy(instruction, Opcode::kWriteVariable);
    if (variable < 0) {
      before_[i].push_back(std::move(instruction));
      return;
    }
    const int after =
        std::max({ReadyAt(program_.instructions[i].operands[0], i),
                  last_read_[variable], last_failure_});
    Instruction copy =
        Copy(Opcode::kCopyToHost, instruction.operands[0], instruction.origin);
    instruction.operands = {copy.results[0]};
    after_[after].push_back(std::move(copy));
    after_[after].push_back(std::move(instruction));
  }

  // The instruction before which a variable is copied for the map or reduction
  // `reader`. It may be a later member of a group, which runs at its first
  // member: a bias of the einsum before, or the scale of a norm.
  int BeforeGroupOf(int reader, int read_variable) const {
    const std::vector<Instruction>& all = program_.instructions;
    int position = reader;
    if (!HasExpression(all[reader])) return position;
    const int first = std::max(read_variable + 1, reader - kMaxGroupSpan);
    for (int i = reader - 1; i >= first; --i) {
      const Opcode opcode = all[i].opcode;
      if (opcode == Opcode::kEinsum) return i;
      if (opcode == Opcode::kReduce) position = i;
      if (!HasExpression(all[i]) && !IsNoOp(program_, all[i])) break;
    }
    return position;
  }

  // The offloaded variable that an instruction of this opcode reads or writes,
  // or -1.
  int OffloadedBy(const Instruction& instruction, Opcode opcode) const {
    if (instruction.opcode != opcode) return -1;
    const auto found = offloaded_.find(instruction.Get<NameAttributes>().name);
    return found == offloaded_.end() ? -1 : found->second;
  }

  // The value that readers of `value` have: that of a written variable is the
  // value that was written, because the variable itself is in host memory.
  int Source(int value) const {
    while (written_value_[value] >= 0) value = written_value_[value];
    return value;
  }

  // The instruction after which `value` can be copied for a write at `write`.
  // Writes may all stand at the end, as those of an initialization do; copies
  // there would keep all values in device memory until then.
  int ReadyAt(int value, int write) const {
    const int source = Source(value);
    return variable_of_[source] >= 0 ? write : ready_at_[source];
  }

  void FindReads() {
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      const int index = static_cast<int>(i);
      if (CanFail(instruction.opcode)) last_failure_ = index;
      for (int operand : instruction.operands) {
        const int variable = variable_of_[Source(operand)];
        if (variable >= 0) last_read_[variable] = index;
        if (instruction.opcode == Opcode::kWait) ready_at_[operand] = index;
      }
      for (int result : instruction.results) ready_at_[result] = index;
      if (OffloadedBy(instruction, Opcode::kWriteVariable) >= 0) {
        written_value_[instruction.results[0]] = instruction.operands[0];
      }
      const int read = OffloadedBy(instruction, Opcode::kReadVariable);
      if (read >= 0) {
        variable_of_[instruction.results[0]] = read;
        copies_[instruction.results[0]].read_variable = index;
      }
    }
  }

  // `value`, or its copy in device memory for the reader at `index`.
  int OnDevice(int value, int index) {
    const int source = Source(value);
    if (variable_of_[source] < 0) return source;
    if (copies_[source].value < 0 ||
        index - copies_[source].last_reader > kMaxIdleInstructions) {
      Instruction copy = Copy(Opcode::kCopyToDevice, source,
                              program_.instructions[index].origin);
      copies_[source].value = copy.results[0];
      // Before the instruction there, which is the last of its list.
      const int position = BeforeGroupOf(index, copies_[source].read_variable);
      std::vector<Instruction>& list = before_[position];
      list.insert(list.end() - (position < index ? 1 : 0), std::move(copy));
    }
    copies_[source].last_reader = index;
    return copies_[source].value;
  }

  Instruction Copy(Opcode opcode, int source, int origin) {
    const ProgramValue from = program_.values[source];
    const int result =
        program_.AddValue(from.name, from.dtype, from.shape, from.layout);
    program_.values[result].local = from.local;
    Instruction copy(opcode);
    copy.operands = {source};
    copy.results = {result};
    copy.origin = origin;
    return copy;
  }

  Program& program_;
  // Offloaded variables by name: the index in Program::variables.
  absl::flat_hash_map<std::string, int> offloaded_;
  // By value of the program before the pass.
  std::vector<int> variable_of_;    // the offloaded variable read, or -1
  std::vector<int> written_value_;  // of the write of an offloaded variable
  std::vector<int> ready_at_;  // the instruction that computes or awaits it
  std::vector<DeviceCopy> copies_;
  std::vector<int> last_read_;  // by variable
  int last_failure_ = -1;       // the last instruction that can fail
  // By instruction: what is placed from the copies before it up to itself, and
  // the writes after it.
  std::vector<std::vector<Instruction>> before_, after_;
};

}  // namespace

absl::Status PlaceHostCopies(Program& program) {
  const bool has_copies =
      absl::c_any_of(program.instructions, [](const Instruction& instruction) {
        return CopiesToOrFromHost(instruction.opcode);
      });
  if (!has_copies && program.HasOffloadedVariables()) {
    HostCopyPlacer(program).Run();
  }
  return absl::OkStatus();
}

}  // namespace mtf
