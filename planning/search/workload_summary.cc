// SPDX-License-Identifier: Apache-2.0
#include "planning/search/workload_summary.h"

#include <algorithm>
#include <set>

#include "lowering/fusion/fused_kernels.h"
#include "lowering/passes/plan_for_machine.h"
#include "lowering/program/readers.h"
#include "mtf/status.h"

namespace mtf::internal {
namespace {

// Fills in the amounts of one program.
class WorkloadCounter {
 public:
  WorkloadCounter(const SearchStep& step, const Program& program,
                  const MachinePlan& plan,
                  const std::vector<std::string>& dimensions)
      : step_(step),
        program_(program),
        dimensions_(dimensions),
        fused_(program.instructions.size(), false),
        inside_(program.values.size(), false) {
    for (const FusedGroup& group : plan.groups) MarkInside(group);
    for (const AttentionGroup& attention : plan.attention) {
      for (int member : attention.forward) fused_[member] = true;
      for (int member : attention.backward) fused_[member] = true;
      // What stands there then is smaller.
      inside_[attention.weights] = true;
    }
  }

  WorkloadSummary Count() {
    AddMatmuls();
    AddKernels();
    AddVariables();
    AddSaved();
    return std::move(workload_);
  }

 private:
  void MarkInside(const FusedGroup& group) {
    for (int member : group.members) {
      for (int result : program_.instructions[member].results) {
        inside_[result] =
            std::count(group.outputs.begin(), group.outputs.end(), result) == 0;
      }
    }
  }

  bool Updates(const Instruction& instruction) const {
    return instruction.origin >= 0 &&
           step_.IsOfOptimizer(program_.origins[instruction.origin].operation);
  }
  double BytesOf(int value) const {
    return static_cast<double>(program_.values[value].shape.num_elements() *
                               DTypeSize(program_.values[value].dtype));
  }
  // Those dimensions of `in` that stand in `both` and not in `without`, where
  // these are given.
  Sizes SizesOf(const Shape& in, const Shape* both = nullptr,
                const Shape* without = nullptr) const {
    Sizes sizes;
    for (const Dimension& dim : in) {
      if (both != nullptr && !both->Contains(dim.name)) continue;
      if (without != nullptr && without->Contains(dim.name)) continue;
      const auto found =
          std::find(dimensions_.begin(), dimensions_.end(), dim.name);
      sizes.emplace_back(found == dimensions_.end()
                             ? -1
                             : static_cast<int>(found - dimensions_.begin()),
                         dim.size);
    }
    std::sort(sizes.begin(), sizes.end());
    return sizes;
  }

  void AddMatmuls() {
    for (size_t i = 0; i < fused_.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (instruction.opcode != Opcode::kEinsum || Updates(instruction) ||
          fused_[i]) {
        continue;
      }
      const ProgramValue& first = program_.values[instruction.operands[0]];
      const Shape &x = first.shape,
                  &y = program_.values[instruction.operands[1]].shape,
                  &z = program_.values[instruction.results[0]].shape;
      Shape shared;
      for (const Dimension& dim : x) {
        if (y.Contains(dim.name)) shared = shared.With(dim);
      }
      workload_.matmuls[{first.dtype, SizesOf(shared, &z), SizesOf(x, &z, &y),
                         SizesOf(y, &z, &x), SizesOf(shared, nullptr, &z)}] +=
          1;
    }
  }

  // Bytes that elementwise kernels read and write, fused as far as can be.
  void AddKernels() {
    std::vector<int> kernels = FindFusedKernels(program_, fused_).kernel;
    // The epilogue of a product may cost nothing besides it.
    for (int& kernel : kernels) {
      if (kernel >= 0 &&
          program_.instructions[kernel].opcode == Opcode::kEinsum) {
        kernel = -1;
      }
    }
    // By value: its kernel, and whether another reads it.
    std::vector<int> maker(program_.values.size(), -1);
    std::vector<bool> leaves(program_.values.size(), false);
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      for (int value : program_.instructions[i].operands) {
        if (maker[value] != kernels[i] || kernels[i] < 0) leaves[value] = true;
      }
      for (int value : program_.instructions[i].results) {
        maker[value] = kernels[i];
      }
    }
    std::set<DimSet> variables;
    for (const ProgramVariable& variable : program_.variables) {
      variables.insert(DimsOf(SizesOf(variable.shape)));
    }
    std::set<std::pair<int, int>> read;
    std::set<int> launched;
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (kernels[i] < 0) continue;
      launched.insert(kernels[i]);
      const auto add = [&](int value) {
        const Sizes sizes = SizesOf(program_.values[value].shape);
        // A cast of a parameter or of a gradient may work on the shard at rest.
        Amount& maps = Updates(instruction) ? workload_.update_maps
                       : variables.contains(DimsOf(sizes))
                           ? workload_.parameter_maps
                           : workload_.maps;
        maps[sizes] += BytesOf(value);
      };
      for (int value : instruction.operands) {
        if (maker[value] == kernels[i]) continue;
        if (read.insert({kernels[i], value}).second) add(value);
      }
      for (int value : instruction.results) {
        if (leaves[value]) add(value);
      }
    }
    workload_.kernels = static_cast<double>(launched.size());
  }

  void AddVariables() {
    for (const VariableInfo& variable : step_.graph().variables()) {
      if (program_.FindVariable(variable.name) == nullptr) continue;
      Amount& bytes = variable.kind == VariableKind::kParameter
                          ? workload_.parameters
                          : workload_.states;
      bytes[SizesOf(variable.shape)] += static_cast<double>(
          variable.shape.num_elements() * DTypeSize(variable.dtype));
    }
  }

  // Whether a value is a variable, or nothing but casts of one.
  bool IsOfVariable(int value, const std::vector<int>& producers) const {
    while (producers[value] >= 0) {
      const Instruction& producer = program_.instructions[producers[value]];
      if (producer.opcode == Opcode::kReadVariable) return true;
      if (producer.opcode != Opcode::kMap || producer.operands.size() != 1) {
        return false;
      }
      value = producer.operands[0];
    }
    return false;
  }

  // Values from the place that made them to their last reader; a reshape may be
  // the same memory, which then is sharded by what shards one or the other.
  // Gradients are left out, which the optimizer's shards may cut as soon as
  // they are made, and casts of parameters: of those that rest in shards none
  // waits.
  void AddSaved() {
    const std::vector<int> producers = FindProducers(program_);
    struct Life {
      std::set<std::pair<int, int64_t>> sizes;
      int begin = -1, end = -1;
      bool is_gradient = false;  // what the optimizer reads
    };
    std::map<int, Life> lives;
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      if (program_.instructions[i].opcode == Opcode::kReshape) continue;
      for (int value : program_.instructions[i].operands) {
        Sizes sizes = SizesOf(program_.values[value].shape);
        while (producers[value] >= 0 &&
               program_.instructions[producers[value]].opcode ==
                   Opcode::kReshape) {
          value = program_.instructions[producers[value]].operands[0];
          const Sizes more = SizesOf(program_.values[value].shape);
          sizes.insert(sizes.end(), more.begin(), more.end());
        }
        if (producers[value] < 0 || inside_[value] ||
            IsOfVariable(value, producers)) {
          continue;
        }
        Life& life = lives[value];
        life.sizes.insert(sizes.begin(), sizes.end());
        life.begin = producers[value];
        life.end = static_cast<int>(i);
        life.is_gradient =
            life.is_gradient || Updates(program_.instructions[i]);
      }
    }
    std::vector<double> held(program_.instructions.size() + 1, 0);
    for (const auto& [value, life] : lives) {
      if (life.is_gradient) continue;
      held[life.begin] += BytesOf(value);
      held[life.end] -= BytesOf(value);
    }
    double sum = 0, most = -1;
    int place = 0;
    for (size_t i = 0; i < held.size(); ++i) {
      sum += held[i];
      if (sum > most) {
        most = sum;
        place = static_cast<int>(i);
      }
    }
    for (const auto& [value, life] : lives) {
      if (life.begin <= place && place < life.end && !life.is_gradient) {
        workload_.saved[Sizes(life.sizes.begin(), life.sizes.end())] +=
            BytesOf(value);
      }
    }
    AddKept(place);
  }

  // `place` is where most is held.
  void AddKept(int place) {
    struct Reads {
      int variable = -1;  // its value as it was read
      int bytes = 0;      // of an element in the narrowest dtype
      bool before = false, behind = false;
    };
    std::map<int, Reads> all;
    std::vector<int> variable(program_.values.size(), -1);
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (instruction.opcode == Opcode::kReadVariable) {
        const ProgramVariable* of =
            program_.FindVariable(instruction.Get<NameAttributes>().name);
        if (of->section == RuleSection::kParameters) {
          variable[instruction.results[0]] = instruction.results[0];
        }
        continue;
      }
      const bool casts =
          instruction.operands.size() == 1 && IsCast(instruction);
      for (int operand : instruction.operands) {
        if (variable[operand] < 0 || Updates(instruction)) continue;
        if (casts) {
          variable[instruction.results[0]] = variable[operand];
          continue;
        }
        Reads& reads = all[variable[operand]];
        reads.variable = variable[operand];
        const int bytes =
            static_cast<int>(DTypeSize(program_.values[operand].dtype));
        reads.bytes = reads.bytes == 0 ? bytes : std::min(reads.bytes, bytes);
        (static_cast<int>(i) <= place ? reads.before : reads.behind) = true;
      }
    }
    for (const auto& [value, reads] : all) {
      if (!reads.before || !reads.behind) continue;
      const Shape& shape = program_.values[value].shape;
      workload_.kept[SizesOf(shape)] +=
          static_cast<double>(shape.num_elements() * reads.bytes);
    }
  }

  const SearchStep& step_;
  const Program& program_;
  const std::vector<std::string>& dimensions_;
  std::vector<bool> fused_;   // instructions of fused attention
  std::vector<bool> inside_;  // values that the plan has no memory for
  WorkloadSummary workload_;
};

}  // namespace

DimSet DimsOf(const Sizes& sizes) {
  DimSet set = 0;
  for (const auto& [place, size] : sizes) {
    if (place >= 0) set |= DimSet{1} << place;
  }
  return set;
}

WorkloadSummary SummarizeProgram(const SearchStep& step, const Program& program,
                                 const MachinePlan& plan,
                                 const std::vector<std::string>& dimensions) {
  return WorkloadCounter(step, program, plan, dimensions).Count();
}

absl::StatusOr<WorkloadSummary> SummarizeStep(
    const SearchStep& step, const std::vector<std::string>& dimensions,
    const SearchPrices& prices) {
  std::vector<WorkloadSummary> parts;
  for (const FewLayers* few : step.Representatives()) {
    MTF_ASSIGN_OR_RETURN(
        Program lowered,
        step.Lower(Mesh(), "", few, {.last_pass = prices.LastPass()}));
    const MachinePlan plan = prices.Plan(lowered);
    parts.push_back(SummarizeProgram(step, lowered, plan, dimensions));
  }
  const double place = step.position();
  const WorkloadSummary &low = parts.front(), &high = parts.back();
  WorkloadSummary all;
  all.matmuls = InLine(low.matmuls, high.matmuls, place);
  all.kernels = low.kernels + place * (high.kernels - low.kernels);
  for (Amount WorkloadSummary::*amount :
       {&WorkloadSummary::maps, &WorkloadSummary::update_maps,
        &WorkloadSummary::parameter_maps, &WorkloadSummary::parameters,
        &WorkloadSummary::states, &WorkloadSummary::saved,
        &WorkloadSummary::kept}) {
    all.*amount = InLine(low.*amount, high.*amount, place);
  }
  return all;
}

}  // namespace mtf::internal
