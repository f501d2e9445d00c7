// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/projections.h"

#include "mtf/errors.h"
#include "nn/layers/dense.h"
#include "nn/layers/layer.h"
#include "ops/reshape.h"

namespace mtf::nn::internal {
namespace {

Tensor Project(Tensor x, const Dimension& d_model, const Shape& output,
               const AttentionOptions& options, const char* name) {
  return Dense(x, {d_model}, output,
               {.bias = options.bias, .each = options.each, .name = name});
}

// `x` along `length`, rotated if requested.
Tensor Rotated(Tensor x, const Dimension& length,
               const AttentionOptions& options, Tensor offset) {
  if (!options.rotary) return x;
  RotaryOptions rotary = *options.rotary;
  // Positions are given for the queries.
  if (rotary.positions.valid() && length.name != options.length.name &&
      rotary.positions.shape().Contains(options.length.name)) {
    rotary.positions =
        Rename(rotary.positions, options.length.name, length.name);
  }
  if (offset.valid()) rotary.offset = offset;
  return RotaryEmbedding(x, length, options.d_kv, rotary);
}

}  // namespace

const Dimension& ValueDimension(const Dimension& d_kv, const Dimension& d_v) {
  return d_v.name.empty() ? d_kv : d_v;
}

Shape QueryHeads(const AttentionOptions& options) {
  if (options.groups.name.empty()) return {options.heads};
  return {options.groups, options.heads};
}

Shape MemoryHeads(const AttentionOptions& options) {
  return {options.groups.name.empty() ? options.heads : options.groups};
}

absl::Status CheckQueries(Tensor x, const AttentionOptions& options) {
  MTF_RETURN_IF_ERROR(CheckGiven(options.length, ".length"));
  MTF_RETURN_IF_ERROR(CheckGiven(options.heads, ".heads"));
  MTF_RETURN_IF_ERROR(CheckGiven(options.d_kv, ".d_kv"));
  return CheckDimension(x, options.length);
}

Tensor ProjectQueries(Tensor x, const Dimension& d_model,
                      const AttentionOptions& options, Tensor offset) {
  const Tensor q = Project(x, d_model, QueryHeads(options).With(options.d_kv),
                           options, "query");
  return Rotated(q, options.length, options, offset);
}

KeysAndValues ProjectMemory(Tensor memory, const Dimension& d_memory,
                            const Dimension& length,
                            const AttentionOptions& options, Tensor offset) {
  const Shape heads = MemoryHeads(options);
  const Tensor keys =
      Project(memory, d_memory, heads.With(options.d_kv), options, "key");
  const Tensor values = Project(
      memory, d_memory, heads.With(ValueDimension(options.d_kv, options.d_v)),
      options, "value");
  return {Rotated(keys, length, options, offset), values};
}

Tensor ProjectOutput(Tensor y, const Dimension& d_model,
                     const AttentionOptions& options) {
  return Dense(
      y, QueryHeads(options).With(ValueDimension(options.d_kv, options.d_v)),
      {d_model},
      {.bias = options.bias, .each = options.each, .name = "output"});
}

Tensor AttendToHeads(Tensor q, const KeysAndValues& memory,
                     const AttentionOptions& options, Tensor offset) {
  return DotProductAttention(q, memory.keys, memory.values,
                             {.length = options.length,
                              .memory_length = options.memory_length,
                              .d_kv = options.d_kv,
                              .d_v = options.d_v,
                              .causal = options.causal,
                              .dropout = options.dropout,
                              .mask = options.mask,
                              .bias = options.position_bias,
                              .window = options.window,
                              .soft_cap = options.soft_cap,
                              .scale = options.scale,
                              .offset = offset});
}

Tensor AttendTo(Tensor q, const KeysAndValues& memory, const Dimension& d_model,
                const AttentionOptions& options, Tensor offset) {
  return ProjectOutput(AttendToHeads(q, memory, options, offset), d_model,
                       options);
}

}  // namespace mtf::nn::internal
