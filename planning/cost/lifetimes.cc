// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/lifetimes.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "layouts/shard.h"
#include "lowering/passes/plan_for_machine.h"
#include "lowering/program/is_no_op.h"
#include "lowering/program/readers.h"

namespace mtf::internal {
namespace {

using Storage = BufferPlan::Storage;

// Between which instructions each is under way, and which values have another
// size than their own: a collective beside lasts up to its wait, and a group
// that runs as one from its first member to its last.
struct Running {
  std::vector<int> begins, ends;             // by instruction
  absl::flat_hash_map<int, int64_t> others;  // bytes, by value
  // What is read besides operands, until when.
  std::vector<std::pair<int, int>> reads;

  Running(const Program& program, absl::Span<const FusedGroup> groups)
      : begins(program.instructions.size()), ends(FindEnds(program)) {
    std::iota(begins.begin(), begins.end(), 0);
    for (const FusedGroup& group : groups) {
      for (int member : group.members) {
        begins[member] = group.members.front();
        ends[member] = group.members.back();
      }
      others.insert(group.bytes.begin(), group.bytes.end());
      for (int value : group.reads) {
        reads.emplace_back(value, group.members.back());
      }
    }
  }
};

}  // namespace

std::vector<Lifetime> Lifetimes(const Program& program,
                                absl::Span<const FusedGroup> groups) {
  const int instructions = static_cast<int>(program.instructions.size());
  const Running running(program, groups);
  std::vector<int> owner(program.values.size());
  for (size_t v = 0; v < owner.size(); ++v) owner[v] = static_cast<int>(v);
  std::vector<int> last(program.values.size(), -1);
  std::vector<Lifetime> lifetimes;
  for (int i = 0; i < instructions; ++i) {
    const Instruction& instruction = program.instructions[i];
    const bool writes = instruction.opcode == Opcode::kWriteVariable;
    if (IsView(program, instruction)) {
      owner[instruction.results[0]] = owner[instruction.operands[0]];
    }
    for (int operand : instruction.operands) {
      int& end = last[owner[operand]];
      end = std::max(end, writes ? instructions : running.ends[i]);
    }
    for (int result : instruction.results) {
      if (owner[result] != result ||
          program.buffers.buffers[result].storage != Storage::kArena) {
        continue;
      }
      // A step is fed before its first instruction.
      const bool fed = instruction.opcode == Opcode::kInput;
      const auto other = running.others.find(result);
      lifetimes.push_back(
          {result, i, fed ? 0 : running.begins[i], running.ends[i],
           other != running.others.end() ? other->second
                                         : LocalBytes(program, result)});
    }
  }
  for (const auto& [value, until] : running.reads) {
    int& end = last[owner[value]];
    end = std::max(end, until);
  }
  for (Lifetime& lifetime : lifetimes) {
    lifetime.end = std::max(lifetime.end, last[lifetime.value]);
  }
  std::stable_sort(
      lifetimes.begin(), lifetimes.end(),
      [](const Lifetime& a, const Lifetime& b) { return a.begin < b.begin; });
  // What is overwritten in place has gone one instruction sooner.
  absl::flat_hash_map<int64_t, size_t> at;  // by offset, the latest lifetime
  for (size_t l = 0; l < lifetimes.size(); ++l) {
    const int64_t offset = program.buffers.buffers[lifetimes[l].value].offset;
    const auto [place, added] = at.try_emplace(offset, l);
    if (added) continue;
    Lifetime& before = lifetimes[place->second];
    before.end = std::min(before.end, lifetimes[l].begin - 1);
    place->second = l;
  }
  return lifetimes;
}

std::vector<Lifetime> Lifetimes(const Program& program) {
  return Lifetimes(program, PlanOf(program).groups);
}

int64_t LocalBytes(const Program& program, int value) {
  const ProgramValue& of = program.values[value];
  if (!of.local.empty()) return of.local_bytes();
  return LocalElements(program.grains, of.shape, of.layout) *
         DTypeSize(of.dtype);
}

int64_t MemoryBytes(const Program& program) {
  int64_t bytes = program.buffers.arena_bytes;
  for (const ProgramVariable& variable : program.variables) {
    bytes += LocalElements(program.grains, variable.shape, variable.layout) *
             DTypeSize(variable.dtype);
  }
  return bytes;
}

}  // namespace mtf::internal
