// SPDX-License-Identifier: Apache-2.0
//
// What fills the memory of a rank: variables by purpose, and the tensors that
// are alive when the arena is fullest.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/explain_parts.h"
#include "lowering/plan_buffers.h"
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
    case MemoryKind::kGathered:
      return "gathered parameter";
    case MemoryKind::kActivation:
      return "activation";
  }
  return "?";
}

namespace internal {
namespace {

using Place = BufferPlan::Place;

bool IsGather(Opcode opcode) {
  return opcode == Opcode::kAllGather || opcode == Opcode::kAllToAll ||
         opcode == Opcode::kCollectivePermute;
}

// What each value in the arena is for, by value.
class Purposes {
 public:
  explicit Purposes(const Program& program)
      : program_(program),
        producers_(FindProducers(program)),
        kinds_(program.values.size(), MemoryKind::kActivation) {
    for (const Instruction& instruction : program.instructions) {
      if (instruction.opcode == Opcode::kReadVariable) {
        kinds_[instruction.results[0]] = MemoryKind::kParameter;
      } else if (IsGather(instruction.opcode) &&
                 IsParameter(instruction.operands[0])) {
        kinds_[instruction.results[0]] = MemoryKind::kGathered;
      }
    }
    std::vector<bool> seen(program.values.size(), false);
    for (const Instruction& write : program.instructions) {
      if (write.opcode != Opcode::kWriteVariable) continue;
      MarkGradients(write.operands[0], program.values[write.results[0]].shape,
                    seen);
    }
  }

  MemoryKind of(int value) const { return kinds_[value]; }

 private:
  bool IsParameter(int value) const {
    return kinds_[value] == MemoryKind::kParameter ||
           kinds_[value] == MemoryKind::kGathered;
  }

  // An update is elementwise: what it reads beside state, in the shape of what
  // it writes, is a gradient.
  void MarkGradients(int value, const Shape& shape, std::vector<bool>& seen) {
    std::vector<int> open = {value};
    while (!open.empty()) {
      value = open.back();
      open.pop_back();
      if (seen[value] || producers_[value] < 0 ||
          !program_.values[value].shape.SameDimensions(shape)) {
        continue;
      }
      seen[value] = true;
      const Instruction& producer = program_.instructions[producers_[value]];
      if (IsCollective(producer.opcode)) {
        if (IsGather(producer.opcode)) {
          kinds_[value] = MemoryKind::kGathered;
          open.push_back(producer.operands[0]);
        } else {
          MarkSum(value);
        }
      } else if (producer.opcode == Opcode::kMap ||
                 producer.opcode == Opcode::kMask) {
        open.insert(open.end(), producer.operands.begin(),
                    producer.operands.end());
      } else if (producer.opcode != Opcode::kReadVariable &&
                 producer.opcode != Opcode::kConstant &&
                 producer.opcode != Opcode::kRandom) {
        kinds_[value] = MemoryKind::kGradient;
      }
    }
  }

  // A gradient and, where it was summed over devices, its summand.
  void MarkSum(int value) {
    while (true) {
      kinds_[value] = MemoryKind::kGradient;
      if (producers_[value] < 0) return;
      const Instruction& producer = program_.instructions[producers_[value]];
      if (!IsCollective(producer.opcode)) return;
      const auto place =
          std::find(producer.results.begin(), producer.results.end(), value);
      value = producer.operands[place - producer.results.begin()];
    }
  }

  const Program& program_;
  std::vector<int> producers_;
  std::vector<MemoryKind> kinds_;
};

// When each value of the arena holds its memory: places of instructions.
struct Lifetime {
  int value = -1;  // who owns the memory
  int maker = 0;
  int begin = 0;
  int end = 0;  // the last instruction that needs it
};

// The lifetimes of the plan, in the order of their begin. Values that share
// memory, views and what works in place, are one after the other.
std::vector<Lifetime> Lifetimes(const Program& program) {
  const int instructions = static_cast<int>(program.instructions.size());
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
      end = std::max(end, writes ? instructions : i);
    }
    for (int result : instruction.results) {
      if (owner[result] != result ||
          program.buffers.buffers[result].place != Place::kArena) {
        continue;
      }
      // A step is fed before its first instruction.
      const bool fed = instruction.opcode == Opcode::kInput;
      lifetimes.push_back({result, i, fed ? 0 : i, i});
    }
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

ExplainedTensor Described(const Program& program, const Lifetime& lifetime,
                          MemoryKind kind) {
  const ProgramValue& value = program.values[lifetime.value];
  ExplainedTensor tensor;
  tensor.name = value.name;
  tensor.kind = kind;
  tensor.type = absl::StrCat(
      DTypeName(value.dtype), "[",
      LayoutText(program.mesh, value.shape, value.layout.Reduced()), "]");
  tensor.bytes = LocalBytes(program, lifetime.value);
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

ExplainedMemory ExplainMemory(const Program& program, const Machine& machine) {
  ExplainedMemory memory;
  memory.total = MemoryBytes(program);
  memory.arena = program.buffers.arena_bytes;
  memory.parts.unused = memory.arena;
  memory.machine_bytes = machine.memory_bytes();
  for (const ProgramVariable& variable : program.variables) {
    const int64_t bytes =
        LocalElements(program.grains, variable.shape, variable.layout) *
        DTypeSize(variable.dtype);
    (variable.section == RuleSection::kOptimizer ? memory.parts.optimizer_state
                                                 : memory.parts.parameters) +=
        bytes;
  }
  if (program.buffers.buffers.size() != program.values.size()) return memory;

  const std::vector<Lifetime> lifetimes = Lifetimes(program);
  std::vector<int64_t> change(program.instructions.size() + 2, 0);
  for (const Lifetime& lifetime : lifetimes) {
    if (lifetime.end < lifetime.begin) continue;
    const int64_t bytes = LocalBytes(program, lifetime.value);
    change[lifetime.begin] += bytes;
    change[lifetime.end + 1] -= bytes;
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
  const Purposes purposes(program);
  for (const Lifetime& lifetime : lifetimes) {
    if (lifetime.begin > peak || lifetime.end < peak) continue;
    const MemoryKind kind = purposes.of(lifetime.value);
    memory.alive.push_back(Described(program, lifetime, kind));
    const int64_t bytes = memory.alive.back().bytes;
    (kind == MemoryKind::kGradient   ? memory.parts.gradients
     : kind == MemoryKind::kGathered ? memory.parts.gathered
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
