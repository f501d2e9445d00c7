// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/attention_size.h"

#include <algorithm>

#include "lowering/program/ring_rows.h"

namespace mtf {
namespace {

// The pairs of a query and a key that it sees.
double VisiblePairs(const AttentionSpec& spec, const RingRows& queries,
                    const RingRows& keys) {
  double pairs = 0;
  for (int64_t i = 0; i < queries.valid; ++i) {
    const auto [begin, end] =
        FindVisibleKeys(spec, queries.first + i * queries.stride, keys);
    pairs += static_cast<double>(std::max<int64_t>(end - begin, 0));
  }
  return pairs;
}

// The fraction of pairs of a query and a key of one rank that are visible: in a
// step of a ring, of the rank with the most. Offsets are not known.
double VisibleFraction(const Program& program, const AttentionAttributes& of,
                       const ProgramValue& q, const ProgramValue& k,
                       double pairs_of_rank) {
  const AttentionSpec& spec = of.spec;
  if ((!spec.causal && spec.window == 0) || pairs_of_rank == 0) return 1;
  if (!of.ring) {
    const int64_t length = q.shape.SizeOf(spec.length);
    const int64_t memory = k.shape.SizeOf(spec.memory_length);
    if (length == 0 || memory == 0) return 1;
    return VisiblePairs(spec, {length, 0, 1}, {memory, 0, 1}) /
           (static_cast<double>(length) * static_cast<double>(memory));
  }
  const AxisList& axes = q.layout.dims[q.shape.Find(spec.length)];
  double most = 0;
  // The first rank, the first whose keys come before its queries, and the last
  // one: no other has more pairs, up to the padding of the last shards.
  for (int64_t i : {int64_t{0}, of.shift, program.mesh.SizeOf(axes) - 1}) {
    const int64_t rank = program.mesh.WithCoordinate(0, axes, i);
    most = std::max(
        most,
        VisiblePairs(spec, FindRingRows(program, q, spec.length, of, rank),
                     FindRingRows(program, k, spec.memory_length, of, rank)));
  }
  return most / pairs_of_rank;
}

}  // namespace

double AttentionSize::Flops() const {
  return 2 * static_cast<double>(batch) * static_cast<double>(length) *
         static_cast<double>(memory) * visible *
         static_cast<double>(over_d_kv * d_kv + over_d_v * d_v);
}

AttentionSize SizeOfAttention(const Program& program,
                              const Instruction& instruction) {
  const AttentionSpec& spec = instruction.Get<AttentionAttributes>().spec;
  const auto extent = [&](size_t operand, const std::string& name) {
    const ProgramValue& value = program.values[instruction.operands[operand]];
    const int dim = value.shape.Find(name);
    return value.local.empty() ? value.shape[dim].size : value.local[dim];
  };
  AttentionSize size;
  size.length = extent(0, spec.length);
  size.memory = extent(1, spec.memory_length);
  size.d_kv = extent(0, spec.d_kv);
  size.d_v = extent(2, spec.d_v);
  for (const Dimension& dim : program.values[instruction.operands[0]].shape) {
    if (dim.name != spec.length && dim.name != spec.d_kv) {
      size.batch *= extent(0, dim.name);
    }
  }
  if (instruction.opcode == Opcode::kAttentionGradient) {
    size.over_d_kv = 3;
    size.over_d_v = 2;
  }
  size.visible = VisibleFraction(
      program, instruction.Get<AttentionAttributes>(),
      program.values[instruction.operands[0]],
      program.values[instruction.operands[1]],
      static_cast<double>(size.length) * static_cast<double>(size.memory));
  return size;
}

}  // namespace mtf
