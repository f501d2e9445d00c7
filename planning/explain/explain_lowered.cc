// SPDX-License-Identifier: Apache-2.0
//
// ExplainLowered: the part of an explanation that needs only the lowered
// program.
#include <algorithm>
#include <future>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lowering/program/attention_size.h"
#include "lowering/program/count_costs.h"
#include "planning/explain/explain_parts.h"

namespace mtf {
namespace internal {

StepCost CostOf(const Program& program, const StepEstimate& estimate,
                absl::Span<const CollectiveCost> collectives) {
  StepCost cost;
  cost.seconds = estimate.seconds;
  for (const CollectiveCost& collective : collectives) {
    cost.wire_bytes += collective.bytes;
  }
  cost.memory_bytes = MemoryBytes(program);
  return cost;
}

namespace {

// Totals by name, in the order in which the names are first used.
class Totals {
 public:
  ExplainedTotal& operator[](const std::string& name) {
    const auto [index, added] = indices_.try_emplace(name, totals_.size());
    if (added) totals_.emplace_back().name = name;
    return totals_[index->second];
  }
  std::vector<ExplainedTotal> Take() { return std::move(totals_); }

 private:
  absl::flat_hash_map<std::string, size_t> indices_;
  std::vector<ExplainedTotal> totals_;
};

ExplainedAttention ExplainAttention(const Program& program) {
  ExplainedAttention attention;
  for (const Instruction& instruction : program.instructions) {
    attention.instructions += instruction.opcode == Opcode::kAttention;
  }
  for (const ComposedAttention& composed : program.composed_attention) {
    const std::string& operation = composed.origin.operation;
    attention.composed.push_back({operation, ModuleOf(operation),
                                  composed.origin.site.ToString(),
                                  composed.why});
  }
  return attention;
}

// "einsum layer_0/ffn/einsum_1".
std::string TimelineName(const Program& program,
                         const Instruction& instruction) {
  const bool is_known = instruction.origin >= 0;
  return absl::StrCat(
      OpcodeName(instruction.opcode), is_known ? " " : "",
      is_known
          ? absl::string_view(program.origins[instruction.origin].operation)
          : "");
}

std::vector<ExplainedCollective> Collectives(
    const Program& program, absl::Span<const CollectiveCost> costs) {
  std::vector<ExplainedCollective> collectives;
  collectives.reserve(costs.size());
  for (const CollectiveCost& cost : costs) {
    ExplainedCollective& collective = collectives.emplace_back();
    collective.number = static_cast<int>(collectives.size());
    collective.instruction = cost.instruction;
    collective.kind = std::string(CollectiveName(cost.kind));
    collective.axes = program.mesh.AxisNames(cost.axes);
    collective.group_size = cost.group_size;
    collective.tensor = cost.tensor;
    collective.dimension = cost.dimension;
    collective.rule = cost.rule;
    collective.rule_origin = cost.rule_origin;
    collective.module = ModuleOf(cost.operation);
    collective.operation = cost.operation;
    collective.site = cost.site.ToString();
    collective.bytes = cost.bytes;
    collective.asynchronous =
        IsAsynchronous(program.instructions[cost.instruction]);
    collective.no_change = collective.rule.empty() ? kNoRule : "not tried";
  }
  return collectives;
}

std::vector<ExplainedPadding> Padding(const Program& program) {
  std::map<std::string, ExplainedPadding> padded;
  const ProgramValue* last = nullptr;
  for (const ProgramValue& value : program.values) {
    // Skip consecutive values with the same shape and layout, the common case.
    if (last != nullptr && &value.shape.dims() == &last->shape.dims() &&
        value.local == last->local && value.layout.dims == last->layout.dims) {
      continue;
    }
    last = &value;
    for (size_t i = 0; i < value.local.size(); ++i) {
      const Dimension& dim = value.shape[static_cast<int>(i)];
      const int64_t extent =
          value.local[i] * program.mesh.SizeOf(value.layout.dims[i]);
      if (extent != dim.size) {
        padded[dim.name] = {dim.name, dim.size, extent};
      }
    }
  }
  std::vector<ExplainedPadding> list;
  for (auto& [name, padding] : padded) list.push_back(std::move(padding));
  return list;
}

TensorPlacement PlacementOf(const Program& program, std::string name,
                            std::string kind, DType dtype, const Shape& shape,
                            const TensorLayout& layout) {
  TensorPlacement tensor{std::move(name),
                         std::move(kind),
                         std::string(DTypeName(dtype)),
                         {},
                         DTypeSize(dtype)};
  for (int i = 0; i < shape.rank(); ++i) {
    TensorPlacement::ShardedDimension& dimension =
        tensor.dimensions.emplace_back();
    dimension.name = shape[i].name;
    dimension.size = shape[i].size;
    dimension.padded = program.grains.ExtentOf(shape[i]);
    dimension.axes.assign(layout.dims[i].begin(), layout.dims[i].end());
    tensor.bytes *= dimension.padded / program.mesh.SizeOf(layout.dims[i]);
  }
  return tensor;
}

std::vector<TensorPlacement> TensorPlacements(const Program& program) {
  std::vector<TensorPlacement> tensors;
  tensors.reserve(program.variables.size());
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::kInput) continue;
    const ProgramValue& value = program.values[instruction.results[0]];
    tensors.push_back(
        PlacementOf(program, instruction.Get<NameAttributes>().name, "input",
                    value.dtype, value.shape, value.layout));
  }
  for (const ProgramVariable& variable : program.variables) {
    tensors.push_back(PlacementOf(program, variable.name,
                                  std::string(RoleOf(variable)), variable.dtype,
                                  variable.shape, variable.layout));
    tensors.back().offloaded = variable.offloaded;
  }
  return tensors;
}

// For each set of axes that collectives run over: the FLOPs of the step per
// byte sent, and the FLOPs per byte at which the machine computes for as long
// as it sends.
std::vector<ExplainedMargin> Margins(const Program& program,
                                     absl::Span<const CollectiveCost> costs,
                                     const Machine& machine,
                                     const Explanation& explanation) {
  constexpr int64_t kSide = 4096;        // large enough to reach peak speed
  constexpr int64_t kBytes = 256 << 20;  // large enough to hide the latency
  std::vector<ExplainedMargin> margins;
  DType dtype = kFloat32;
  for (const ExplainedEinsum& einsum : explanation.einsums) {
    const Instruction& instruction = program.instructions[einsum.instruction];
    dtype = program.values[instruction.operands[0]].dtype;
  }
  const double flops_per_second =
      2.0 * kSide * kSide * kSide /
      machine.MatmulSeconds(dtype, 1, kSide, kSide, kSide);
  absl::flat_hash_map<std::string, AxisList> axes;
  for (const CollectiveCost& cost : costs) {
    axes[program.mesh.AxisNames(cost.axes)] = cost.axes;
  }
  for (const ExplainedTotal& total : explanation.by_axis) {
    const AxisList& list = axes.at(total.name);
    const double ranks = static_cast<double>(program.mesh.SizeOf(list));
    const double seconds = machine.CollectiveSeconds(
        CollectiveKind::kAllGather, program.mesh, list, kBytes);
    if (total.bytes == 0 || seconds <= 0) continue;
    const double bytes_per_second =
        (ranks - 1) / ranks * static_cast<double>(kBytes) / seconds;
    margins.push_back({total.name,
                       explanation.flops / static_cast<double>(total.bytes),
                       flops_per_second / bytes_per_second});
  }
  return margins;
}

}  // namespace

Explanation ExplainLowered(const Program& program, const Machine& machine) {
  // The two slowest parts run concurrently with the rest.
  std::future<std::vector<ExplainedEinsum>> einsums =
      std::async([&program] { return ExplainEinsums(program); });
  std::future<ExplainedMemory> memory =
      std::async([&] { return ExplainMemory(program); });
  const StepEstimate estimate = EstimateStep(program, machine);
  Explanation explanation;
  explanation.batch = BatchText(program);
  explanation.mesh = program.mesh;
  explanation.machine = machine.name();
  explanation.machine_checked = machine.checked();
  const std::vector<CollectiveCost> costs = ListCollectives(program);
  explanation.cost = CostOf(program, estimate, costs);
  explanation.compute = estimate.compute;
  explanation.collective_seconds = estimate.collectives;
  explanation.exposed = estimate.exposed;
  explanation.host_copy_seconds = estimate.host_copies;
  explanation.host_copy_bytes = HostCopyBytes(program);
  if (explanation.host_copy_bytes > 0 && !machine.has_host_memory()) {
    explanation.notices.push_back(absl::StrCat(
        "machine ", machine.name(),
        " has one memory for host and device: the bytes of [offload] are in it "
        "too, besides the memory stated here"));
  }
  explanation.collectives = Collectives(program, costs);
  explanation.padding = Padding(program);
  explanation.tensors = TensorPlacements(program);

  // Times of instructions, and the compute of each module.
  std::vector<int> number(program.instructions.size(), 0);
  std::vector<double> seconds(program.instructions.size(), 0);
  for (const ExplainedCollective& collective : explanation.collectives) {
    number[collective.instruction] = collective.number;
  }
  Totals by_axis, by_kind, by_module;
  // By origin; filled in on first use.
  std::vector<std::string> modules(program.origins.size());
  explanation.timeline.reserve(estimate.timeline.size());
  const std::vector<StepPhase> phases = PhasesOf(program);
  for (const TimedInstruction& timed : estimate.timeline) {
    const Instruction& instruction = program.instructions[timed.instruction];
    seconds[timed.instruction] = timed.end - timed.begin;
    explanation.timeline.push_back(
        {timed.instruction, number[timed.instruction],
         TimelineName(program, instruction), phases[timed.instruction],
         timed.begin, timed.end, timed.exposed});
    if (number[timed.instruction] > 0) {
      ExplainedCollective& collective =
          explanation.collectives[number[timed.instruction] - 1];
      collective.seconds = timed.end - timed.begin;
      collective.exposed = timed.exposed;
    } else if (instruction.origin >= 0 && !timed.is_host_copy) {
      std::string& module = modules[instruction.origin];
      if (module.empty()) {
        module = ModuleOf(program.origins[instruction.origin].operation);
      }
      by_module[module].compute += timed.end - timed.begin;
    }
  }
  // Sums over collectives.
  for (const ExplainedCollective& collective : explanation.collectives) {
    for (ExplainedTotal* total :
         {&by_axis[collective.axes], &by_kind[collective.kind],
          &by_module[collective.module]}) {
      ++total->calls;
      total->bytes += collective.bytes;
      total->collectives += collective.seconds;
      total->exposed += collective.exposed;
    }
  }
  explanation.einsums = einsums.get();
  explanation.precision = PrecisionText(program, explanation.einsums);
  explanation.memory = memory.get();
  explanation.memory.machine_bytes = machine.memory_bytes();
  explanation.attention = ExplainAttention(program);
  for (ExplainedEinsum& einsum : explanation.einsums) {
    einsum.seconds = seconds[einsum.instruction];
    explanation.flops += einsum.flops;
    by_module[einsum.module].flops += einsum.flops;
  }
  for (const Instruction& instruction : program.instructions) {
    if (!IsAttention(instruction.opcode)) continue;
    const double flops = SizeOfAttention(program, instruction).Flops();
    explanation.flops += flops;
    if (instruction.origin < 0) continue;
    by_module[ModuleOf(program.origins[instruction.origin].operation)].flops +=
        flops;
  }
  explanation.by_axis = by_axis.Take();
  explanation.by_kind = by_kind.Take();
  explanation.by_module = by_module.Take();
  explanation.margins = Margins(program, costs, machine, explanation);
  return explanation;
}

}  // namespace internal
}  // namespace mtf
