// SPDX-License-Identifier: Apache-2.0
//
// ExplainMemory: variables by purpose, and the tensors alive at the peak of the
// arena.
#include "planning/cost/memory_use.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lowering/passes/plan_buffers.h"
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

ExplainedMemory ExplainMemory(const Program& program) {
  ExplainedMemory memory;
  memory.total = MemoryBytes(program);
  memory.arena = program.buffers.arena_bytes;
  memory.parts.unused = memory.arena;
  for (const ProgramVariable& variable : program.variables) {
    PartOf(variable, memory.parts) += StoredBytes(program, variable);
  }
  if (program.buffers.buffers.size() != program.values.size()) return memory;

  const std::vector<Lifetime> lifetimes = Lifetimes(program);
  // Find the instruction at which live tensors take most bytes.
  std::vector<int64_t> change(program.instructions.size() + 2, 0);
  for (const Lifetime& lifetime : lifetimes) {
    if (lifetime.end < lifetime.begin) continue;
    change[lifetime.begin] += lifetime.bytes;
    change[lifetime.end + 1] -= lifetime.bytes;
  }
  int64_t live_bytes = 0, peak_bytes = 0;
  int peak = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    live_bytes += change[i];
    if (live_bytes <= peak_bytes) continue;
    peak_bytes = live_bytes;
    peak = static_cast<int>(i);
  }
  if (peak_bytes == 0) return memory;
  const Instruction& busiest = program.instructions[peak];
  if (busiest.origin >= 0) {
    memory.peak_operation = program.origins[busiest.origin].operation;
    memory.peak_site = program.origins[busiest.origin].site.ToString();
  }
  // List the tensors that are alive there.
  const std::vector<MemoryKind> purposes = FindPurposes(program);
  for (const Lifetime& lifetime : lifetimes) {
    if (lifetime.begin > peak || lifetime.end < peak) continue;
    const MemoryKind kind = purposes[lifetime.value];
    memory.alive.push_back(Described(program, lifetime, kind));
    const int64_t bytes = memory.alive.back().bytes;
    (kind == MemoryKind::kGradient ? memory.parts.gradients
     : kind == MemoryKind::kCopy   ? memory.parts.copies
                                   : memory.parts.activations) += bytes;
  }
  memory.parts.unused = memory.arena - peak_bytes;
  std::stable_sort(memory.alive.begin(), memory.alive.end(),
                   [](const ExplainedTensor& a, const ExplainedTensor& b) {
                     return a.bytes > b.bytes;
                   });
  return memory;
}

}  // namespace internal
}  // namespace mtf
