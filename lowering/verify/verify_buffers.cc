// SPDX-License-Identifier: Apache-2.0
#include "lowering/verify/verify_buffers.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/program/is_no_op.h"
#include "lowering/program/print_program.h"
#include "lowering/program/readers.h"
#include "lowering/verify/verify_program.h"
#include "mtf/status.h"

namespace mtf::internal {
namespace {

using Storage = BufferPlan::Storage;

class BufferVerifier {
 public:
  explicit BufferVerifier(const Program& program)
      : program_(program),
        plan_(program.buffers),
        count_(static_cast<int>(program.instructions.size())),
        group_of_(FindGroups(program)),
        is_internal_(FindInternalValues(program)) {
    for (const ProgramVariable& variable : program.variables) {
      variables_[variable.name] = &variable;
    }
  }

  absl::Status Run(int* bad) {
    if (plan_.buffers.size() != program_.values.size()) {
      return absl::InternalError("the buffers are not those of this program");
    }
    FindUses();
    // Inputs and variables are stored before the first instruction runs.
    for (const bool first : {true, false}) {
      for (int i = 0; i < count_; ++i) {
        const Opcode opcode = program_.instructions[i].opcode;
        if (ExistsBeforeStep(opcode) != first) continue;
        *bad = i;
        MTF_RETURN_IF_ERROR(first ? Check(i, -1) : CheckAt(i));
      }
    }
    MTF_RETURN_IF_ERROR(CheckCommit(bad));
    MTF_RETURN_IF_ERROR(CheckHostMemory(bad));
    if (plan_.arena_bytes != end_) {
      *bad = kBadArena;
      return absl::InternalError(
          absl::StrCat("the arena has ", plan_.arena_bytes,
                       " bytes, but its last buffer ends at ", end_,
                       ", in units of ", kArenaAlignment, " bytes"));
    }
    *bad = -1;
    return absl::OkStatus();
  }

 private:
  // A range of the arena and the value that it holds.
  struct Held {
    int64_t end = 0;
    int owner = -1;
  };

  // The group of an instruction whose memory is planned for one kernel, or
  // null.
  const FusedGroup* GroupOf(int i) const {
    if (group_of_[i] < 0) return nullptr;
    const FusedGroup& group = program_.groups[group_of_[i]];
    return group.is_planned() ? &group : nullptr;
  }

  // Checks the results that are written when instruction `i` runs: its own, or
  // those of the group that it is the first member of.
  absl::Status CheckAt(int i) {
    const FusedGroup* group = GroupOf(i);
    if (group == nullptr) return Check(i, i);
    if (group->members.front() != i) return absl::OkStatus();
    for (int member : group->members) MTF_RETURN_IF_ERROR(Check(member, i));
    return absl::OkStatus();
  }

  // Finds the readers and the lifetime of each owner. Values that share memory
  // have one owner: that of a view is the owner of its operand.
  void FindUses() {
    ends_ = finished_ = FindEnds(program_);
    for (const FusedGroup& group : program_.groups) {
      if (!group.is_planned()) continue;
      for (int member : group.members) ends_[member] = group.members.back();
    }
    owner_.resize(program_.values.size());
    for (size_t v = 0; v < owner_.size(); ++v) owner_[v] = static_cast<int>(v);
    producer_.resize(owner_.size(), -1);
    last_.resize(owner_.size(), -1);
    readers_.resize(owner_.size());
    written_.resize(owner_.size());
    for (int i = 0; i < count_; ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (IsView(program_, instruction)) {
        owner_[instruction.results[0]] = owner_[instruction.operands[0]];
      }
      for (int operand : instruction.operands) {
        const int owner = owner_[operand];
        // A written value is copied to its variable when the step ends.
        const bool writes = instruction.opcode == Opcode::kWriteVariable;
        if (writes) written_[owner] = &instruction.Get<NameAttributes>().name;
        readers_[owner].push_back(i);
        last_[owner] = std::max(last_[owner], writes ? count_ : ends_[i]);
      }
      for (int result : instruction.results) {
        if (owner_[result] != result) continue;
        producer_[result] = i;
        last_[result] = finished_[i];
      }
    }
  }

  // The commit is the first instruction that changes a variable in place, or
  // the first of its group, after all that can fail.
  absl::Status CheckCommit(int* bad) const {
    const auto& all = program_.instructions;
    int changed = count_, changes = count_;
    for (int i = 0; i < count_; ++i) {
      if (ChangedBy(all[i]) < 0) continue;
      const int runs_at =
          group_of_[i] < 0 ? i : program_.groups[group_of_[i]].members.front();
      if (runs_at >= changed) continue;
      changed = runs_at;
      changes = i;
    }
    if (plan_.commit != changed) {
      *bad = kBadCommit;
      std::string is = absl::StrCat("no variable changes in place: it is ",
                                    count_, ", the number of instructions");
      if (changed < count_) {
        const int value = ChangedBy(all[changes]);
        is = absl::StrCat(
            "the first instruction that changes a variable in "
            "place is number ",
            changed, " counted from 0, which makes %",
            program_.values[value].name, " at @", plan_.buffers[value].symbol);
      }
      return absl::InternalError(
          absl::StrCat("the commit is ", plan_.commit, ", but ", is));
    }
    for (int i = changed; i < count_; ++i) {
      if (!CanFail(all[i].opcode)) continue;
      *bad = i;
      return absl::InternalError(absl::StrCat(
          OpcodeName(all[i].opcode),
          " can fail, but comes after the commit, instruction number ", changed,
          ", from which on variables change in place"));
    }
    return absl::OkStatus();
  }

  // Whether a value is in the storage of an offloaded variable.
  bool IsInHostMemory(int value) const {
    const BufferPlan::Buffer& buffer = plan_.buffers[owner_[value]];
    if (buffer.storage != Storage::kVariable) return false;
    const auto variable = variables_.find(buffer.symbol);
    return variable != variables_.end() && variable->second->offloaded;
  }

  // Only copies access host memory: copy_to_device reads an offloaded variable,
  // copy_to_host writes one, and its result becomes the variable.
  absl::Status CheckHostMemory(int* bad) const {
    for (int i = 0; i < count_; ++i) {
      const Instruction& instruction = program_.instructions[i];
      *bad = i;
      bool reads_host = instruction.opcode == Opcode::kCopyToDevice;
      if (instruction.opcode == Opcode::kWriteVariable) {
        const auto variable =
            variables_.find(instruction.Get<NameAttributes>().name);
        reads_host =
            variable != variables_.end() && variable->second->offloaded;
      }
      for (int operand : instruction.operands) {
        if (IsInHostMemory(operand) == reads_host) continue;
        return absl::InternalError(
            absl::StrCat(OpcodeName(instruction.opcode), " reads %",
                         program_.values[operand].name, ", which is ",
                         reads_host ? "not " : "", "in host memory"));
      }
      // A variable that is read, or was written, is where it is stored.
      if (instruction.opcode == Opcode::kReadVariable ||
          instruction.opcode == Opcode::kWriteVariable) {
        continue;
      }
      const bool writes_host = instruction.opcode == Opcode::kCopyToHost;
      for (int result : instruction.results) {
        if (IsInHostMemory(result) == writes_host) continue;
        return absl::InternalError(
            absl::StrCat(OpcodeName(instruction.opcode), " writes %",
                         program_.values[result].name, ", which is ",
                         writes_host ? "not " : "", "in host memory"));
      }
    }
    return absl::OkStatus();
  }

  // The result that is stored as the new value of a variable, or -1.
  int ChangedBy(const Instruction& instruction) const {
    if (instruction.opcode == Opcode::kReadVariable) return -1;
    for (int result : instruction.results) {
      if (plan_.buffers[result].storage == Storage::kVariable) return result;
    }
    return -1;
  }

  // Checks the results of instruction `i`, which are written at `begin`.
  absl::Status Check(int i, int begin) {
    const Instruction& instruction = program_.instructions[i];
    for (size_t index = 0; index < instruction.results.size(); ++index) {
      const int result = instruction.results[index];
      const BufferPlan::Buffer& buffer = plan_.buffers[result];
      if (owner_[result] != result) {
        if (buffer.storage == Storage::kNone) continue;
        return absl::InternalError(
            absl::StrCat("%", program_.values[result].name,
                         " has a buffer, but shares that of its operand"));
      }
      switch (buffer.storage) {
        case Storage::kNone:
          if (is_internal_[result]) break;
          return absl::InternalError(
              absl::StrCat("%", program_.values[result].name,
                           " has no buffer, but every value of a program with "
                           "planned buffers has one: \"@\" and an offset, or "
                           "the name of its variable"));
        case Storage::kVariable:
          MTF_RETURN_IF_ERROR(CheckVariable(i, begin, index));
          break;
        case Storage::kArena:
          MTF_RETURN_IF_ERROR(CheckArena(i, begin, index));
          break;
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckArena(int i, int begin, size_t index) {
    const Instruction& instruction = program_.instructions[i];
    const int result = instruction.results[index];
    const ProgramValue& value = program_.values[result];
    const int64_t offset = plan_.buffers[result].offset;
    const std::string what =
        absl::StrCat("%", value.name, " is at @", offset, ", ");
    if (instruction.opcode == Opcode::kReadVariable) {
      return absl::InternalError(
          absl::StrCat(what, "but a variable is read from its own storage: @",
                       instruction.Get<NameAttributes>().name));
    }
    if (offset < 0 || offset % kArenaAlignment != 0) {
      return absl::InternalError(
          absl::StrCat(what, "but offsets in the arena are multiples of ",
                       kArenaAlignment, " bytes"));
    }
    const int64_t elements =
        LocalElements(program_.grains, value.shape, value.layout);
    const int64_t size = DTypeSize(value.dtype);
    // By division, because the product may overflow int64.
    if (offset > plan_.arena_bytes ||
        elements > (plan_.arena_bytes - offset) / size) {
      return absl::InternalError(
          absl::StrCat(what, "and takes ", elements, " elements of ", size,
                       " bytes there, which do not fit into an arena of ",
                       plan_.arena_bytes, " bytes"));
    }
    const int64_t end = offset + elements * size;
    // A value without elements takes a unit too.
    const int64_t units = std::max<int64_t>(
        1, (end - offset + kArenaAlignment - 1) / kArenaAlignment);
    end_ = std::max(end_, offset + units * kArenaAlignment);
    if (elements == 0) return absl::OkStatus();
    auto held = held_.upper_bound(offset);
    if (held != held_.begin() && std::prev(held)->second.end > offset) --held;
    while (held != held_.end() && held->first < end) {
      const int owner = held->second.owner;
      if (last_[owner] >= begin &&
          !(held->first == offset && IsInPlace(i, index, owner))) {
        return Overwrites(begin, result, owner);
      }
      held = held_.erase(held);
    }
    held_[offset] = {end, result};
    return absl::OkStatus();
  }

  absl::Status CheckVariable(int i, int begin, size_t index) {
    const Instruction& instruction = program_.instructions[i];
    const int result = instruction.results[index];
    const ProgramValue& value = program_.values[result];
    const std::string& symbol = plan_.buffers[result].symbol;
    const std::string what =
        absl::StrCat("%", value.name, " is at @", symbol, ", ");
    const auto found = variables_.find(symbol);
    if (found == variables_.end()) {
      return absl::InternalError(
          absl::StrCat(what, "but there is no such variable"));
    }
    const ProgramVariable& variable = *found->second;
    if (value.dtype != variable.dtype || !(value.shape == variable.shape) ||
        !(value.layout == variable.layout)) {
      return absl::InternalError(absl::StrCat(
          what, "but its type or layout differs from the variable's"));
    }
    std::vector<int>& owners = in_variable_[symbol];
    if (instruction.opcode == Opcode::kReadVariable) {
      if (symbol != instruction.Get<NameAttributes>().name) {
        return absl::InternalError(
            absl::StrCat(what, "but a variable is read from its own storage: @",
                         instruction.Get<NameAttributes>().name));
      }
      owners.push_back(result);
      return absl::OkStatus();
    }
    for (int owner : owners) {
      if (last_[owner] >= begin && !IsInPlace(i, index, owner)) {
        return Overwrites(begin, result, owner);
      }
    }
    if ((written_[result] == nullptr || *written_[result] != symbol) &&
        !IsUpdatedAt(result, symbol)) {
      return absl::InternalError(
          absl::StrCat(what, "but it is not written to that variable"));
    }
    owners = {result};
    return absl::OkStatus();
  }

  // Whether rows of `owner` are replaced in the storage of a variable: the
  // value that is written to the variable overwrites it.
  bool IsUpdatedAt(int owner, const std::string& symbol) const {
    return std::any_of(
        readers_[owner].begin(), readers_[owner].end(), [&](int reader) {
          const Instruction& update = program_.instructions[reader];
          if (update.opcode != Opcode::kUpdateSlice) return false;
          const BufferPlan::Buffer& buffer = plan_.buffers[update.results[0]];
          return owner_[update.operands[0]] == owner &&
                 buffer.storage == Storage::kVariable &&
                 buffer.symbol == symbol;
        });
  }

  // Whether instruction `i` may overwrite `owner` with its result: it reads and
  // writes corresponding elements, and no other instruction needs `owner`.
  bool IsInPlace(int i, size_t index, int owner) const {
    const Instruction& instruction = program_.instructions[i];
    if (written_[owner] != nullptr) return false;
    if (const FusedGroup* group = GroupOf(i); group != nullptr) {
      return IsInPlace(*group, instruction.results[index], owner);
    }
    if (!CanWorkInPlace(instruction.opcode)) return false;
    for (int reader : readers_[owner]) {
      if (reader != i && ends_[reader] >= i) return false;
    }
    const ProgramValue& to = program_.values[instruction.results[index]];
    for (size_t o = 0; o < instruction.operands.size(); ++o) {
      const int operand = instruction.operands[o];
      if (owner_[operand] != owner) continue;
      const ProgramValue& from = program_.values[operand];
      if (!(from.shape == to.shape) || from.local != to.local ||
          DTypeSize(from.dtype) != DTypeSize(to.dtype) ||
          !MayOverwrite(instruction.opcode, o, index)) {
        return false;
      }
    }
    return producer_[owner] != i && finished_[producer_[owner]] <= i;
  }

  // The same for a group: only members need `owner`, and they read each element
  // before it is written.
  bool IsInPlace(const FusedGroup& group, int result, int owner) const {
    const int begin = group.members.front();
    const int producer = producer_[owner];
    const bool exists =
        ExistsBeforeStep(program_.instructions[producer].opcode) ||
        finished_[producer] < begin;
    if (!exists || !MayOverwrite(program_, group, result)) return false;
    const ProgramValue& to = program_.values[result];
    for (int reader : readers_[owner]) {
      if (ends_[reader] < begin) continue;
      if (GroupOf(reader) != &group) return false;
      for (int operand : program_.instructions[reader].operands) {
        const ProgramValue& from = program_.values[operand];
        if (owner_[operand] == owner &&
            (!(from.shape == to.shape) || from.local != to.local ||
             DTypeSize(from.dtype) != DTypeSize(to.dtype))) {
          return false;
        }
      }
    }
    return true;
  }

  // The error that `result`, written at `begin`, overwrites `owner`.
  absl::Status Overwrites(int begin, int result, int owner) const {
    const auto is_asynchronous = [&](int instruction) {
      return instruction >= 0 && instruction < begin &&
             ends_[instruction] >= begin &&
             IsAsynchronous(program_.instructions[instruction]);
    };
    const std::vector<int>& readers = readers_[owner];
    const std::string written =
        absl::StrCat("%", program_.values[result].name, " is written where ");
    const std::string name = absl::StrCat("%", program_.values[owner].name);
    if (is_asynchronous(producer_[owner]) ||
        std::any_of(readers.begin(), readers.end(), is_asynchronous)) {
      return absl::InternalError(
          absl::StrCat(written, "an asynchronous collective uses ", name));
    }
    if (producer_[owner] == producer_[result]) {
      return absl::InternalError(
          absl::StrCat(written, name, " is written too"));
    }
    std::string text = absl::StrCat(written, name, " is still needed");
    if (!readers.empty()) {
      absl::StrAppend(
          &text, "\n  read by  ",
          PrintInstruction(program_, program_.instructions[readers.back()]));
    }
    return absl::InternalError(text);
  }

  const Program& program_;
  const BufferPlan& plan_;
  const int count_;
  const std::vector<int> group_of_;      // by instruction
  const std::vector<bool> is_internal_;  // by value
  int64_t end_ = 0;                      // of the last buffer in the arena
  absl::flat_hash_map<absl::string_view, const ProgramVariable*> variables_;
  // By instruction: where its results exist at the latest (FindEnds), and up to
  // where its operands are needed: until the last member of its group.
  std::vector<int> finished_, ends_;
  std::vector<int> owner_;     // by value
  std::vector<int> producer_;  // by owner
  std::vector<int> last_;      // by owner: the last instruction that needs it
  std::vector<std::vector<int>> readers_;    // by owner
  std::vector<const std::string*> written_;  // by owner: its variable
  std::map<int64_t, Held> held_;             // by offset, without overlaps
  // By variable: the values in its storage, read or new.
  absl::flat_hash_map<std::string, std::vector<int>> in_variable_;
};

}  // namespace

absl::Status VerifyBuffers(const Program& program, int* bad) {
  *bad = -1;
  const BufferPlan& plan = program.buffers;
  if (plan.buffers.empty() && plan.arena_bytes == 0 && plan.commit == 0) {
    return absl::OkStatus();
  }
  return BufferVerifier(program).Run(bad);
}

}  // namespace mtf::internal
