// SPDX-License-Identifier: Apache-2.0
//
// attention and attention_gradient on the valid elements of a shard.
#include <utility>
#include <vector>

#include "backends/bound_rows.h"
#include "backends/reference/device_kernels.h"
#include "backends/reference/interpreter_attention.h"

namespace mtf::reference {
namespace {

// Calls visit(i, coordinates) for each valid element of `value`, in row-major
// order.
template <class Visit>
void ForEachValid(const BoundValue& value, const Visit& visit) {
  std::vector<int64_t> extents;
  for (const ShardedDimension& dim : value.dims) extents.push_back(dim.valid);
  size_t i = 0;
  ForEach(extents, [&](const Coordinates& at) { visit(i++, at); });
}

// A tensor of the shape of the valid elements of `value`.
OracleTensor Like(const BoundValue& value) {
  std::vector<Dimension> dims = value.value->shape.dims();
  int64_t elements = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    dims[i].size = value.dims[i].valid;
    elements *= dims[i].size;
  }
  return {Shape(std::move(dims)), value.dtype(),
          std::vector<double>(elements, 0)};
}

OracleTensor LoadValid(const BoundValue& value) {
  OracleTensor tensor = Like(value);
  const Frame frame(value);
  ForEachValid(value, [&](size_t i, const Coordinates& at) {
    tensor.data[i] = static_cast<double>(Load(value, frame.Offset(at)));
  });
  return tensor;
}

void StoreValid(const OracleTensor& tensor, const BoundValue& value) {
  const Frame frame(value);
  ForEachValid(value, [&](size_t i, const Coordinates& at) {
    Store(value, frame.Offset(at), tensor.data[i]);
  });
}

// The tensors at some positions of the operands or results.
class Tensors {
 public:
  explicit Tensors(size_t count) : tensors_(count) {}

  OracleTensor& operator[](size_t i) { return tensors_[i]; }
  OracleTensor* at(int position) {
    return position < 0 ? nullptr : &tensors_[position];
  }
  AttentionOperands<const OracleTensor*> Operands(
      const AttentionAttributes::Positions& positions) {
    const AttentionOperands<int>& p = positions.operands;
    return {at(p.q),    at(p.k),      at(p.v),          at(p.mask),
            at(p.bias), at(p.offset), at(p.extra_logit)};
  }

 private:
  std::vector<OracleTensor> tensors_;
};

// An attention bound to the buffers of one rank.
struct BoundAttention {
  explicit BoundAttention(const Binding& binding)
      : attributes(binding.instruction().Get<AttentionAttributes>()),
        operands(binding.operands),
        results(binding.results) {
    const AttentionSpec& spec = attributes.spec;
    const auto rows_of = [&](const BoundValue& value, const std::string& name) {
      return RowsOfAttention(binding, value, name);
    };
    length = rows_of(operands[0], spec.length);
    memory = rows_of(operands[1], spec.memory_length);
    for (std::vector<BoundValue>* values : {&operands, &results}) {
      for (BoundValue& value : *values) {
        for (const std::string& name : {spec.length, spec.memory_length}) {
          const int dim = value.value->shape.Find(name);
          if (dim < 0) continue;
          value.dims[dim].valid = rows_of(value, name).valid;
        }
      }
    }
  }

  oracle::AttentionShard ShardOfLogits(const StepContext& context) const {
    const BoundValue& q = operands[0];
    const Shape logits = oracle::AttentionLogits(
        attributes.spec, q.value->shape, operands[1].value->shape);
    oracle::AttentionShard shard =
        oracle::WholeAttention(logits, context.seed, context.step);
    const int rank = logits.rank();
    for (int i = 0; i < rank - 2; ++i) {
      shard.offsets[i] = q.dims[FindDim(q, logits[i].name)].offset;
    }
    shard.offsets[rank - 2] = length.first;
    shard.offsets[rank - 1] = memory.first;
    shard.position_stride = length.stride;
    return shard;
  }

  AttentionAttributes attributes;
  std::vector<BoundValue> operands, results;
  RingRows length, memory;
};

}  // namespace

Body MakeAttention(const Binding& binding) {
  return [bound = BoundAttention(binding)](StepContext& context) {
    const auto& [attributes, operands, results, length, memory] = bound;
    Tensors tensors(operands.size());
    for (size_t i = 0; i < operands.size(); ++i) {
      tensors[i] = LoadValid(operands[i]);
    }
    OracleTensor output = Like(results[0]), logsumexp = Like(results[1]);
    const AttentionAttributes::Positions at = attributes.PositionsIn(false);
    oracle::ComputeAttention(
        attributes.spec, bound.ShardOfLogits(context), tensors.Operands(at),
        {tensors.at(at.before.output), tensors.at(at.before.logsumexp)},
        {&output, &logsumexp});
    StoreValid(output, results[0]);
    StoreValid(logsumexp, results[1]);
  };
}

Body MakeAttentionGradient(const Binding& binding) {
  return [bound = BoundAttention(binding)](StepContext& context) {
    const auto& [attributes, operands, results, length, memory] = bound;
    Tensors tensors(operands.size()), sums(results.size());
    for (size_t i = 0; i < operands.size(); ++i) {
      tensors[i] = LoadValid(operands[i]);
    }
    for (size_t i = 0; i < results.size(); ++i) sums[i] = Like(results[i]);
    const AttentionAttributes::Positions at = attributes.PositionsIn(true);
    if (at.of_q_before >= 0) sums[at.of.q].data = tensors[at.of_q_before].data;
    AttentionResults<const OracleTensor*> of_all_keys;
    if (attributes.ring) {
      of_all_keys = {tensors.at(at.results.output),
                     tensors.at(at.results.logsumexp)};
    }
    oracle::AddAttentionGradients(
        attributes.spec, bound.ShardOfLogits(context), tensors.Operands(at),
        of_all_keys,
        {tensors.at(at.gradients.output), tensors.at(at.gradients.logsumexp)},
        {sums.at(at.of.q), sums.at(at.of.k), sums.at(at.of.v),
         sums.at(at.of.bias), sums.at(at.of.extra_logit)});
    for (size_t i = 0; i < results.size(); ++i) StoreValid(sums[i], results[i]);
  };
}

}  // namespace mtf::reference
