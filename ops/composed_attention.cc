// SPDX-License-Identifier: Apache-2.0
#include "ops/composed_attention.h"

#include <limits>
#include <vector>

#include "mtf/graph.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/one_hot.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/stop_gradient.h"

namespace mtf::internal {
namespace {

// A sum of exp(x - max) is at least 1, the term of the maximum, unless every x
// is -infinity. This lower limit changes only the latter, whose weights and
// gradients become 0.
constexpr double kBelowAnySum = 0.5;

Tensor To(DType dtype, Tensor x) {
  return x.dtype() == dtype ? x : Cast(x, dtype);
}

// Where a query sees a key; empty if everywhere. Comparing positions needs no
// mask in memory and works on any shard.
Tensor Visible(const AttentionSpec& spec,
               const AttentionOperands<Tensor>& operands, const Shape& logits) {
  Graph& graph = operands.q.graph();
  Tensor visible = operands.mask;
  const auto restrict = [&](Tensor condition) {
    visible = visible.valid() ? LogicalAnd(visible, condition) : condition;
  };
  if (!spec.causal && spec.window == 0) return visible;
  const auto dim = [&](const std::string& name) {
    return logits[logits.Find(name)];
  };
  Tensor query = Range(graph, dim(spec.length));
  if (operands.offset.valid()) query = query + operands.offset;
  const Tensor key = Range(graph, dim(spec.memory_length));
  if (spec.causal) restrict(GreaterEqual(query, key));
  if (spec.window > 0) {
    restrict(Less(query, key + static_cast<double>(spec.window)));
  }
  return visible;
}

Tensor Logits(const AttentionSpec& spec,
              const AttentionOperands<Tensor>& operands, const Shape& shape) {
  // Scale q, which is smaller than the scores and keeps f16 scores from
  // overflowing. In bf16, scale the f32 scores instead, which avoids rounding q
  // once more; fused attention applies the scale itself.
  const Tensor q = operands.q;
  const bool of_scores = q.dtype() == kBFloat16;
  Tensor logits =
      To(kFloat32, Einsum({of_scores ? q : q * spec.scale, operands.k}, shape));
  if (of_scores) logits = logits * spec.scale;
  if (spec.soft_cap > 0) {
    logits = Tanh(logits * (1 / spec.soft_cap)) * spec.soft_cap;
  }
  if (operands.bias.valid()) {
    logits = InOrderOf(logits + To(kFloat32, operands.bias), shape);
  }
  const Tensor visible = Visible(spec, operands, shape);
  if (visible.valid()) {
    logits = InOrderOf(
        Select(visible, logits, -std::numeric_limits<double>::infinity()),
        shape);
  }
  return logits;
}

}  // namespace

Shape LogitShape(const Shape& q, const Shape& k, const AttentionSpec& spec) {
  return q.Without(spec.length)
      .Without(spec.d_kv)
      .With(q[q.Find(spec.length)])
      .With(k[k.Find(spec.memory_length)]);
}

AttentionResults<Tensor> ComposedAttention(
    const AttentionSpec& spec, const AttentionOperands<Tensor>& operands,
    const Shape& output, std::source_location location) {
  Graph& graph = operands.q.graph();
  const DType dtype = operands.v.dtype();
  const Shape shape = LogitShape(operands.q.shape(), operands.k.shape(), spec);
  const Shape rows = shape.Without(spec.memory_length);
  const Tensor logits = Logits(spec, operands, shape);
  Tensor weights, logsumexp;
  {
    Scope scope(graph, "softmax", Scope::kUnique, location);
    Tensor max = ReduceMax(logits, rows);
    const Tensor extra = operands.extra_logit.valid()
                             ? To(kFloat32, operands.extra_logit)
                             : Tensor();
    if (extra.valid()) max = InOrderOf(Maximum(max, extra), rows);
    // Finite even for a row of -infinity, so that the difference is not NaN.
    max = StopGradient(
        Maximum(max, double{std::numeric_limits<float>::lowest()}));
    const Tensor power = Exp(logits - max);
    Tensor sum = ReduceSum(power, rows);
    if (extra.valid()) sum = sum + Exp(extra - max);
    logsumexp = Log(sum) + max;
    // Multiply by the reciprocal: the gradient of a product reads only `power`,
    // that of a quotient also the quotient. This saves keeping the largest
    // tensor of a layer.
    weights = power * Reciprocal(Maximum(sum, kBelowAnySum));
  }
  weights = To(dtype, weights);
  if (spec.dropout > 0) {
    weights = DropoutOfStream(weights, spec.dropout, weights.shape(),
                              spec.stream, location);
  }
  return {Einsum({weights, operands.v}, output), InOrderOf(logsumexp, rows)};
}

AttentionGradients<Tensor> ComposedAttentionGradients(
    const AttentionOperands<Tensor>& operands,
    const AttentionResults<Tensor>& results,
    const AttentionResults<Tensor>& gradients) {
  const std::vector<Tensor> xs = {operands.q, operands.k, operands.v,
                                  operands.bias, operands.extra_logit};
  std::vector<Tensor> sums(xs.size());
  const auto add = [&](Tensor y, Tensor dy) {
    if (!dy.valid()) return;
    const std::vector<Tensor> terms = Gradients(y, xs, dy);
    for (size_t i = 0; i < xs.size(); ++i) {
      if (!terms[i].valid()) continue;
      sums[i] = sums[i].valid() ? sums[i] + terms[i] : terms[i];
    }
  };
  add(results.output, gradients.output);
  add(results.logsumexp, gradients.logsumexp);
  for (size_t i = 0; i < xs.size(); ++i) {
    // The logsumexp alone does not depend on the values.
    if (xs[i].valid() && !sums[i].valid()) {
      sums[i] = Zeros(xs[i].graph(), xs[i].dtype(), xs[i].shape());
    }
  }
  return {sums[0], sums[1], sums[2], sums[3], sums[4]};
}

}  // namespace mtf::internal
