// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/attention_size.h"

#include <algorithm>

namespace mtf {
namespace {

// The pairs (i, j) of positions below `length` and `memory` of which query i
// sees key j.
double VisiblePairs(const AttentionSpec& spec, int64_t length, int64_t memory) {
  double pairs = 0;
  for (int64_t i = 0; i < length; ++i) {
    const int64_t end = spec.causal ? std::min(i + 1, memory) : memory;
    const int64_t begin =
        spec.window > 0 ? std::max<int64_t>(i + 1 - spec.window, 0) : 0;
    pairs += static_cast<double>(std::max<int64_t>(end - begin, 0));
  }
  return pairs;
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
  const Shape& q = program.values[instruction.operands[0]].shape;
  const Shape& k = program.values[instruction.operands[1]].shape;
  const int64_t length = q.SizeOf(spec.length);
  const int64_t memory = k.SizeOf(spec.memory_length);
  if ((spec.causal || spec.window > 0) && length > 0 && memory > 0) {
    size.visible = VisiblePairs(spec, length, memory) /
                   (static_cast<double>(length) * static_cast<double>(memory));
  }
  return size;
}

}  // namespace mtf
