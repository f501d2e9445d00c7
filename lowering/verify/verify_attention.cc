// SPDX-License-Identifier: Apache-2.0
#include "lowering/verify/verify_attention.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "lowering/verify/verify_expressions.h"

namespace mtf::internal {
namespace {

class AttentionVerifier {
 public:
  AttentionVerifier(const Program& program, const Instruction& instruction)
      : program_(program),
        instruction_(instruction),
        is_gradient_(instruction.opcode == Opcode::kAttentionGradient),
        attributes_(instruction.Get<AttentionAttributes>()),
        spec_(attributes_.spec),
        at_(attributes_.PositionsIn(is_gradient_)) {}

  absl::Status CheckShapes() const {
    MTF_RETURN_IF_ERROR(CheckCounts());
    MTF_RETURN_IF_ERROR(CheckNumbers());
    MTF_RETURN_IF_ERROR(CheckQueriesKeysAndValues());
    MTF_RETURN_IF_ERROR(CheckOptionalOperands());
    const DType dtype = operand(0).dtype;
    if (!is_gradient_) {
      if (attributes_.continues) {
        MTF_RETURN_IF_ERROR(
            CheckIs(operand(at_.before.output), Output(), kFloat32, "output"));
        MTF_RETURN_IF_ERROR(CheckIs(operand(at_.before.logsumexp), Rows(),
                                    kFloat32, "logsumexp"));
      }
      MTF_RETURN_IF_ERROR(
          CheckIs(result(0), Output(), SumDType(result(0)), "output"));
      return CheckIs(result(1), Rows(), kFloat32, "logsumexp");
    }
    for (int position : {at_.results.output, at_.gradients.output}) {
      MTF_RETURN_IF_ERROR(
          CheckIs(operand(position), Output(), dtype, "output"));
    }
    for (int position : {at_.results.logsumexp, at_.gradients.logsumexp}) {
      if (position < 0) continue;
      MTF_RETURN_IF_ERROR(
          CheckIs(operand(position), Rows(), kFloat32, "logsumexp"));
    }
    const std::pair<int, int> gradients[] = {
        {at_.of.q, at_.operands.q},
        {at_.of.k, at_.operands.k},
        {at_.of.v, at_.operands.v},
        {at_.of.bias, at_.operands.bias},
        {at_.of.extra_logit, at_.operands.extra_logit}};
    for (const auto& [gradient, position] : gradients) {
      if (gradient < 0) continue;
      const DType of_operand = gradient == at_.of.q ? SumDType(result(gradient))
                                                    : operand(position).dtype;
      MTF_RETURN_IF_ERROR(CheckIs(result(gradient), operand(position).shape,
                                  of_operand, "gradient"));
    }
    if (attributes_.continues) {
      MTF_RETURN_IF_ERROR(CheckIs(operand(at_.of_q_before), operand(0).shape,
                                  kFloat32, "gradient"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckLayouts() const {
    MTF_RETURN_IF_ERROR(CheckRing());
    for (int id : instruction_.operands) {
      if (program_.values[id].layout.unreduced != 0) {
        return Bad(
            "an unreduced sum is read by an instruction that is not linear in "
            "it");
      }
    }
    for (size_t i = 0; i < 3; ++i) {
      const ProgramValue& value = operand(static_cast<int>(i));
      for (const std::string& name :
           {spec_.memory_length, spec_.d_kv, spec_.d_v}) {
        const int dim = value.shape.Find(name);
        if (dim < 0 || value.layout.dims[dim].empty()) continue;
        if (attributes_.ring && name == spec_.memory_length) continue;
        return BadDimension(name, "is sharded but must not be");
      }
    }
    for (int id : instruction_.results) {
      const ProgramValue& value = program_.values[id];
      if (value.layout.unreduced != (is_gradient_ ? SummedBy(value) : 0)) {
        return Bad(
            "the result is unreduced over other axes than its operands imply");
      }
      if (value.layout.unreduced != 0 &&
          value.layout.reduction != ReduceKind::kSum) {
        return Bad("the result is unreduced with another kind of reduction");
      }
    }
    return absl::OkStatus();
  }

 private:
  // The dtype of a sum over keys: in f32 if a further step continues it.
  DType SumDType(const ProgramValue& value) const {
    return attributes_.ring && value.dtype == kFloat32 ? DType{kFloat32}
                                                       : operand(0).dtype;
  }
  const ProgramValue& operand(int i) const {
    return program_.values[instruction_.operands[i]];
  }
  const ProgramValue& result(int i) const {
    return program_.values[instruction_.results[i]];
  }
  Shape Rows() const {
    const Shape& q = operand(0).shape;
    return q.Without(spec_.length)
        .Without(spec_.d_kv)
        .With(q[q.Find(spec_.length)]);
  }
  Shape Output() const {
    return operand(0)
        .shape.Renamed(spec_.d_kv, spec_.d_v)
        .Resized(spec_.d_v, operand(2).shape.SizeOf(spec_.d_v));
  }
  // The axes of the dimensions of the logits that `value` lacks.
  AxisSet SummedBy(const ProgramValue& value) const {
    AxisSet axes = 0;
    const ProgramValue& q = operand(0);
    // A sum over queries that goes round with its keys is one of all ranks.
    const bool travels =
        attributes_.ring && value.shape.Contains(spec_.memory_length);
    for (int i = 0; i < q.shape.rank(); ++i) {
      if (travels && q.shape[i].name == spec_.length) continue;
      if (!value.shape.Contains(q.shape[i].name)) {
        axes |= SetOf(q.layout.dims[i]);
      }
    }
    return axes;
  }

  // Every operand and result has one sharding for each of the two lengths, and
  // in a ring they are the same.
  absl::Status CheckRing() const {
    if (!attributes_.ring) return absl::OkStatus();
    const ProgramValue &q = operand(0), &k = operand(1);
    const AxisList& axes = q.layout.dims[q.shape.Find(spec_.length)];
    if (axes.empty() ||
        !(axes == k.layout.dims[k.shape.Find(spec_.memory_length)])) {
      return Bad("queries and keys of a ring are sharded over different axes");
    }
    if (attributes_.shift >= program_.mesh.SizeOf(axes)) {
      return Bad("the shift is not less than the number of ranks");
    }
    return absl::OkStatus();
  }

  absl::Status CheckCounts() const {
    if (static_cast<int>(instruction_.operands.size()) != at_.num_operands) {
      return Bad(absl::StrCat("there are ", instruction_.operands.size(),
                              " operands, not ", at_.num_operands));
    }
    if (static_cast<int>(instruction_.results.size()) != at_.num_results) {
      return Bad(absl::StrCat("there are ", instruction_.results.size(),
                              " results, not ", at_.num_results));
    }
    if (!attributes_.ring && (attributes_.shift != 0 || attributes_.striped ||
                              attributes_.continues)) {
      return Bad("shift, striped and continues need a ring");
    }
    if (attributes_.continues &&
        (attributes_.extra_logit || attributes_.extra_logit_gradient)) {
      return Bad("the extra logit takes part in the first step of a ring only");
    }
    const bool wants_gradients = attributes_.logsumexp_gradient ||
                                 attributes_.bias_gradient ||
                                 attributes_.extra_logit_gradient;
    if (!is_gradient_ && wants_gradients) {
      return Bad("only an attention_gradient has gradients");
    }
    if ((attributes_.bias_gradient && !attributes_.bias) ||
        (attributes_.extra_logit_gradient && !attributes_.extra_logit)) {
      return Bad("an operand that is not given has no gradient");
    }
    return absl::OkStatus();
  }

  absl::Status CheckNumbers() const {
    if (!std::isfinite(spec_.scale) || !(spec_.soft_cap >= 0) ||
        !std::isfinite(spec_.soft_cap) || spec_.window < 0 ||
        !(spec_.dropout >= 0 && spec_.dropout < 1)) {
      return Bad("scale, soft cap, window or dropout is out of range");
    }
    return absl::OkStatus();
  }

  absl::Status CheckQueriesKeysAndValues() const {
    const ProgramValue &q = operand(0), &k = operand(1), &v = operand(2);
    if (!IsFloat(q.dtype) || k.dtype != q.dtype || v.dtype != q.dtype) {
      return Bad("queries, keys and values must have one float dtype");
    }
    if (spec_.length == spec_.memory_length || spec_.length == spec_.d_kv ||
        spec_.length == spec_.d_v || spec_.memory_length == spec_.d_kv ||
        spec_.memory_length == spec_.d_v) {
      return Bad("lengths and depths must be different dimensions");
    }
    const auto needs = [](const ProgramValue& value,
                          const std::string& name) -> absl::Status {
      return value.shape.Contains(name)
                 ? absl::OkStatus()
                 : BadDimension(name, "is missing in an operand");
    };
    MTF_RETURN_IF_ERROR(needs(q, spec_.length));
    MTF_RETURN_IF_ERROR(needs(q, spec_.d_kv));
    MTF_RETURN_IF_ERROR(needs(k, spec_.memory_length));
    MTF_RETURN_IF_ERROR(needs(k, spec_.d_kv));
    MTF_RETURN_IF_ERROR(needs(v, spec_.memory_length));
    MTF_RETURN_IF_ERROR(needs(v, spec_.d_v));
    if (q.shape.Contains(spec_.memory_length) ||
        (spec_.d_v != spec_.d_kv &&
         (q.shape.Contains(spec_.d_v) || k.shape.Contains(spec_.d_v) ||
          v.shape.Contains(spec_.d_kv)))) {
      return Bad("an operand has a dimension of another one");
    }
    if (k.shape.SizeOf(spec_.d_kv) != q.shape.SizeOf(spec_.d_kv)) {
      return BadDimension(spec_.d_kv, "has two sizes");
    }
    if (k.shape.SizeOf(spec_.memory_length) !=
        v.shape.SizeOf(spec_.memory_length)) {
      return BadDimension(spec_.memory_length, "has two sizes");
    }
    const Shape batch = Rows().Without(spec_.length);
    MTF_RETURN_IF_ERROR(CheckWithin(
        k.shape.Without(spec_.memory_length).Without(spec_.d_kv), batch));
    return CheckWithin(v.shape.Without(spec_.memory_length).Without(spec_.d_v),
                       batch);
  }

  absl::Status CheckOptionalOperands() const {
    const Shape& k = operand(1).shape;
    const Shape rows = Rows();
    const Shape logits = rows.With(k[k.Find(spec_.memory_length)]);
    const auto check = [&](int position, const Shape& within, auto is_right,
                           absl::string_view wrong) -> absl::Status {
      if (position < 0) return absl::OkStatus();
      if (!is_right(operand(position).dtype)) return Bad(wrong);
      return CheckWithin(operand(position).shape, within);
    };
    MTF_RETURN_IF_ERROR(check(
        at_.operands.mask, logits, [](DType d) { return d == kBool; },
        "the mask must be bool"));
    MTF_RETURN_IF_ERROR(check(
        at_.operands.bias, logits, [](DType d) { return IsFloat(d); },
        "the bias must be a float"));
    MTF_RETURN_IF_ERROR(check(
        at_.operands.offset, rows.Without(spec_.length),
        [](DType d) { return d == kInt32; }, "the offset must be i32"));
    return check(
        at_.operands.extra_logit, rows, [](DType d) { return IsFloat(d); },
        "the extra logit must be a float");
  }

  static absl::Status CheckWithin(const Shape& shape, const Shape& within) {
    for (const Dimension& dim : shape) {
      const int i = within.Find(dim.name);
      if (i < 0) return BadDimension(dim.name, "is not one of the logits'");
      if (within[i].size != dim.size) {
        return BadDimension(dim.name, "has two sizes");
      }
    }
    return absl::OkStatus();
  }

  static absl::Status CheckIs(const ProgramValue& value, const Shape& shape,
                              DType dtype, absl::string_view what) {
    return value.shape == shape && value.dtype == dtype
               ? absl::OkStatus()
               : Bad(absl::StrCat("the ", what,
                                  " has another shape or dtype than the "
                                  "operands imply"));
  }

  const Program& program_;
  const Instruction& instruction_;
  const bool is_gradient_;
  const AttentionAttributes& attributes_;
  const AttentionSpec& spec_;
  const AttentionAttributes::Positions at_;
};

}  // namespace

absl::Status VerifyAttentionShapes(const Program& program,
                                   const Instruction& instruction) {
  return AttentionVerifier(program, instruction).CheckShapes();
}

absl::Status VerifyAttentionLayouts(const Program& program,
                                    const Instruction& instruction) {
  return AttentionVerifier(program, instruction).CheckLayouts();
}

}  // namespace mtf::internal
