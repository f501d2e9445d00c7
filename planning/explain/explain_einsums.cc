// SPDX-License-Identifier: Apache-2.0
//
// ExplainEinsums: the bytes that collectives move for each einsum, and the
// lower bound on them.
#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/program/readers.h"
#include "planning/explain/explain_parts.h"

namespace mtf {

double LowerBoundBytes(int64_t batch, int64_t m, int64_t n, int64_t k,
                       int64_t ranks, int element_bytes, MatmulRegime* regime) {
  MatmulRegime unused;
  if (regime == nullptr) regime = &unused;
  *regime = MatmulRegime::kNone;
  // The products of a batch are independent: each runs on `p` ranks.
  const double p = static_cast<double>(ranks) / static_cast<double>(batch);
  if (p <= 1) return 0;
  double sizes[3] = {static_cast<double>(m), static_cast<double>(n),
                     static_cast<double>(k)};
  std::sort(sizes, sizes + 3);
  const double small = sizes[0], middle = sizes[1], large = sizes[2];
  // Words that a rank must access; `owned` of them are already local.
  double accessed;
  if (p <= large / middle) {
    *regime = MatmulRegime::k1D;
    accessed = (large * middle + large * small) / p + middle * small;
  } else if (p <= large * middle / (small * small)) {
    *regime = MatmulRegime::k2D;
    accessed =
        2 * std::sqrt(large * middle * small * small / p) + large * middle / p;
  } else {
    *regime = MatmulRegime::k3D;
    accessed = 3 * std::pow(large * middle * small / p, 2.0 / 3);
  }
  const double owned = (large * middle + large * small + middle * small) / p;
  return std::max(0.0, accessed - owned) * element_bytes;
}

namespace internal {
namespace {

// Attributes the bytes that collectives move to the einsums they serve.
class MovedBytes {
 public:
  explicit MovedBytes(const Program& program)
      : program_(program),
        producers_(FindProducers(program)),
        bytes_(program.instructions.size(), 0),
        counted_(program.instructions.size(), false) {
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      if (instruction.opcode == Opcode::kEinsum) {
        for (int operand : instruction.operands) {
          CountOperand(operand, static_cast<int>(i));
        }
      } else if (ReducesAxes(instruction.opcode)) {
        CountSums(instruction);
      }
    }
  }

  double of(int instruction) const { return bytes_[instruction]; }

 private:
  double WireBytesOf(const Instruction& instruction, int operand) const {
    const AxisList& axes = instruction.Get<CollectiveAttributes>().axes;
    return static_cast<double>(WireBytes(CollectiveOf(instruction.opcode),
                                         program_.mesh.SizeOf(axes),
                                         LocalBytes(program_, operand)));
  }

  // Adds the bytes of the collectives that bring `value` to `einsum`. A
  // collective that serves several einsums is counted for the first.
  void CountOperand(int value, int einsum) {
    while (producers_[value] >= 0) {
      const int producer = producers_[value];
      const Instruction& instruction = program_.instructions[producer];
      if (counted_[producer] || instruction.operands.size() != 1) return;
      switch (instruction.opcode) {
        case Opcode::kAllGather:
        case Opcode::kAllSlice:
        case Opcode::kAllToAll:
        case Opcode::kCollectivePermute:
          bytes_[einsum] += WireBytesOf(instruction, instruction.operands[0]);
          counted_[producer] = true;
          break;
        case Opcode::kMap:
        case Opcode::kMask:
        case Opcode::kReshape:
          break;
        default:
          return;
      }
      value = instruction.operands[0];
    }
  }

  // Divides the bytes of a reduction among the einsums whose unreduced results
  // it sums.
  void CountSums(const Instruction& reduction) {
    const AxisSet axes = SetOf(reduction.Get<CollectiveAttributes>().axes);
    for (int operand : reduction.operands) {
      std::vector<int> einsums;
      absl::flat_hash_set<int> seen;
      FindEinsums(operand, axes, einsums, seen);
      for (int einsum : einsums) {
        bytes_[einsum] += WireBytesOf(reduction, operand) /
                          static_cast<double>(einsums.size());
      }
    }
  }

  // Appends to `einsums` those that `value`, unreduced over `axes`, is a sum
  // of.
  void FindEinsums(int value, AxisSet axes, std::vector<int>& einsums,
                   absl::flat_hash_set<int>& seen) const {
    std::vector<int> open = {value};
    while (!open.empty()) {
      value = open.back();
      open.pop_back();
      const int producer = producers_[value];
      if ((program_.values[value].layout.unreduced & axes) == 0 ||
          producer < 0 || !seen.insert(value).second) {
        continue;
      }
      const Instruction& instruction = program_.instructions[producer];
      if (instruction.opcode == Opcode::kEinsum) {
        einsums.push_back(producer);
      } else {
        open.insert(open.end(), instruction.operands.begin(),
                    instruction.operands.end());
      }
    }
  }

  const Program& program_;
  std::vector<int> producers_;
  std::vector<double> bytes_;  // by instruction
  std::vector<bool> counted_;  // by instruction
};

// One of the dimensions batch, m, n and k of a matmul: the product of all
// dimensions of the einsum with that role.
struct MatmulDimension {
  double local = 1;  // extent on each rank
  int64_t size = 1;
  bool is_sharded = false;

  void Add(const Program& program, const ProgramValue& value, int dim) {
    size *= value.shape[dim].size;
    local *= static_cast<double>(
        value.local.empty()
            ? LocalExtent(program.grains, value.shape, value.layout, dim)
            : value.local[dim]);
    is_sharded = is_sharded || !value.layout.dims[dim].empty();
  }
};

ExplainedEinsum ExplainOne(const Program& program,
                           const Instruction& instruction) {
  const ProgramValue& x = program.values[instruction.operands[0]];
  const ProgramValue& y = program.values[instruction.operands[1]];
  const ProgramValue& z = program.values[instruction.results[0]];
  MatmulDimension batch, m, n, k;
  std::string summed;
  for (int i = 0; i < x.shape.rank(); ++i) {
    const std::string& name = x.shape[i].name;
    const bool in_y = y.shape.Contains(name), in_z = z.shape.Contains(name);
    (in_z ? (in_y ? batch : m) : k).Add(program, x, i);
    if (in_z) continue;
    const AxisList& axes = x.layout.dims[i];
    absl::StrAppend(&summed, summed.empty() ? " sum " : ", ", name, ":",
                    x.shape[i].size, axes.empty() ? "" : "/",
                    program.mesh.AxisNames(axes));
  }
  for (int i = 0; i < y.shape.rank(); ++i) {
    if (x.shape.Contains(y.shape[i].name)) continue;
    (z.shape.Contains(y.shape[i].name) ? n : k).Add(program, y, i);
  }
  ExplainedEinsum einsum;
  if (instruction.origin >= 0) {
    einsum.operation = program.origins[instruction.origin].operation;
    einsum.site = program.origins[instruction.origin].site.ToString();
  }
  einsum.module = ModuleOf(einsum.operation);
  einsum.sharding = absl::StrCat(
      "[", LayoutText(program.mesh, z.shape, z.layout.Reduced()), "]", summed);
  einsum.batch = batch.size;
  einsum.m = m.size;
  einsum.n = n.size;
  einsum.k = k.size;
  einsum.flops = 2 * batch.local * m.local * n.local * k.local;
  const double global_flops =
      2.0 * static_cast<double>(batch.size) * static_cast<double>(m.size) *
      static_cast<double>(n.size) * static_cast<double>(k.size);
  const int64_t ranks = program.mesh.num_devices();
  if (global_flops > 0) {
    einsum.repeated = einsum.flops * static_cast<double>(ranks) / global_flops;
  }
  einsum.layout =
      static_cast<MatmulRegime>(m.is_sharded + n.is_sharded + k.is_sharded);
  // The bound must hold whichever of the three tensors moves, so it counts
  // words of the narrowest dtype.
  const int64_t word_bytes =
      std::min({DTypeSize(x.dtype), DTypeSize(y.dtype), DTypeSize(z.dtype)});
  einsum.bound_bytes =
      LowerBoundBytes(std::max<int64_t>(1, batch.size), m.size, n.size, k.size,
                      ranks, static_cast<int>(word_bytes), &einsum.best);
  return einsum;
}

}  // namespace

std::vector<ExplainedEinsum> ExplainEinsums(const Program& program) {
  std::vector<ExplainedEinsum> einsums;
  const MovedBytes moved(program);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.opcode != Opcode::kEinsum) continue;
    einsums.push_back(ExplainOne(program, instruction));
    einsums.back().instruction = static_cast<int>(i);
    einsums.back().moved_bytes = moved.of(static_cast<int>(i));
  }
  return einsums;
}

}  // namespace internal
}  // namespace mtf
