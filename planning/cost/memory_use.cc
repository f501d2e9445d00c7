// SPDX-License-Identifier: Apache-2.0
//
// What fills the memory of a rank: variables by purpose, and the tensors that
// are alive when the arena is fullest.
#include "planning/cost/memory_use.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/passes/plan_buffers.h"
#include "lowering/passes/plan_for_machine.h"
#include "lowering/program/readers.h"
#include "planning/cost/lifetimes.h"

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

using Storage = BufferPlan::Storage;

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
