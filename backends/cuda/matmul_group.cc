// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/matmul_group.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "backends/cuda/choose_matmul.h"
#include "backends/cuda/einsum.h"
#include "lowering/readers.h"
#include "lowering/runs_nothing.h"

namespace mtf::cuda {
namespace {

using Epilogue = MatmulProblem::Epilogue;
using F = ScalarFunction;

bool SameMemory(const ProgramValue& x, const ProgramValue& y) {
  return x.dtype == y.dtype && x.shape == y.shape && x.local == y.local;
}

// What a map is where it adds its operands and, perhaps, ends with a gelu: the
// places of the operands, each once; nullopt for any other map.
struct Sum {
  std::vector<int> operands;
  bool gelu = false;
};
std::optional<Sum> SumOf(const Instruction& map, DType dtype) {
  const MapExpression& expression = map.expression;
  // Sums so far: operands alone, then one per step.
  std::vector<std::vector<int>> sums;
  for (int i = 0; i < expression.num_operands; ++i) sums.push_back({i});
  Sum sum;
  for (size_t i = 0; i < expression.steps.size(); ++i) {
    const MapStep& step = expression.steps[i];
    const bool last = i + 1 == expression.steps.size();
    if (step.dtype != dtype) return std::nullopt;
    if (step.function == F::kAdd) {
      std::vector<int> both = sums[step.arguments[0]];
      const std::vector<int>& other = sums[step.arguments[1]];
      both.insert(both.end(), other.begin(), other.end());
      sums.push_back(std::move(both));
    } else if (step.function == F::kGelu && last) {
      sum.gelu = true;
      sums.push_back(sums[step.arguments[0]]);
    } else {
      return std::nullopt;
    }
  }
  for (int place : sums.back()) {
    const int operand = map.operands[place];
    if (std::count(sum.operands.begin(), sum.operands.end(), operand) > 0) {
      return std::nullopt;
    }
    sum.operands.push_back(operand);
  }
  return sum;
}

class Finder {
 public:
  Finder(const Program& program, const std::vector<bool>& taken)
      : program_(program), taken_(taken), readers_(CountReaders(program)) {}

  std::optional<MatmulGroup> At(int place) const {
    const Instruction& einsum = program_.instructions[place];
    const int y = einsum.results[0];
    const ProgramValue& value = program_.values[y];
    const ProgramValue& x = program_.values[einsum.operands[0]];
    if (!IsFloat(value.dtype) ||
        KindOfEinsum(einsum.einsum, x.dtype) != EinsumKind::kMatmul) {
      return std::nullopt;
    }
    const MatmulCalls calls =
        ChooseMatmul(einsum.einsum, x.dtype, value.dtype, 16);
    if (calls.calls.size() != 1 || calls.unpack_z.has_value()) {
      return std::nullopt;
    }
    MatmulGroup group;
    group.members = {place};
    group.result = y;
    // At most one map adds, and at most one more is the gelu.
    while (Extend(einsum.einsum, &group)) {
    }
    if (group.members.size() == 1) return std::nullopt;
    return group;
  }

 private:
  // The next instruction that runs, if it is a map that is free.
  int NextMap(int place) const {
    for (size_t i = place + 1; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (taken_[i]) return -1;
      if (RunsNothing(program_, instruction)) continue;
      return instruction.opcode == Opcode::kMap ? static_cast<int>(i) : -1;
    }
    return -1;
  }

  // Whether `bias` lies along the columns of the matmul, which are the last
  // dimensions of its result.
  bool IsBias(const ProgramValue& bias, const ProgramValue& result,
              const EinsumPlan& plan) const {
    const int rank = bias.shape.rank(), skipped = result.shape.rank() - rank;
    if (bias.dtype != result.dtype || skipped < 0) return false;
    int64_t elements = 1;
    for (int i = 0; i < rank; ++i) {
      if (bias.shape[i] != result.shape[skipped + i]) return false;
      if (bias.local[i] != result.local[skipped + i]) return false;
      elements *= bias.local[i];
    }
    return elements == plan.n.extent && plan.n.z == 1;
  }

  // Adds one more map to the group, if the next one goes with it.
  bool Extend(const EinsumPlan& plan, MatmulGroup* group) const {
    if (group->epilogue == Epilogue::kGelu ||
        group->epilogue == Epilogue::kBiasGelu) {
      return false;
    }
    const int next = NextMap(group->members.back());
    if (next < 0) return false;
    const Instruction& map = program_.instructions[next];
    const ProgramValue& before = program_.values[group->result];
    const ProgramValue& result = program_.values[map.results[0]];
    if (!SameMemory(before, result)) return false;
    const std::optional<Sum> sum = SumOf(map, result.dtype);
    if (!sum.has_value()) return false;
    MatmulGroup extended = *group;
    bool found = false;
    for (int operand : sum->operands) {
      const ProgramValue& value = program_.values[operand];
      if (operand == group->result) {
        found = true;
      } else if (extended.addend < 0 && SameMemory(value, result)) {
        extended.addend = operand;
      } else if (extended.bias < 0 && IsBias(value, result, plan)) {
        extended.bias = operand;
        extended.epilogue = Epilogue::kBias;
      } else {
        return false;
      }
    }
    if (!found) return false;
    const bool adds = sum->operands.size() > 1;
    // What gelu is of may be kept; a sum leaves nothing of its parts.
    const bool others = readers_[group->result] > 1;
    if (others && (adds || !sum->gelu)) return false;
    if (sum->gelu) {
      extended.epilogue = extended.epilogue == Epilogue::kBias
                              ? Epilogue::kBiasGelu
                              : Epilogue::kGelu;
      if (others) extended.kept = group->result;
    }
    extended.result = map.results[0];
    extended.members.push_back(next);
    *group = std::move(extended);
    return true;
  }

  const Program& program_;
  const std::vector<bool>& taken_;
  std::vector<int> readers_;
};

const BoundValue* Find(absl::Span<const Binding> members, int value) {
  for (const Binding& member : members) {
    const Instruction& instruction = member.instruction();
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      if (instruction.operands[i] == value) return &member.operands[i];
    }
    for (size_t i = 0; i < instruction.results.size(); ++i) {
      if (instruction.results[i] == value) return &member.results[i];
    }
  }
  return nullptr;
}

bool Overlap(const BoundValue& x, const BoundValue& y) {
  const char* a = static_cast<const char*>(x.data);
  const char* b = static_cast<const char*>(y.data);
  return a < b + y.elements() * DTypeSize(y.dtype()) &&
         b < a + x.elements() * DTypeSize(x.dtype());
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(
    Runtime& runtime, Scratch& scratch, const MatmulGroup& group,
    absl::Span<const Binding> members) {
  const BoundValue& x = members[0].operands[0];
  const BoundValue& y = members[0].operands[1];
  const BoundValue& z = *Find(members, group.result);
  MatmulFinish finish;
  finish.epilogue = group.epilogue;
  // Nothing may be written over what the matmul still reads, but for a sum that
  // takes the place of what is added.
  std::vector<const BoundValue*> reads = {&x, &y};
  if (group.addend >= 0) {
    const BoundValue& addend = *Find(members, group.addend);
    finish.addend = addend.data;
    if (addend.data != z.data) reads.push_back(&addend);
  }
  if (group.bias >= 0) {
    const BoundValue& bias = *Find(members, group.bias);
    finish.bias = bias.data;
    reads.push_back(&bias);
  }
  std::vector<const BoundValue*> writes = {&z};
  if (group.kept >= 0) {
    const BoundValue& kept = *Find(members, group.kept);
    finish.kept = kept.data;
    finish.keeps = true;
    writes.push_back(&kept);
    if (Overlap(kept, z)) return std::unique_ptr<Kernel>();
  }
  for (const BoundValue* write : writes) {
    for (const BoundValue* read : reads) {
      if (Overlap(*write, *read)) return std::unique_ptr<Kernel>();
    }
  }
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = PrepareMatmul(
      runtime, scratch, members[0].instruction().einsum, x, y, z, finish);
  if (absl::IsUnimplemented(kernel.status())) return std::unique_ptr<Kernel>();
  return kernel;
}

}  // namespace

std::vector<MatmulGroup> FindMatmulGroups(const Program& program,
                                          const std::vector<bool>& taken) {
  std::vector<MatmulGroup> groups;
  const Finder finder(program, taken);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].opcode != Opcode::kEinsum || taken[i]) continue;
    std::optional<MatmulGroup> group = finder.At(static_cast<int>(i));
    if (group.has_value()) groups.push_back(*std::move(group));
  }
  return groups;
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareMatmulGroup(
    Runtime& runtime, Scratch& scratch, absl::Span<const Binding> members) {
  const Program& program = *members[0].program;
  // Others hold what is not the group's.
  std::vector<bool> taken(program.instructions.size(), true);
  for (int i = members.front().index; i <= members.back().index; ++i) {
    taken[i] = false;
  }
  for (const MatmulGroup& group : FindMatmulGroups(program, taken)) {
    if (group.members.size() != members.size() ||
        group.members.back() != members.back().index) {
      continue;
    }
    return Prepare(runtime, scratch, group, members);
  }
  return std::unique_ptr<Kernel>();
}

}  // namespace mtf::cuda
