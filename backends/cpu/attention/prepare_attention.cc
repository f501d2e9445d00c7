// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/attention/prepare_attention.h"

#include <string>
#include <vector>

#include "backends/bound_rows.h"
#include "backends/cpu/attention/attention.h"

namespace mtf::cpu {
namespace {

// Describes bound values as tensors of one attention.
class AttentionBinder {
 public:
  explicit AttentionBinder(const Binding& binding)
      : binding_(binding),
        attributes_(binding.instruction().Get<AttentionAttributes>()),
        is_gradient_(binding.instruction().opcode ==
                     Opcode::kAttentionGradient),
        at_(attributes_.PositionsIn(is_gradient_)) {
    const BoundValue& q = binding_.operands[0];
    for (const Dimension& dim : q.value->shape) {
      if (dim.name != spec().length && dim.name != spec().d_kv) {
        outer_.push_back(dim.name);
      }
    }
  }

  CpuAttention Bind() const {
    CpuAttention attention;
    attention.spec = spec();
    SetSizes(attention);
    const AttentionOperands<int>& operands = at_.operands;
    attention.q = Operand(operands.q, spec().d_kv);
    attention.k = Operand(operands.k, spec().d_kv);
    attention.v = Operand(operands.v, spec().d_v);
    attention.mask = Operand(operands.mask);
    attention.bias = Operand(operands.bias);
    attention.offset = Operand(operands.offset);
    attention.extra_logit = Operand(operands.extra_logit);
    if (!is_gradient_) {
      attention.output = Result(0, spec().d_v);
      attention.logsumexp = Result(1);
      attention.output_before = Operand(at_.before.output, spec().d_v);
      attention.logsumexp_before = Operand(at_.before.logsumexp);
      return attention;
    }
    attention.output = Operand(at_.results.output, spec().d_v);
    attention.logsumexp = Operand(at_.results.logsumexp);
    attention.d_output = Operand(at_.gradients.output, spec().d_v);
    attention.d_logsumexp = Operand(at_.gradients.logsumexp);
    attention.d_q = Result(at_.of.q, spec().d_kv);
    attention.d_q_before = Operand(at_.of_q_before, spec().d_kv);
    attention.d_k = Result(at_.of.k, spec().d_kv);
    attention.d_v = Result(at_.of.v, spec().d_v);
    attention.d_bias = Result(at_.of.bias);
    attention.d_extra_logit = Result(at_.of.extra_logit);
    return attention;
  }

 private:
  const AttentionSpec& spec() const { return attributes_.spec; }
  static const ShardedDimension& DimensionOf(const BoundValue& value,
                                             const std::string& name) {
    return value.dims[value.value->shape.Find(name)];
  }

  void SetSizes(CpuAttention& attention) const {
    const BoundValue& q = binding_.operands[0];
    const BoundValue& k = binding_.operands[1];
    const RingRows length = RowsOfAttention(binding_, q, spec().length);
    const RingRows memory = RowsOfAttention(binding_, k, spec().memory_length);
    attention.length = length.valid;
    attention.length_offset = length.first;
    attention.memory = memory.valid;
    attention.memory_offset = memory.first;
    attention.position_stride = length.stride;
    attention.depth_kv = DimensionOf(q, spec().d_kv).valid;
    attention.depth_v = DimensionOf(binding_.operands[2], spec().d_v).valid;
    attention.memory_stride = 1;
    attention.length_stride = k.value->shape.SizeOf(spec().memory_length);
    int64_t stride =
        attention.length_stride * q.value->shape.SizeOf(spec().length);
    attention.outer.resize(outer_.size());
    for (size_t i = outer_.size(); i-- > 0;) {
      const ShardedDimension& dim = DimensionOf(q, outer_[i]);
      attention.outer[i] = {dim.valid, dim.offset, stride};
      stride *= q.value->shape.SizeOf(outer_[i]);
    }
  }

  AttentionTensor Operand(int position, const std::string& depth = "") const {
    return position < 0 ? AttentionTensor()
                        : Tensor(binding_.operands[position], depth);
  }
  AttentionTensor Result(int position, const std::string& depth = "") const {
    return position < 0 ? AttentionTensor()
                        : Tensor(binding_.results[position], depth);
  }

  AttentionTensor Tensor(const BoundValue& value,
                         const std::string& depth) const {
    const auto stride = [&](const std::string& name) {
      const int dim = value.value->shape.Find(name);
      return dim < 0 ? 0 : value.stride(dim);
    };
    AttentionTensor tensor;
    tensor.data = value.data;
    tensor.dtype = value.dtype();
    for (const std::string& name : outer_) {
      tensor.outer.push_back(stride(name));
    }
    tensor.length = stride(spec().length);
    tensor.memory = stride(spec().memory_length);
    tensor.depth = depth.empty() ? 0 : stride(depth);
    return tensor;
  }

  const Binding& binding_;
  const AttentionAttributes& attributes_;
  const bool is_gradient_;
  const AttentionAttributes::Positions at_;
  std::vector<std::string> outer_;  // dimensions of the logits before length
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareAttentionInstruction(
    const Binding& binding) {
  const CpuAttention attention = AttentionBinder(binding).Bind();
  return binding.instruction().opcode == Opcode::kAttention
             ? PrepareAttention(attention)
             : PrepareAttentionGradient(attention);
}

}  // namespace mtf::cpu
