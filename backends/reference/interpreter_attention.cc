// SPDX-License-Identifier: Apache-2.0
#include "backends/reference/interpreter_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "backends/reference/interpreter_elements.h"
#include "mtf/check.h"
#include "mtf/philox.h"

namespace mtf {
namespace oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The offset of the current row in a tensor, and its strides within the row.
struct RowView {
  const OracleTensor* tensor = nullptr;  // null: not given
  int64_t offset = 0;
  int64_t memory = 0, depth = 0;  // strides

  double at(int64_t j, int64_t d = 0) const {
    return tensor->data[offset + j * memory + d * depth];
  }
  explicit operator bool() const { return tensor != nullptr; }
};

// One row of the logits: a query and all keys.
struct Row {
  RowView q, k, v, mask, bias, offset, extra_logit;
  int64_t position = 0;      // of the query
  uint64_t first_logit = 0;  // global index of the logit of key 0
  std::vector<double> scores, logits, weights, kept;
  double extra_weight = 0, logsumexp = 0;
};

class AttentionRows {
 public:
  AttentionRows(const AttentionSpec& spec, const AttentionShard& shard,
                const AttentionOperands<const OracleTensor*>& operands)
      : spec_(spec),
        shard_(shard),
        logits_(AttentionLogits(spec, operands.q->shape, operands.k->shape)),
        rows_(logits_.Without(spec.memory_length)),
        operands_(operands),
        memory_(logits_.SizeOf(spec.memory_length)),
        d_kv_(operands.q->shape.SizeOf(spec.d_kv)),
        d_v_(operands.v->shape.SizeOf(spec.d_v)) {}

  int64_t memory() const { return memory_; }
  int64_t d_kv() const { return d_kv_; }
  int64_t d_v() const { return d_v_; }

  // The row of `tensor` at the current element of an iterator over the rows.
  RowView View(const OracleTensor* tensor, const std::string& depth,
               const std::vector<int64_t>& index) const {
    RowView view;
    view.tensor = tensor;
    if (tensor == nullptr) return view;
    const std::vector<int64_t> strides = Strides(tensor->shape, rows_);
    for (size_t i = 0; i < index.size(); ++i) {
      view.offset += index[i] * strides[i];
    }
    if (tensor->shape.Contains(spec_.memory_length)) {
      view.memory = StrideOf(tensor->shape, spec_.memory_length);
    }
    if (!depth.empty()) view.depth = StrideOf(tensor->shape, depth);
    return view;
  }

  // Calls visit(row, index) for each row, with its weights computed.
  template <class Visit>
  void ForEach(const Visit& visit) const {
    Row row;
    for (ElementIterator at(rows_, {}); !at.done(); at.Next()) {
      std::vector<int64_t> index(rows_.rank());
      for (int i = 0; i < rows_.rank(); ++i) index[i] = at.index(i);
      Compute(index, row);
      visit(row, index);
    }
  }

 private:
  bool IsVisible(const Row& row, int64_t j) const {
    const int64_t key = shard_.offsets.back() + j * shard_.position_stride;
    return (!row.mask || row.mask.at(j) != 0) &&
           (!spec_.causal || key <= row.position) &&
           (spec_.window == 0 || key > row.position - spec_.window);
  }

  void Compute(const std::vector<int64_t>& index, Row& row) const {
    row.q = View(operands_.q, spec_.d_kv, index);
    row.k = View(operands_.k, spec_.d_kv, index);
    row.v = View(operands_.v, spec_.d_v, index);
    row.mask = View(operands_.mask, "", index);
    row.bias = View(operands_.bias, "", index);
    row.offset = View(operands_.offset, "", index);
    row.extra_logit = View(operands_.extra_logit, "", index);
    row.position = shard_.offsets[rows_.rank() - 1] +
                   index.back() * shard_.position_stride +
                   (row.offset ? static_cast<int64_t>(row.offset.at(0)) : 0);
    row.first_logit = static_cast<uint64_t>(shard_.offsets.back());
    for (int i = 0; i < rows_.rank(); ++i) {
      const int64_t steps =
          i + 1 == rows_.rank() ? index[i] * shard_.position_stride : index[i];
      row.first_logit += static_cast<uint64_t>((shard_.offsets[i] + steps) *
                                               shard_.strides[i]);
    }
    ComputeLogits(row);
    ComputeWeights(row);
  }

  void ComputeLogits(Row& row) const {
    row.scores.assign(memory_, 0);
    row.logits.assign(memory_, -kInfinity);
    for (int64_t j = 0; j < memory_; ++j) {
      double score = 0;
      for (int64_t d = 0; d < d_kv_; ++d)
        score += row.q.at(0, d) * row.k.at(j, d);
      score *= spec_.scale;
      if (spec_.soft_cap > 0) {
        score = spec_.soft_cap * std::tanh(score / spec_.soft_cap);
      }
      row.scores[j] = score;
      if (IsVisible(row, j)) {
        row.logits[j] = score + (row.bias ? row.bias.at(j) : 0);
      }
    }
  }

  void ComputeWeights(Row& row) const {
    const double extra = row.extra_logit ? row.extra_logit.at(0) : -kInfinity;
    double max = extra;
    for (double logit : row.logits) max = Reduced(ReduceKind::kMax, max, logit);
    const double shift = max == -kInfinity ? 0 : max;
    row.extra_weight = std::exp(extra - shift);
    double sum = row.extra_weight;
    row.weights.resize(memory_);
    for (int64_t j = 0; j < memory_; ++j) {
      row.weights[j] = std::exp(row.logits[j] - shift);
      sum += row.weights[j];
    }
    row.logsumexp = std::log(sum) + shift;
    if (sum == 0) return;
    for (double& weight : row.weights) weight /= sum;
    row.extra_weight /= sum;
    row.kept.assign(memory_, 1);
    if (spec_.dropout == 0) return;
    const double threshold = std::ceil(spec_.dropout * 0x1p24) * 0x1p-24;
    for (int64_t j = 0; j < memory_; ++j) {
      const PhiloxWords words = PhiloxAt(
          shard_.seed, spec_.stream, shard_.step,
          row.first_logit + static_cast<uint64_t>(j * shard_.position_stride));
      row.kept[j] = UniformFromWord(words.word[0]) >= threshold
                        ? 1 / (1 - spec_.dropout)
                        : 0;
    }
  }

  const AttentionSpec& spec_;
  const AttentionShard& shard_;
  const Shape logits_, rows_;
  const AttentionOperands<const OracleTensor*>& operands_;
  const int64_t memory_, d_kv_, d_v_;
};

}  // namespace

AttentionShard WholeAttention(const Shape& logits, uint32_t seed,
                              uint32_t step) {
  AttentionShard shard{seed, step, std::vector<int64_t>(logits.rank(), 0),
                       std::vector<int64_t>(logits.rank(), 1)};
  for (int i = logits.rank() - 2; i >= 0; --i) {
    shard.strides[i] = shard.strides[i + 1] * logits[i + 1].size;
  }
  return shard;
}

Shape AttentionLogits(const AttentionSpec& spec, const Shape& q,
                      const Shape& k) {
  return q.Without(spec.length)
      .Without(spec.d_kv)
      .With(q[q.Find(spec.length)])
      .With(k[k.Find(spec.memory_length)]);
}

void ComputeAttention(const AttentionSpec& spec, const AttentionShard& shard,
                      const AttentionOperands<const OracleTensor*>& operands,
                      const AttentionResults<const OracleTensor*>& before,
                      const AttentionResults<OracleTensor*>& results) {
  const AttentionRows rows(spec, shard, operands);
  rows.ForEach([&](const Row& row, const std::vector<int64_t>& index) {
    const RowView output = rows.View(results.output, spec.d_v, index);
    const RowView logsumexp = rows.View(results.logsumexp, "", index);
    const RowView output_before = rows.View(before.output, spec.d_v, index);
    const RowView logsumexp_before = rows.View(before.logsumexp, "", index);
    // The fractions of the weights of these keys, and of those before.
    double share = 1, share_before = 0, total = row.logsumexp;
    if (logsumexp_before && logsumexp_before.at(0) != -kInfinity) {
      const double other = logsumexp_before.at(0);
      const double max = std::max(other, row.logsumexp);
      total =
          max + std::log(std::exp(other - max) + std::exp(row.logsumexp - max));
      share = std::exp(row.logsumexp - total);
      share_before = std::exp(other - total);
    }
    results.logsumexp->data[logsumexp.offset] = total;
    for (int64_t d = 0; d < rows.d_v(); ++d) {
      double sum = 0;
      for (int64_t j = 0; j < rows.memory(); ++j) {
        // A key that is not seen does not count even if its value is NaN.
        if (row.logits[j] == -kInfinity) continue;
        sum += row.weights[j] * row.kept[j] * row.v.at(j, d);
      }
      sum *= share;
      if (share_before > 0) sum += share_before * output_before.at(0, d);
      results.output->data[output.offset + d * output.depth] = sum;
    }
  });
}

void AddAttentionGradients(
    const AttentionSpec& spec, const AttentionShard& shard,
    const AttentionOperands<const OracleTensor*>& operands,
    const AttentionResults<const OracleTensor*>& results,
    const AttentionResults<const OracleTensor*>& gradients,
    const AttentionGradients<OracleTensor*>& of) {
  const AttentionRows rows(spec, shard, operands);
  const auto add = [](const RowView& view, OracleTensor* tensor, int64_t j,
                      int64_t d, double term) {
    if (tensor == nullptr) return;
    tensor->data[view.offset + j * view.memory + d * view.depth] += term;
  };
  rows.ForEach([&](const Row& row, const std::vector<int64_t>& index) {
    const RowView d_o = rows.View(gradients.output, spec.d_v, index);
    const RowView d_lse = rows.View(gradients.logsumexp, "", index);
    const RowView d_q = rows.View(of.q, spec.d_kv, index);
    const RowView d_k = rows.View(of.k, spec.d_kv, index);
    const RowView d_v = rows.View(of.v, spec.d_v, index);
    const RowView d_bias = rows.View(of.bias, "", index);
    const RowView d_extra = rows.View(of.extra_logit, "", index);
    const RowView output = rows.View(results.output, spec.d_v, index);
    const RowView logsumexp = rows.View(results.logsumexp, "", index);
    // The fraction of the weights of these keys among those of all keys.
    const double share = logsumexp && row.logsumexp != -kInfinity
                             ? std::exp(row.logsumexp - logsumexp.at(0))
                             : 1;
    // The gradients of the weights, and their mean by weight.
    std::vector<double> d_weights(rows.memory());
    double mean = 0;
    for (int64_t j = 0; j < rows.memory(); ++j) {
      if (row.logits[j] == -kInfinity) continue;
      for (int64_t d = 0; d < rows.d_v(); ++d) {
        d_weights[j] += d_o.at(0, d) * row.v.at(j, d) * row.kept[j];
        add(d_v, of.v, j, d,
            share * row.weights[j] * row.kept[j] * d_o.at(0, d));
      }
      mean += row.weights[j] * d_weights[j];
    }
    if (output) {
      mean = 0;
      for (int64_t d = 0; d < rows.d_v(); ++d) {
        mean += d_o.at(0, d) * output.at(0, d);
      }
    }
    const double of_logsumexp = d_lse ? d_lse.at(0) : 0;
    for (int64_t j = 0; j < rows.memory(); ++j) {
      if (row.logits[j] == -kInfinity) continue;
      double d_logit =
          share * row.weights[j] * (d_weights[j] - mean + of_logsumexp);
      add(d_bias, of.bias, j, 0, d_logit);
      if (spec.soft_cap > 0) {
        const double ratio = row.scores[j] / spec.soft_cap;
        d_logit *= 1 - ratio * ratio;
      }
      for (int64_t d = 0; d < rows.d_kv(); ++d) {
        add(d_q, of.q, 0, d, spec.scale * d_logit * row.k.at(j, d));
        add(d_k, of.k, j, d, spec.scale * d_logit * row.q.at(0, d));
      }
    }
    add(d_extra, of.extra_logit, 0, 0,
        share * row.extra_weight * (of_logsumexp - mean));
  });
}

}  // namespace oracle

namespace {

AttentionOperands<const OracleTensor*> TensorsOf(
    const ReferenceInterpreter& interpreter,
    const AttentionOperands<Value>& operands) {
  const auto get = [&](Value value) {
    return value.valid() ? &interpreter.Get(value) : nullptr;
  };
  return {get(operands.q),          get(operands.k),    get(operands.v),
          get(operands.mask),       get(operands.bias), get(operands.offset),
          get(operands.extra_logit)};
}

}  // namespace

AttentionResults<Value> ReferenceInterpreter::Attention(
    const AttentionSpec& spec, const AttentionOperands<Value>& operands,
    const Shape& output) {
  const auto tensors = TensorsOf(*this, operands);
  const Shape logits =
      oracle::AttentionLogits(spec, tensors.q->shape, tensors.k->shape);
  OracleTensor result = oracle::Filled(tensors.v->dtype, output);
  OracleTensor logsumexp =
      oracle::Filled(kFloat32, logits.Without(spec.memory_length));
  oracle::ComputeAttention(
      spec, oracle::WholeAttention(logits, options_.seed, options_.step),
      tensors, {}, {&result, &logsumexp});
  const Value kept = Keep(std::move(result));
  return {kept, Keep(std::move(logsumexp))};
}

AttentionGradients<Value> ReferenceInterpreter::AttentionGradient(
    const AttentionSpec& spec, const AttentionOperands<Value>& operands,
    const AttentionResults<Value>&, const AttentionResults<Value>& gradients) {
  const auto tensors = TensorsOf(*this, operands);
  const Shape logits =
      oracle::AttentionLogits(spec, tensors.q->shape, tensors.k->shape);
  const auto zeros = [](const OracleTensor* like) {
    return like == nullptr ? OracleTensor{}
                           : oracle::Filled(like->dtype, like->shape);
  };
  OracleTensor q = zeros(tensors.q), k = zeros(tensors.k), v = zeros(tensors.v),
               bias = zeros(tensors.bias), extra = zeros(tensors.extra_logit);
  oracle::AddAttentionGradients(
      spec, oracle::WholeAttention(logits, options_.seed, options_.step),
      tensors, {},
      {&Get(gradients.output),
       gradients.logsumexp.valid() ? &Get(gradients.logsumexp) : nullptr},
      {&q, &k, &v, tensors.bias == nullptr ? nullptr : &bias,
       tensors.extra_logit == nullptr ? nullptr : &extra});
  AttentionGradients<Value> of;
  of.q = Keep(std::move(q));
  of.k = Keep(std::move(k));
  of.v = Keep(std::move(v));
  if (tensors.bias != nullptr) of.bias = Keep(std::move(bias));
  if (tensors.extra_logit != nullptr) of.extra_logit = Keep(std::move(extra));
  return of;
}

}  // namespace mtf
