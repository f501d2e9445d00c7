// SPDX-License-Identifier: Apache-2.0
//
// attention and attention_gradient on the valid elements of a shard.
#include <utility>
#include <vector>

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

// The shard of the logits; `q` and `k` are its first two operands.
oracle::AttentionShard ShardOfLogits(const AttentionSpec& spec,
                                     const BoundValue& q, const BoundValue& k,
                                     const StepContext& context) {
  const Shape logits =
      oracle::AttentionLogits(spec, q.value->shape, k.value->shape);
  oracle::AttentionShard shard =
      oracle::WholeAttention(logits, context.seed, context.step);
  for (int i = 0; i < logits.rank(); ++i) {
    const BoundValue& owner = i + 1 == logits.rank() ? k : q;
    shard.offsets[i] = owner.dims[FindDim(owner, logits[i].name)].offset;
  }
  return shard;
}

}  // namespace

Body MakeAttention(const Binding& binding) {
  const auto attributes = binding.instruction().Get<AttentionAttributes>();
  const std::vector<BoundValue> operands = binding.operands;
  const std::vector<BoundValue> results = binding.results;
  return [=](StepContext& context) {
    Tensors tensors(operands.size());
    for (size_t i = 0; i < operands.size(); ++i) {
      tensors[i] = LoadValid(operands[i]);
    }
    OracleTensor output = Like(results[0]), logsumexp = Like(results[1]);
    oracle::ComputeAttention(
        attributes.spec,
        ShardOfLogits(attributes.spec, operands[0], operands[1], context),
        tensors.Operands(attributes.PositionsIn(false)), {&output, &logsumexp});
    StoreValid(output, results[0]);
    StoreValid(logsumexp, results[1]);
  };
}

Body MakeAttentionGradient(const Binding& binding) {
  const auto attributes = binding.instruction().Get<AttentionAttributes>();
  const std::vector<BoundValue> operands = binding.operands;
  const std::vector<BoundValue> results = binding.results;
  return [=](StepContext& context) {
    Tensors tensors(operands.size()), sums(results.size());
    for (size_t i = 0; i < operands.size(); ++i) {
      tensors[i] = LoadValid(operands[i]);
    }
    for (size_t i = 0; i < results.size(); ++i) sums[i] = Like(results[i]);
    const AttentionAttributes::Positions at = attributes.PositionsIn(true);
    oracle::AddAttentionGradients(
        attributes.spec,
        ShardOfLogits(attributes.spec, operands[0], operands[1], context),
        tensors.Operands(at),
        {tensors.at(at.gradients.output), tensors.at(at.gradients.logsumexp)},
        {sums.at(at.of.q), sums.at(at.of.k), sums.at(at.of.v),
         sums.at(at.of.bias), sums.at(at.of.extra_logit)});
    for (size_t i = 0; i < results.size(); ++i) StoreValid(sums[i], results[i]);
  };
}

}  // namespace mtf::reference
