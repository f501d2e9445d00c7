// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/place_host_copies.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace mtf {
namespace {

// A copy in device memory is kept for its next reader over so many
// instructions, such as the arithmetic of an update.
constexpr int kMaxIdleInstructions = 8;

class HostCopyPlacer {
 public:
  explicit HostCopyPlacer(Program& program)
      : program_(program),
        variable_of_(program.values.size(), -1),
        written_value_(program.values.size(), -1),
        copies_(program.values.size()),
        last_read_(program.variables.size(), -1) {
    for (size_t v = 0; v < program.variables.size(); ++v) {
      if (!program.variables[v].offloaded) continue;
      offloaded_[program.variables[v].name] = static_cast<int>(v);
    }
  }

  void Run() {
    FindReads();
    const std::vector<Instruction> instructions =
        std::exchange(program_.instructions, {});
    const int count = static_cast<int>(instructions.size());
    std::vector<std::vector<Write>> writes(count);  // by the instruction before
    for (int i = 0; i < count; ++i) {
      Instruction instruction = instructions[i];
      for (int& operand : instruction.operands) {
        operand = OnDevice(operand, i, instruction.origin);
      }
      const int variable = OffloadedBy(instruction, Opcode::kWriteVariable);
      if (variable < 0) {
        program_.instructions.push_back(std::move(instruction));
      } else {
        const int after = std::max({i, last_read_[variable], last_failure_});
        writes[after].push_back(std::move(instruction));
      }
      for (Write& write : writes[i]) AppendWrite(std::move(write));
    }
  }

 private:
  using Write = Instruction;

  // The copy of a variable in device memory, for the readers up to some more
  // instructions.
  struct DeviceCopy {
    int value = -1;
    int last_reader = -1;
  };

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

  void FindReads() {
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      const int index = static_cast<int>(i);
      if (CanFail(instruction.opcode)) last_failure_ = index;
      for (int operand : instruction.operands) {
        const int variable = variable_of_[Source(operand)];
        if (variable >= 0) last_read_[variable] = index;
      }
      if (OffloadedBy(instruction, Opcode::kWriteVariable) >= 0) {
        written_value_[instruction.results[0]] = instruction.operands[0];
      }
      const int read = OffloadedBy(instruction, Opcode::kReadVariable);
      if (read >= 0) variable_of_[instruction.results[0]] = read;
    }
  }

  // `value`, or its copy in device memory for the reader at `index`.
  int OnDevice(int value, int index, int origin) {
    const int source = Source(value);
    if (variable_of_[source] < 0) return source;
    DeviceCopy& copy = copies_[source];
    if (copy.value < 0 || index - copy.last_reader > kMaxIdleInstructions) {
      copy.value = Append(Opcode::kCopyToDevice, source, origin);
    }
    copy.last_reader = index;
    return copy.value;
  }

  void AppendWrite(Instruction write) {
    write.operands[0] =
        Append(Opcode::kCopyToHost, write.operands[0], write.origin);
    program_.instructions.push_back(std::move(write));
  }

  // Appends a copy of `source` and returns the index of its result.
  int Append(Opcode opcode, int source, int origin) {
    const ProgramValue from = program_.values[source];
    const int result =
        program_.AddValue(from.name, from.dtype, from.shape, from.layout);
    program_.values[result].local = from.local;
    Instruction copy(opcode);
    copy.operands = {source};
    copy.results = {result};
    copy.origin = origin;
    program_.instructions.push_back(std::move(copy));
    return result;
  }

  Program& program_;
  // Offloaded variables by name: the index in Program::variables.
  absl::flat_hash_map<std::string, int> offloaded_;
  // By value of the program before the pass.
  std::vector<int> variable_of_;    // the offloaded variable read, or -1
  std::vector<int> written_value_;  // of the write of an offloaded variable
  std::vector<DeviceCopy> copies_;
  std::vector<int> last_read_;  // by variable
  int last_failure_ = -1;       // the last instruction that can fail
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
