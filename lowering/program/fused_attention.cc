// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/fused_attention.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lowering/program/attributes.h"

namespace mtf {
namespace {

// The dimensions of the logits: those of fused kernels, "" for one that an
// attention lacks.
struct Names {
  std::string batch, heads, length, memory;
};

Names NamesOf(const AttentionSpec& spec, const Shape& q) {
  Names names = {"", "", spec.length, spec.memory_length};
  for (const Dimension& dim : q) {
    if (dim.name == spec.length || dim.name == spec.d_kv) continue;
    names.batch = names.heads;
    names.heads = dim.name;
  }
  return names;
}

int64_t ExtentOf(const ProgramValue& value, const std::string& name) {
  const int dim = name.empty() ? -1 : value.shape.Find(name);
  return dim < 0 ? 1 : value.local[dim];
}

int64_t StrideOf(const ProgramValue& value, const std::string& name) {
  const int dim = name.empty() ? -1 : value.shape.Find(name);
  if (dim < 0) return 0;
  int64_t stride = 1;
  for (int i = dim + 1; i < value.shape.rank(); ++i) stride *= value.local[i];
  return stride;
}

AttentionProblem::Strides StridesOf(const ProgramValue& value,
                                    const Names& names,
                                    const std::string& rows) {
  // A missing dimension has extent 1.
  const auto stride = [&](const std::string& name) {
    return name.empty() ? value.local_elements() : StrideOf(value, name);
  };
  return {stride(names.batch), stride(names.heads), StrideOf(value, rows)};
}

}  // namespace

absl::Status CheckFusedAttention(const AttentionSignature& attention,
                                 int64_t length) {
  const AttentionSpec& spec = attention.spec;
  const auto fail = [](const auto&... parts) {
    return absl::UnimplementedError(
        absl::StrCat(parts..., ", which fused kernels do not support"));
  };
  const std::pair<bool, const char*> parts[] = {
      {spec.window > 0, "a window"},
      {spec.soft_cap > 0, "a soft cap"},
      {spec.dropout > 0, "dropout"},
      {attention.offset, "an offset of the queries"},
      {attention.extra_logit, "an extra logit"},
      {attention.bias_gradient, "a trained bias"},
      {attention.logsumexp_gradient, "a gradient from its logsumexp"}};
  for (const auto& [has, what] : parts) {
    if (has) return fail("it has ", what);
  }
  constexpr int kMaxBatchDimensions = 2;
  if (attention.q.rank() > kMaxBatchDimensions + 2) {
    return fail("its queries have ", attention.q.rank() - 2,
                " dimensions besides ", spec.length, " and ", spec.d_kv);
  }
  for (const Shape* shape : {&attention.k, &attention.v, &attention.output}) {
    if (shape->rank() == attention.q.rank()) continue;
    return fail("its keys or values lack a dimension of the queries");
  }
  const int last = attention.q.rank() - 1;
  if (attention.q[last].name != spec.d_kv ||
      attention.k[last].name != spec.d_kv ||
      attention.v[last].name != spec.d_v ||
      attention.output[last].name != spec.d_v) {
    return fail(spec.d_kv, " or ", spec.d_v, " is not the last dimension");
  }
  if (attention.q[last].size != attention.v[last].size) {
    return fail(spec.d_kv, " has ", attention.q[last].size, " elements and ",
                spec.d_v, " ", attention.v[last].size);
  }
  AttentionProblem problem;
  problem.dtype = attention.dtype;
  problem.length = length;
  problem.memory = attention.k.SizeOf(spec.memory_length);
  problem.d = attention.q[last].size;
  problem.scale = static_cast<float>(spec.scale);
  problem.causal = spec.causal;
  problem.backward = attention.is_gradient;
  return CheckFusedAttention(problem);
}

AttentionProblem AttentionProblemOf(const Program& program,
                                    const Instruction& instruction) {
  const auto& attributes = instruction.Get<AttentionAttributes>();
  const AttentionSpec& spec = attributes.spec;
  const auto operand = [&](int i) -> const ProgramValue& {
    return program.values[instruction.operands[i]];
  };
  AttentionProblem problem;
  problem.backward = instruction.opcode == Opcode::kAttentionGradient;
  const AttentionAttributes::Positions at =
      attributes.PositionsIn(problem.backward);
  const ProgramValue &q = operand(0), &k = operand(1), &v = operand(2);
  const ProgramValue& output = problem.backward
                                   ? operand(at.results.output)
                                   : program.values[instruction.results[0]];
  const Names names = NamesOf(spec, q.shape);
  problem.dtype = q.dtype;
  problem.batch = ExtentOf(q, names.batch);
  problem.heads = ExtentOf(q, names.heads);
  problem.length = ExtentOf(q, names.length);
  problem.memory = ExtentOf(k, names.memory);
  problem.d = ExtentOf(q, spec.d_kv);
  problem.q = StridesOf(q, names, names.length);
  problem.k = StridesOf(k, names, names.memory);
  problem.v = StridesOf(v, names, names.memory);
  problem.o = StridesOf(output, names, names.length);
  problem.scale = static_cast<float>(spec.scale);
  problem.causal = spec.causal;
  // Replicas must be bitwise equal.
  problem.reproducible = program.mesh.num_devices() > 1;
  for (const int position : {at.operands.mask, at.operands.bias}) {
    if (position < 0) continue;
    const Shape& shape = operand(position).shape;
    const auto has = [&](const std::string& name) {
      return !name.empty() && shape.Contains(name);
    };
    problem.bias.given = true;
    problem.bias.batch |= has(names.batch);
    problem.bias.heads |= has(names.heads);
    problem.bias.length |= has(names.length);
  }
  return problem;
}

LogitStrides LogitStridesOf(const Program& program,
                            const Instruction& attention, int value) {
  const Names names = NamesOf(attention.Get<AttentionAttributes>().spec,
                              program.values[attention.operands[0]].shape);
  const ProgramValue& mask = program.values[value];
  return {StrideOf(mask, names.batch), StrideOf(mask, names.heads),
          StrideOf(mask, names.length), StrideOf(mask, names.memory)};
}

}  // namespace mtf
