// SPDX-License-Identifier: Apache-2.0
#include "planning/search/workload_summary.h"

#include <algorithm>
#include <set>

#include "lowering/program/readers.h"
#include "mtf/status.h"
#include "planning/cost/fused_kernels.h"

namespace mtf::internal {
namespace {

// Counts the work of one program.
class WorkloadCounter {
 public:
  WorkloadCounter(const SearchStep& step, const Program& program,
                  const std::vector<std::string>& dimensions)
      : step_(step),
        program_(program),
        dimensions_(dimensions),
        inside_(FindInternalValues(program)) {}

  WorkloadSummary Count() {
    AddMatmuls();
    AddKernels();
    AddVariables();
    AddSaved();
    return std::move(workload_);
  }

 private:
  bool Updates(const Instruction& instruction) const {
    return instruction.origin >= 0 &&
           step_.IsOfOptimizer(program_.origins[instruction.origin].operation);
  }
  double BytesOf(int value) const {
    return static_cast<double>(program_.values[value].shape.num_elements() *
                               DTypeSize(program_.values[value].dtype));
  }
  // The dimensions of `in` that are also in `both` and not in `without`, where
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
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.opcode != Opcode::kEinsum || Updates(instruction)) {
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

  // Bytes that elementwise kernels read and write if they are fused as far as
  // possible.
  void AddKernels() {
    std::vector<int> kernels = FindFusedKernels(program_).kernel;
    // An epilogue may take no time beyond that of its einsum.
    for (int& kernel : kernels) {
      if (kernel >= 0 &&
          program_.instructions[kernel].opcode == Opcode::kEinsum) {
        kernel = -1;
      }
    }
    // By value: the kernel that computes it, and whether another kernel reads
    // it.
    std::vector<int> producer_kernel(program_.values.size(), -1);
    std::vector<bool> is_read_outside(program_.values.size(), false);
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      for (int value : program_.instructions[i].operands) {
        if (producer_kernel[value] != kernels[i] || kernels[i] < 0) {
          is_read_outside[value] = true;
        }
      }
      for (int value : program_.instructions[i].results) {
        producer_kernel[value] = kernels[i];
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
        // A cast of a parameter or of a gradient may run on the stored shard.
        BytesByDims& maps = Updates(instruction) ? workload_.update_maps
                            : variables.contains(DimsOf(sizes))
                                ? workload_.parameter_maps
                                : workload_.maps;
        maps[sizes] += BytesOf(value);
      };
      for (int value : instruction.operands) {
        if (producer_kernel[value] == kernels[i]) continue;
        if (read.insert({kernels[i], value}).second) add(value);
      }
      for (int value : instruction.results) {
        if (is_read_outside[value]) add(value);
      }
    }
    workload_.kernels = static_cast<double>(launched.size());
  }

  void AddVariables() {
    for (const VariableInfo& variable : step_.graph().variables()) {
      if (program_.FindVariable(variable.name) == nullptr) continue;
      if (step_.IsOffloaded(variable)) continue;
      BytesByDims& bytes = variable.kind == VariableKind::kParameter
                               ? workload_.parameters
                               : workload_.states;
      bytes[SizesOf(variable.shape)] += static_cast<double>(
          variable.shape.num_elements() * DTypeSize(variable.dtype));
    }
  }

  // Whether a value is a variable or a cast of one.
  bool IsOfVariable(int value, const std::vector<int>& producers) const {
    while (producers[value] >= 0) {
      const Instruction& producer = program_.instructions[producers[value]];
      if (producer.opcode == Opcode::kReadVariable ||
          producer.opcode == Opcode::kCopyToDevice) {
        return true;
      }
      if (producer.opcode != Opcode::kMap || producer.operands.size() != 1) {
        return false;
      }
      value = producer.operands[0];
    }
    return false;
  }

  // Sums values over their lifetimes, from the producer to the last reader. A
  // reshape may share the memory of its operand, which then is sharded by the
  // axes of the dimensions of either. Gradients are left out, because they may
  // be reduced to the shards of the optimizer as soon as they are computed, and
  // so are casts of parameters, because those of sharded parameters need not be
  // kept.
  void AddSaved() {
    const std::vector<int> producers = FindProducers(program_);
    struct Lifetime {
      std::set<std::pair<int, int64_t>> sizes;
      int begin = -1, end = -1;
      bool is_gradient = false;  // the optimizer reads it
    };
    std::map<int, Lifetime> lifetimes;
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
        Lifetime& lifetime = lifetimes[value];
        lifetime.sizes.insert(sizes.begin(), sizes.end());
        lifetime.begin = producers[value];
        lifetime.end = static_cast<int>(i);
        lifetime.is_gradient =
            lifetime.is_gradient || Updates(program_.instructions[i]);
      }
    }
    std::vector<double> change(program_.instructions.size() + 1, 0);
    for (const auto& [value, lifetime] : lifetimes) {
      if (lifetime.is_gradient) continue;
      change[lifetime.begin] += BytesOf(value);
      change[lifetime.end] -= BytesOf(value);
    }
    double live_bytes = 0, peak_bytes = -1;
    int peak = 0;
    for (size_t i = 0; i < change.size(); ++i) {
      live_bytes += change[i];
      if (live_bytes > peak_bytes) {
        peak_bytes = live_bytes;
        peak = static_cast<int>(i);
      }
    }
    for (const auto& [value, lifetime] : lifetimes) {
      if (lifetime.begin <= peak && peak < lifetime.end &&
          !lifetime.is_gradient) {
        workload_.saved[Sizes(lifetime.sizes.begin(), lifetime.sizes.end())] +=
            BytesOf(value);
      }
    }
    AddKept(peak);
  }

  // `peak`: the instruction with the most live bytes.
  void AddKept(int peak) {
    struct Reads {
      int variable = -1;  // the value that kReadVariable defines
      int bytes = 0;      // of an element in the narrowest dtype
      bool before = false, after = false;
    };
    std::map<int, Reads> all;
    std::vector<int> variable(program_.values.size(), -1);
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (instruction.opcode == Opcode::kReadVariable) {
        const ProgramVariable* program_variable =
            program_.FindVariable(instruction.Get<NameAttributes>().name);
        if (program_variable->section == RuleSection::kParameters) {
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
        (static_cast<int>(i) <= peak ? reads.before : reads.after) = true;
      }
    }
    for (const auto& [value, reads] : all) {
      if (!reads.before || !reads.after) continue;
      const Shape& shape = program_.values[value].shape;
      workload_.kept[SizesOf(shape)] +=
          static_cast<double>(shape.num_elements() * reads.bytes);
    }
  }

  const SearchStep& step_;
  const Program& program_;
  const std::vector<std::string>& dimensions_;
  const std::vector<bool> inside_;  // values for which the plan has no memory
  WorkloadSummary workload_;
};

}  // namespace

DimSet DimsOf(const Sizes& sizes) {
  DimSet set = 0;
  for (const auto& [dim, size] : sizes) {
    if (dim >= 0) set |= DimSet{1} << dim;
  }
  return set;
}

WorkloadSummary SummarizeProgram(const SearchStep& step, const Program& program,
                                 const std::vector<std::string>& dimensions) {
  return WorkloadCounter(step, program, dimensions).Count();
}

absl::StatusOr<WorkloadSummary> SummarizeStep(
    const SearchStep& step, const std::vector<std::string>& dimensions,
    const SearchPrices& prices) {
  std::vector<WorkloadSummary> summaries;
  for (const FewLayers* few : step.LayerSubsets()) {
    MTF_ASSIGN_OR_RETURN(
        Program lowered,
        step.Lower(Mesh(), "", few, {.fusion = prices.fusion}));
    summaries.push_back(SummarizeProgram(step, lowered, dimensions));
  }
  const double position = step.position();
  const WorkloadSummary &low = summaries.front(), &high = summaries.back();
  WorkloadSummary all;
  all.matmuls = Extrapolate(low.matmuls, high.matmuls, position);
  all.kernels = low.kernels + position * (high.kernels - low.kernels);
  for (BytesByDims WorkloadSummary::*field :
       {&WorkloadSummary::maps, &WorkloadSummary::update_maps,
        &WorkloadSummary::parameter_maps, &WorkloadSummary::parameters,
        &WorkloadSummary::states, &WorkloadSummary::saved,
        &WorkloadSummary::kept}) {
    all.*field = Extrapolate(low.*field, high.*field, position);
  }
  return all;
}

}  // namespace mtf::internal
