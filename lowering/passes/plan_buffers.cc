// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/plan_buffers.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "lowering/passes/buffer_lifetimes.h"
#include "lowering/passes/pack_blocks.h"
#include "lowering/program/readers.h"

namespace mtf {
namespace {

int64_t Aligned(int64_t bytes) {
  constexpr int64_t kUnit = kArenaAlignment;
  return std::max<int64_t>(1, (bytes + kUnit - 1) / kUnit) * kUnit;
}

// Plans the memory of one program. Blocks of the arena belong to owners.
class BufferPlanner {
 public:
  explicit BufferPlanner(const Program& program)
      : program_(program),
        lifetimes_(program),
        is_internal_(FindInternalValues(program)),
        reused_by_group_(program.values.size(), false),
        block_of_(program.values.size(), -1) {}

  BufferPlan Run() {
    plan_.buffers.resize(program_.values.size());
    plan_.commit = static_cast<int>(program_.instructions.size());
    UpdateInPlace();
    // Inputs are filled before the first instruction runs.
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      if (program_.instructions[i].opcode == Opcode::kInput) {
        AssignResults(static_cast<int>(i), /*begin=*/-1);
      }
    }
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      if (program_.instructions[i].opcode != Opcode::kInput) {
        AssignResults(static_cast<int>(i), static_cast<int>(i));
      }
    }
    Pack();
    for (size_t v = 0; v < block_of_.size(); ++v) {
      if (block_of_[v] >= 0) {
        plan_.buffers[v].offset = blocks_[block_of_[v]].offset;
      }
    }
    return std::move(plan_);
  }

 private:
  using Storage = BufferPlan::Storage;

  // Outputs of a group exist from its first member on, so blocks were not added
  // in the order of their begin.
  void Pack() {
    std::vector<int> order(blocks_.size());
    std::iota(order.begin(), order.end(), 0);
    absl::c_stable_sort(order, [this](int a, int b) {
      return blocks_[a].begin < blocks_[b].begin;
    });
    std::vector<MemoryBlock> sorted;
    sorted.reserve(order.size());
    for (int block : order) sorted.push_back(blocks_[block]);
    plan_.arena_bytes = PackBlocks(sorted);
    for (size_t i = 0; i < order.size(); ++i) blocks_[order[i]] = sorted[i];
  }

  BufferPlan::Buffer& buffer(int value) {
    return plan_.buffers[lifetimes_.owner(value)];
  }

  // Whether an elementwise instruction visits result and operand at equal
  // offsets, so that one may overwrite the other.
  bool SameElements(int operand, int result) const {
    const ProgramValue& from = program_.values[operand];
    const ProgramValue& to = program_.values[result];
    return from.shape == to.shape && from.local == to.local &&
           DTypeSize(from.dtype) == DTypeSize(to.dtype);
  }

  // Whether an instruction may write to a variable: the last of an update, its
  // arithmetic, the gather of the shards that ranks have updated, rows that
  // replace others, or the copy to an offloaded variable.
  static bool MayUpdate(Opcode opcode) {
    return opcode == Opcode::kMap || opcode == Opcode::kAllGather ||
           opcode == Opcode::kUpdateSlice || opcode == Opcode::kCopyToHost;
  }

  // Lets the instruction that computes a variable's new value write it in
  // place.
  void UpdateInPlace() {
    const std::vector<int> producers = FindProducers(program_);
    // Collects the reads of each variable and the last instruction that can
    // fail.
    int last_failure = -1;
    absl::flat_hash_map<std::string, std::vector<int>> reads;
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (CanFail(instruction.opcode)) last_failure = static_cast<int>(i);
      if (instruction.opcode == Opcode::kReadVariable) {
        reads[instruction.Get<NameAttributes>().name].push_back(
            instruction.results[0]);
      }
    }
    for (const Instruction& write : program_.instructions) {
      if (write.opcode != Opcode::kWriteVariable) continue;
      const std::string& variable = write.Get<NameAttributes>().name;
      const int value = write.operands[0];
      const int producer = producers[value];
      const int at = producer < 0 ? -1 : RunsAt(producer);
      if (lifetimes_.owner(value) != value || producer < 0 ||
          at <= last_failure ||
          !MayUpdate(program_.instructions[producer].opcode) ||
          lifetimes_.variables_written_from(value) != 1) {
        continue;
      }
      bool can_overwrite = true;
      for (int old : reads[variable]) {
        can_overwrite = can_overwrite && CanOverwrite(old, producer);
      }
      if (!can_overwrite) continue;
      StoreInVariable(value, variable, at);
      StoreChain(producer, variable, producers, reads[variable], last_failure);
    }
  }

  void StoreInVariable(int value, const std::string& variable, int at) {
    plan_.buffers[value].storage = Storage::kVariable;
    plan_.buffers[value].symbol = variable;
    plan_.commit = std::min(plan_.commit, at);
  }

  // Lets the updates of rows before `last`, each of which passes its result to
  // the next, write the variable too: otherwise the first of them would copy
  // it.
  void StoreChain(int last, const std::string& variable,
                  const std::vector<int>& producers,
                  const std::vector<int>& reads, int last_failure) {
    while (program_.instructions[last].opcode == Opcode::kUpdateSlice) {
      const Instruction& next = program_.instructions[last];
      const int value = lifetimes_.owner(next.operands[0]);
      const int producer = producers[value];
      if (producer <= last_failure ||
          program_.instructions[producer].opcode != Opcode::kUpdateSlice ||
          lifetimes_.variables_written_from(value) != 0 ||
          !CanOverwrite(value, last) || !absl::c_all_of(reads, [&](int old) {
            return CanOverwrite(old, producer);
          })) {
        return;
      }
      StoreInVariable(value, variable, producer);
      last = producer;
    }
  }

  // The instruction at which `instruction` runs: its own index, or the first
  // member of its group.
  int RunsAt(int instruction) const {
    const FusedGroup* group = lifetimes_.GroupOf(instruction);
    return group == nullptr ? instruction : group->members.front();
  }

  // Whether `group` may write `result` to the memory of `old`: only members
  // read it from then on, and each element before it is written.
  bool GroupCanOverwrite(const FusedGroup& group, int old, int result) const {
    if (lifetimes_.last_reader(old) > group.members.back() ||
        !MayOverwrite(program_, group, result)) {
      return false;
    }
    const size_t first = group.members.front();
    for (size_t i = first; i < program_.instructions.size(); ++i) {
      if (static_cast<int>(i) > group.members.back()) break;
      for (int operand : program_.instructions[i].operands) {
        if (lifetimes_.owner(operand) != old) continue;
        if (lifetimes_.GroupOf(static_cast<int>(i)) != &group) return false;
        if (!SameElements(operand, result)) return false;
      }
    }
    return true;
  }

  // Whether the instruction at `producer` may write to the memory of `old`:
  // nothing reads it later, and it reads each element before it writes it.
  bool CanOverwrite(int old, int producer) const {
    if (const FusedGroup* group = lifetimes_.PlannedGroupOf(producer);
        group != nullptr) {
      return GroupCanOverwrite(*group, old,
                               program_.instructions[producer].results[0]);
    }
    if (lifetimes_.last_reader(old) > producer) return false;
    const Instruction& update = program_.instructions[producer];
    for (int operand : update.operands) {
      if (lifetimes_.owner(operand) == old) return ReadsInStep(update, old, 0);
    }
    return true;
  }

  // Whether the instruction reads every operand that owner `owner` holds at the
  // offset at which it writes result number `index`.
  bool ReadsInStep(const Instruction& instruction, int owner,
                   size_t index) const {
    for (size_t o = 0; o < instruction.operands.size(); ++o) {
      const int operand = instruction.operands[o];
      if (lifetimes_.owner(operand) == owner &&
          !(MayOverwrite(instruction.opcode, o, index) &&
            SameElements(operand, instruction.results[index]))) {
        return false;
      }
    }
    return true;
  }

  // The operand whose memory result number `index` may reuse, or -1.
  int ReusableOperand(const Instruction& instruction, int i, size_t index) {
    if (!CanWorkInPlace(instruction.opcode)) return -1;
    for (size_t o = 0; o < instruction.operands.size(); ++o) {
      if (!MayOverwrite(instruction.opcode, o, index)) continue;
      const int operand = instruction.operands[o];
      const int owner = lifetimes_.owner(operand);
      if (!lifetimes_.IsLastReader(owner, i) ||
          buffer(operand).storage != Storage::kArena ||
          reused_.contains(owner) || !ReadsInStep(instruction, owner, index)) {
        continue;
      }
      return operand;
    }
    return -1;
  }

  // The operand of a group whose memory `result` may reuse, or -1.
  int ReusableOperand(const FusedGroup& group, int result) const {
    for (int member : group.members) {
      for (int operand : program_.instructions[member].operands) {
        const int owner = lifetimes_.owner(operand);
        const int block = block_of_[owner];
        if (block < 0 || blocks_[block].begin >= group.members.front() ||
            reused_by_group_[owner] || !SameElements(operand, result) ||
            !GroupCanOverwrite(group, owner, result)) {
          continue;
        }
        return operand;
      }
    }
    return -1;
  }

  // Assigns storage to the results of instruction `i`, live from `begin` on.
  void AssignResults(int i, int begin) {
    const Instruction& instruction = program_.instructions[i];
    if (instruction.opcode == Opcode::kWait) return;
    const FusedGroup* group = lifetimes_.PlannedGroupOf(i);
    if (group != nullptr) begin = group->members.front();
    reused_.clear();
    for (size_t index = 0; index < instruction.results.size(); ++index) {
      const int result = instruction.results[index];
      if (lifetimes_.owner(result) != result) continue;  // a view
      BufferPlan::Buffer& assigned = plan_.buffers[result];
      if (assigned.storage == Storage::kVariable) continue;
      if (instruction.opcode == Opcode::kReadVariable) {
        assigned.storage = Storage::kVariable;
        assigned.symbol = instruction.Get<NameAttributes>().name;
        continue;
      }
      const int64_t bytes = program_.values[result].local_bytes();
      if (is_internal_[result]) continue;
      assigned.storage = Storage::kArena;
      const int end =
          std::max(lifetimes_.end(i), lifetimes_.last_reader(result));
      const int reused = group == nullptr
                             ? ReusableOperand(instruction, i, index)
                             : ReusableOperand(*group, result);
      if (reused >= 0) {
        reused_[lifetimes_.owner(reused)] = true;
        if (group != nullptr) reused_by_group_[lifetimes_.owner(reused)] = true;
        block_of_[result] = block_of_[lifetimes_.owner(reused)];
        blocks_[block_of_[result]].end = end;
        continue;
      }
      block_of_[result] = static_cast<int>(blocks_.size());
      blocks_.push_back({Aligned(bytes), begin, end});
    }
  }

  const Program& program_;
  const BufferLifetimes lifetimes_;
  const std::vector<bool> is_internal_;  // by value
  BufferPlan plan_;
  std::vector<bool> reused_by_group_;  // by owner: a group writes to its block
  absl::flat_hash_map<int, bool> reused_;  // owners, by this instruction
  std::vector<int> block_of_;              // by owner: index in blocks_, or -1
  std::vector<MemoryBlock> blocks_;
};

}  // namespace

absl::Status PlanBuffers(Program& program) {
  program.buffers = BufferPlanner(program).Run();
  return absl::OkStatus();
}

}  // namespace mtf
