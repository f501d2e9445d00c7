// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/plan_buffers.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "lowering/passes/pack_blocks.h"
#include "lowering/program/is_no_op.h"
#include "lowering/program/readers.h"
#include "lowering/program/reshape_layout.h"

namespace mtf {
namespace {

constexpr int kNobody = -1;

int64_t Aligned(int64_t bytes) {
  constexpr int64_t kUnit = kArenaAlignment;
  return std::max<int64_t>(1, (bytes + kUnit - 1) / kUnit) * kUnit;
}

class Planner {
 public:
  Planner(const Program& program, absl::Span<const FusedGroup> groups)
      : program_(program),
        groups_(groups),
        group_of_(program.instructions.size(), -1),
        ends_(FindEnds(program)),
        owner_(program.values.size()),
        last_(program.values.size(), -1),
        overwritten_(program.values.size(), false),
        read_besides_(program.values.size(), false),
        block_(program.values.size(), -1) {
    for (size_t i = 0; i < groups.size(); ++i) {
      for (int member : groups[i].members) {
        group_of_[member] = static_cast<int>(i);
      }
    }
  }

  BufferPlan Run() {
    plan_.buffers.resize(program_.values.size());
    plan_.commit = static_cast<int>(program_.instructions.size());
    JoinViews();
    FindLastReaders();
    UpdateInPlace();
    // A step is fed before its first instruction runs.
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      if (program_.instructions[i].opcode == Opcode::kInput) {
        PlaceResults(static_cast<int>(i), /*begin=*/-1);
      }
    }
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      if (program_.instructions[i].opcode != Opcode::kInput) {
        PlaceResults(static_cast<int>(i), static_cast<int>(i));
      }
    }
    Pack();
    for (size_t v = 0; v < block_.size(); ++v) {
      if (block_[v] >= 0) {
        plan_.buffers[v].offset = blocks_[block_[v]].offset;
      }
    }
    return std::move(plan_);
  }

 private:
  using Storage = BufferPlan::Storage;

  // What a late member of a group makes is there from its first member on, so
  // blocks were not added in the order of their begin.
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

  BufferPlan::Buffer& buffer(int value) { return plan_.buffers[owner_[value]]; }

  const FusedGroup* GroupOf(int instruction) const {
    const int group = group_of_[instruction];
    return group < 0 ? nullptr : &groups_[group];
  }

  // Values that share memory have one owner: a view has that of its operand.
  void JoinViews() {
    for (size_t v = 0; v < owner_.size(); ++v) owner_[v] = static_cast<int>(v);
    for (const Instruction& instruction : program_.instructions) {
      if (IsView(program_, instruction)) {
        owner_[instruction.results[0]] = owner_[instruction.operands[0]];
      }
    }
  }

  void FindLastReaders() {
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      const FusedGroup* group = GroupOf(static_cast<int>(i));
      const int until = group == nullptr ? ends_[i] : group->members.back();
      const auto read = [&](absl::Span<const int> values) {
        for (int value : values) {
          last_[owner_[value]] = std::max(last_[owner_[value]], until);
          if (IsAsynchronous(instruction)) continue;
          const auto lent = lent_to_.find(owner_[value]);
          if (lent != lent_to_.end()) lent->second = kNobody;
        }
      };
      read(instruction.operands);
      if (group != nullptr && group->members.front() == static_cast<int>(i)) {
        read(group->reads);
        for (int value : group->reads) read_besides_[owner_[value]] = true;
      }
      if (IsAsynchronous(instruction)) {
        for (int result : instruction.results) last_[result] = until;
        Lend(static_cast<int>(i));
      }
      // Written state is copied to its variable when the step ends.
      if (instruction.opcode == Opcode::kWriteVariable) {
        written_.push_back(owner_[instruction.operands[0]]);
      }
    }
    for (int value : written_) {
      last_[value] = static_cast<int>(program_.instructions.size());
    }
  }

  // Notes that a collective beside reads its operands, up to its wait, and
  // forgets it again for those that something else reads behind its start.
  void Lend(int i) {
    for (int operand : program_.instructions[i].operands) {
      const auto [lent, is_first] = lent_to_.try_emplace(owner_[operand], i);
      if (!is_first) lent->second = kNobody;
    }
  }

  // Whether the memory of `owner` is free for the results of instruction `i`,
  // which reads it: nothing else does so later, or, of a collective beside,
  // between its start and its wait.
  bool IsLastReader(int owner, int i) const {
    if (last_[owner] != ends_[i]) return false;
    if (ends_[i] == i) return true;
    const auto lent = lent_to_.find(owner);
    return lent != lent_to_.end() && lent->second == i;
  }

  // Whether result and operand of an elementwise instruction visit memory in
  // step, so that one may overwrite the other.
  bool SameElements(int operand, int result) const {
    const ProgramValue& from = program_.values[operand];
    const ProgramValue& to = program_.values[result];
    return from.shape == to.shape && from.local == to.local &&
           DTypeSize(from.dtype) == DTypeSize(to.dtype);
  }

  // Whether an instruction may write to a variable: what comes last of an
  // update, its arithmetic or the gather of what each rank has updated.
  static bool MayUpdate(Opcode opcode) {
    return opcode == Opcode::kMap || opcode == Opcode::kAllGather;
  }

  // Lets what computes a variable's new value write it in place.
  void UpdateInPlace() {
    const std::vector<int> producers = FindProducers(program_);
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
      if (owner_[value] != value || producer < 0 || at <= last_failure ||
          !MayUpdate(program_.instructions[producer].opcode) ||
          std::count(written_.begin(), written_.end(), value) != 1) {
        continue;
      }
      bool free = true;
      for (int old : reads[variable]) {
        free = free && CanOverwrite(old, producer);
      }
      if (!free) continue;
      plan_.buffers[value].storage = Storage::kVariable;
      plan_.buffers[value].symbol = variable;
      plan_.commit = std::min(plan_.commit, at);
    }
  }

  // Where an instruction stands that runs in a group: with its first member.
  int RunsAt(int instruction) const {
    const FusedGroup* group = GroupOf(instruction);
    return group == nullptr ? instruction : group->members.front();
  }

  // Whether `group` may write `result` where `old` is: nobody else reads it
  // from then on, and members read each place before it is written.
  bool GroupCanOverwrite(const FusedGroup& group, int old, int result) const {
    if (last_[old] > group.members.back() || read_besides_[old] ||
        !absl::c_linear_search(group.in_place, result)) {
      return false;
    }
    const size_t first = group.members.front();
    for (size_t i = first; i < program_.instructions.size(); ++i) {
      if (static_cast<int>(i) > group.members.back()) break;
      for (int operand : program_.instructions[i].operands) {
        if (owner_[operand] != old) continue;
        if (GroupOf(static_cast<int>(i)) != &group) return false;
        if (!SameElements(operand, result)) return false;
      }
    }
    return true;
  }

  // Whether the instruction at `producer` may write where `old` is: nothing
  // reads it later, and it itself reads each place before it writes it.
  bool CanOverwrite(int old, int producer) const {
    if (const FusedGroup* group = GroupOf(producer); group != nullptr) {
      return GroupCanOverwrite(*group, old,
                               program_.instructions[producer].results[0]);
    }
    if (last_[old] > producer) return false;
    const Instruction& update = program_.instructions[producer];
    for (int operand : update.operands) {
      if (owner_[operand] == old) return ReadsInStep(update, old);
    }
    return true;
  }

  bool ReadsInStep(const Instruction& map, int owner) const {
    for (int operand : map.operands) {
      if (owner_[operand] == owner && !SameElements(operand, map.results[0])) {
        return false;
      }
    }
    return true;
  }

  // The operand whose memory the result may take over, or -1.
  int ReusableOperand(const Instruction& instruction, int i, size_t place) {
    const bool elementwise = instruction.opcode == Opcode::kMap ||
                             instruction.opcode == Opcode::kMask ||
                             instruction.opcode == Opcode::kAllReduce;
    if (!elementwise) return -1;
    const int result = instruction.results[place];
    for (size_t o = 0; o < instruction.operands.size(); ++o) {
      if (instruction.opcode == Opcode::kAllReduce && o != place) continue;
      const int operand = instruction.operands[o];
      const int owner = owner_[operand];
      if (!IsLastReader(owner, i) ||
          buffer(operand).storage != Storage::kArena ||
          taken_over_.contains(owner) || !SameElements(operand, result)) {
        continue;
      }
      if (!ReadsInStep(instruction, owner) &&
          instruction.opcode == Opcode::kMap) {
        continue;
      }
      return operand;
    }
    return -1;
  }

  // The operand of a group whose memory `result` may take over, or -1.
  int ReusableOperand(const FusedGroup& group, int result) const {
    for (int member : group.members) {
      for (int operand : program_.instructions[member].operands) {
        const int owner = owner_[operand];
        const int block = block_[owner];
        if (block < 0 || blocks_[block].begin >= group.members.front() ||
            overwritten_[owner] || !SameElements(operand, result) ||
            !GroupCanOverwrite(group, owner, result)) {
          continue;
        }
        return operand;
      }
    }
    return -1;
  }

  // Decides what the results of instruction `i` live in from `begin` on.
  void PlaceResults(int i, int begin) {
    const Instruction& instruction = program_.instructions[i];
    if (instruction.opcode == Opcode::kWait) return;
    const FusedGroup* group = GroupOf(i);
    if (group != nullptr) begin = group->members.front();
    taken_over_.clear();
    for (size_t place = 0; place < instruction.results.size(); ++place) {
      const int result = instruction.results[place];
      if (owner_[result] != result) continue;  // a view
      BufferPlan::Buffer& mine = plan_.buffers[result];
      if (mine.storage == Storage::kVariable) continue;
      if (instruction.opcode == Opcode::kReadVariable) {
        mine.storage = Storage::kVariable;
        mine.symbol = instruction.Get<NameAttributes>().name;
        continue;
      }
      int64_t bytes = program_.values[result].local_bytes();
      if (group != nullptr) {
        if (std::count(group->outputs.begin(), group->outputs.end(), result) ==
            0) {
          continue;  // never in memory
        }
        const auto other = group->bytes.find(result);
        if (other != group->bytes.end()) bytes = other->second;
      }
      mine.storage = Storage::kArena;
      const int end = std::max(ends_[i], last_[result]);
      const int reused = group == nullptr
                             ? ReusableOperand(instruction, i, place)
                             : ReusableOperand(*group, result);
      if (reused >= 0) {
        taken_over_[owner_[reused]] = true;
        if (group != nullptr) overwritten_[owner_[reused]] = true;
        block_[result] = block_[owner_[reused]];
        blocks_[block_[result]].end = end;
        continue;
      }
      block_[result] = static_cast<int>(blocks_.size());
      blocks_.push_back({Aligned(bytes), begin, end});
    }
  }

  const Program& program_;
  absl::Span<const FusedGroup> groups_;
  std::vector<int> group_of_;  // by instruction: place in groups_, or -1
  BufferPlan plan_;
  std::vector<int> ends_;  // by instruction (FindEnds)
  std::vector<int> owner_;
  std::vector<int> last_;           // by owner: place of the last reader
  std::vector<int> written_;        // owners that a variable is written from
  std::vector<bool> overwritten_;   // owners whose block a group has taken over
  std::vector<bool> read_besides_;  // owners that no member of a group reads
  absl::flat_hash_map<int, bool> taken_over_;
  // By owner: the only collective beside that reads it, where nothing else does
  // behind its start.
  absl::flat_hash_map<int, int> lent_to_;
  std::vector<int> block_;  // by owner: place in blocks_, or -1
  std::vector<MemoryBlock> blocks_;
};

}  // namespace

absl::Status PlanBuffers(Program& program) {
  program.buffers = Planner(program, {}).Run();
  return absl::OkStatus();
}

BufferPlan PlanBuffersOf(const Program& program,
                         absl::Span<const FusedGroup> groups) {
  return Planner(program, groups).Run();
}

}  // namespace mtf
