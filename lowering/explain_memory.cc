// SPDX-License-Identifier: Apache-2.0
//
// What fills the memory of a rank: variables by purpose, and the tensors that
// are alive when the arena is fullest.
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/explain_parts.h"
#include "lowering/plan_buffers.h"
#include "lowering/plan_for_machine.h"
#include "lowering/readers.h"

namespace mtf {

std::string MemoryKindName(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kParameter:
      return "parameter";
    case MemoryKind::kOptimizerState:
      return "optimizer state";
    case MemoryKind::kGradient:
      return "gradient";
    case MemoryKind::kCopy:
      return "copy of a variable";
    case MemoryKind::kActivation:
      return "activation";
  }
  return "?";
}

namespace internal {
namespace {

using Place = BufferPlan::Place;

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
    if (writes || (instruction.opcode == Opcode::kReshape &&
                   IsView(program, instruction))) {
      owner[instruction.results[0]] = owner[instruction.operands[0]];
    }
    for (int operand : instruction.operands) {
      int& end = last[owner[operand]];
      end = std::max(end, writes ? instructions : running.ends[i]);
    }
    for (int result : instruction.results) {
      if (owner[result] != result ||
          program.buffers.buffers[result].place != Place::kArena) {
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

namespace {

// What fused attention keeps where its weights would be, for its gradient or,
// where it has none, while it runs (AttentionGroup).
absl::string_view KeptBy(const AttentionGroup& attention) {
  if (attention.backward.empty()) return "bias of attention";
  return attention.problem.BiasElements() > 0 ? "sums and bias of attention"
                                              : "sums of attention";
}

ExplainedTensor Described(const Program& program, const Lifetime& lifetime,
                          MemoryKind kind) {
  const ProgramValue& value = program.values[lifetime.value];
  ExplainedTensor tensor;
  tensor.name = value.name;
  tensor.kind = kind;
  tensor.type = absl::StrCat(
      DTypeName(value.dtype), "[",
      LayoutText(program.mesh, value.shape, value.layout.Reduced()), "]");
  tensor.bytes = lifetime.bytes;
  const Instruction& maker = program.instructions[lifetime.maker];
  if (maker.origin >= 0) {
    tensor.operation = program.origins[maker.origin].operation;
    tensor.site = program.origins[maker.origin].site.ToString();
  }
  return tensor;
}

}  // namespace

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

ExplainedMemory ExplainMemory(const Program& program, const MachinePlan& plan) {
  ExplainedMemory memory;
  memory.total = MemoryBytes(program);
  memory.arena = program.buffers.arena_bytes;
  memory.parts.unused = memory.arena;
  for (const ProgramVariable& variable : program.variables) {
    const int64_t bytes =
        LocalElements(program.grains, variable.shape, variable.layout) *
        DTypeSize(variable.dtype);
    (variable.section == RuleSection::kOptimizer ? memory.parts.optimizer_state
                                                 : memory.parts.parameters) +=
        bytes;
  }
  if (program.buffers.buffers.size() != program.values.size()) return memory;

  const std::vector<Lifetime> lifetimes = Lifetimes(program, plan.groups);
  std::vector<int64_t> change(program.instructions.size() + 2, 0);
  for (const Lifetime& lifetime : lifetimes) {
    if (lifetime.end < lifetime.begin) continue;
    change[lifetime.begin] += lifetime.bytes;
    change[lifetime.end + 1] -= lifetime.bytes;
  }
  int64_t now = 0, most = 0;
  int peak = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    now += change[i];
    if (now <= most) continue;
    most = now;
    peak = static_cast<int>(i);
  }
  if (most == 0) return memory;
  const Instruction& busiest = program.instructions[peak];
  if (busiest.origin >= 0) {
    memory.peak_operation = program.origins[busiest.origin].operation;
    memory.peak_site = program.origins[busiest.origin].site.ToString();
  }
  absl::flat_hash_map<int, absl::string_view> kept;  // by value: its type
  for (const AttentionGroup& attention : plan.attention) {
    kept[attention.weights] = KeptBy(attention);
  }
  const std::vector<MemoryKind> purposes = FindPurposes(program);
  for (const Lifetime& lifetime : lifetimes) {
    if (lifetime.begin > peak || lifetime.end < peak) continue;
    const MemoryKind kind = purposes[lifetime.value];
    memory.alive.push_back(Described(program, lifetime, kind));
    const auto known = kept.find(lifetime.value);
    if (known != kept.end()) {
      memory.alive.back().type = std::string(known->second);
    }
    const int64_t bytes = memory.alive.back().bytes;
    (kind == MemoryKind::kGradient ? memory.parts.gradients
     : kind == MemoryKind::kCopy   ? memory.parts.copies
                                   : memory.parts.activations) += bytes;
  }
  memory.parts.unused = memory.arena - most;
  std::stable_sort(memory.alive.begin(), memory.alive.end(),
                   [](const ExplainedTensor& a, const ExplainedTensor& b) {
                     return a.bytes > b.bytes;
                   });
  return memory;
}

}  // namespace internal
}  // namespace mtf
