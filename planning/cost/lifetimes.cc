// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/lifetimes.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "layouts/shard.h"
#include "lowering/program/is_no_op.h"
#include "lowering/program/readers.h"

namespace mtf::internal {
namespace {

using Storage = BufferPlan::Storage;

// The range of instructions during which each instruction runs: an asynchronous
// collective up to its wait, a member of a fused group from the first to the
// last member.
struct InstructionSpans {
  std::vector<int> begins, ends;  // by instruction

  explicit InstructionSpans(const Program& program)
      : begins(program.instructions.size()), ends(FindEnds(program)) {
    std::iota(begins.begin(), begins.end(), 0);
    for (const FusedGroup& group : program.groups) {
      if (!group.is_planned()) continue;
      for (int member : group.members) {
        begins[member] = group.members.front();
        ends[member] = group.members.back();
      }
    }
  }
};

}  // namespace

std::vector<Lifetime> Lifetimes(const Program& program) {
  const int instructions = static_cast<int>(program.instructions.size());
  const InstructionSpans spans(program);
  // Values whose memory is that of another value: views and written variables.
  std::vector<int> owner(program.values.size());
  for (size_t v = 0; v < owner.size(); ++v) owner[v] = static_cast<int>(v);
  std::vector<int> last_use(program.values.size(), -1);
  std::vector<Lifetime> lifetimes;
  for (int i = 0; i < instructions; ++i) {
    const Instruction& instruction = program.instructions[i];
    const bool writes = instruction.opcode == Opcode::kWriteVariable;
    if (IsView(program, instruction)) {
      owner[instruction.results[0]] = owner[instruction.operands[0]];
    }
    for (int operand : instruction.operands) {
      int& end = last_use[owner[operand]];
      end = std::max(end, writes ? instructions : spans.ends[i]);
    }
    for (int result : instruction.results) {
      if (owner[result] != result ||
          program.buffers.buffers[result].storage != Storage::kArena) {
        continue;
      }
      // Inputs are written before the first instruction.
      const bool is_input = instruction.opcode == Opcode::kInput;
      lifetimes.push_back({result, i, is_input ? 0 : spans.begins[i],
                           spans.ends[i], LocalBytes(program, result)});
    }
  }
  for (Lifetime& lifetime : lifetimes) {
    lifetime.end = std::max(lifetime.end, last_use[lifetime.value]);
  }
  std::stable_sort(
      lifetimes.begin(), lifetimes.end(),
      [](const Lifetime& a, const Lifetime& b) { return a.begin < b.begin; });
  // A value that is overwritten in place ends one instruction before the result
  // begins.
  absl::flat_hash_map<int64_t, size_t> latest;  // lifetime, by offset
  for (size_t l = 0; l < lifetimes.size(); ++l) {
    const int64_t offset = program.buffers.buffers[lifetimes[l].value].offset;
    const auto [previous, added] = latest.try_emplace(offset, l);
    if (added) continue;
    Lifetime& before = lifetimes[previous->second];
    before.end = std::min(before.end, lifetimes[l].begin - 1);
    previous->second = l;
  }
  return lifetimes;
}

int64_t LocalBytes(const Program& program, int value) {
  const ProgramValue& info = program.values[value];
  if (!info.local.empty()) return info.local_bytes();
  return LocalElements(program.grains, info.shape, info.layout) *
         DTypeSize(info.dtype);
}

int64_t StoredBytes(const Program& program, const ProgramVariable& variable) {
  return LocalElements(program.grains, variable.shape, variable.layout) *
         DTypeSize(variable.dtype);
}

int64_t MemoryBytes(const Program& program) {
  int64_t bytes = program.buffers.arena_bytes;
  for (const ProgramVariable& variable : program.variables) {
    if (!variable.offloaded) bytes += StoredBytes(program, variable);
  }
  return bytes;
}

int64_t HostBytes(const Program& program) {
  int64_t bytes = 0;
  for (const ProgramVariable& variable : program.variables) {
    if (variable.offloaded) bytes += StoredBytes(program, variable);
  }
  return bytes;
}

int64_t HostCopyBytes(const Program& program) {
  int64_t bytes = 0;
  for (const Instruction& instruction : program.instructions) {
    if (!CopiesToOrFromHost(instruction.opcode)) continue;
    bytes += LocalBytes(program, instruction.results[0]);
  }
  return bytes;
}

}  // namespace mtf::internal
