// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "ops/attention_operation.h"
#include "ops/checks.h"
#include "ops/composed_attention.h"

namespace mtf {
namespace {

// Checks that keys and values can have different last dimensions.
absl::Status CheckValueDimension(const AttentionOperands<Tensor>& operands,
                                 const AttentionSpec& spec) {
  if (spec.d_v == spec.d_kv) return absl::OkStatus();
  const auto& [q, k, v, mask, bias, offset, extra_logit] = operands;
  if (v.shape().Contains(spec.d_kv)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the values \"", v.name(), "\" have the dimension \"", spec.d_kv,
        "\" of the keys besides \"", spec.d_v, "\"", DescribeInputs({q, v}),
        "\n  help     leave out .d_v, or Rename() the dimension"));
  }
  for (const auto& [x, side] :
       {std::pair(q, "queries"), std::pair(k, "keys")}) {
    if (!x.shape().Contains(spec.d_v)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the ", side, " \"", x.name(), "\" have the dimension \"",
                     spec.d_v, "\" of the values", DescribeInputs({x, v}),
                     "\n  help     Rename() one of them"));
  }
  return absl::OkStatus();
}

// Checks that `x` has a dimension of `v` in the same size.
absl::Status CheckSameSize(Tensor x, Tensor v, const Dimension& dim) {
  const int64_t size = x.shape().SizeOf(dim.name);
  if (size == dim.size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "dimension \"", dim.name, "\" is ", size, " in \"", x.name(), "\" but ",
      dim.size, " in \"", v.name(), "\"", DescribeInputs({x, v}),
      "\n  help     give one size to the name, or Rename() one of them"));
}

// Checks that an optional operand has only dimensions of `allowed`, those of
// the attention's `what`.
absl::Status CheckDimensions(Tensor x, absl::string_view name,
                             const Shape& allowed, absl::string_view what) {
  for (const Dimension& dim : x.shape()) {
    if (allowed.Contains(dim.name) && allowed.SizeOf(dim.name) == dim.size) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "dimension \"", dim.name, "\" (", dim.size, ") of the ", name,
        " is not one of the attention's", DescribeInputs({x}), "\n  ", what,
        std::string(9 - what.size(), ' '), "[", allowed.ToString(), "]"));
  }
  return absl::OkStatus();
}

absl::Status CheckDType(Tensor x, absl::string_view name, bool is_right,
                        absl::string_view right) {
  if (is_right) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the ", name, " is ",
                                                 DTypeName(x.dtype()), ", not ",
                                                 right, DescribeInputs({x})));
}

// Checks the operands besides q, k and v, which have been checked.
absl::Status CheckOptional(const AttentionOperands<Tensor>& operands,
                           const AttentionSpec& spec) {
  const Shape logits =
      internal::LogitShape(operands.q.shape(), operands.k.shape(), spec);
  const Shape rows = logits.Without(spec.memory_length);
  if (const Tensor mask = operands.mask; mask.valid()) {
    MTF_RETURN_IF_ERROR(
        CheckDType(mask, "mask", mask.dtype() == kBool, "bool"));
    MTF_RETURN_IF_ERROR(CheckDimensions(mask, "mask", logits, "logits"));
  }
  if (const Tensor bias = operands.bias; bias.valid()) {
    MTF_RETURN_IF_ERROR(
        CheckDType(bias, "bias", IsFloat(bias.dtype()), "a float"));
    MTF_RETURN_IF_ERROR(CheckDimensions(bias, "bias", logits, "logits"));
  }
  if (const Tensor offset = operands.offset; offset.valid()) {
    MTF_RETURN_IF_ERROR(
        CheckDType(offset, "offset", offset.dtype() == kInt32, "i32"));
    MTF_RETURN_IF_ERROR(
        CheckDimensions(offset, "offset", rows.Without(spec.length), "batch"));
  }
  if (const Tensor extra = operands.extra_logit; extra.valid()) {
    MTF_RETURN_IF_ERROR(
        CheckDType(extra, "extra logit", IsFloat(extra.dtype()), "a float"));
    MTF_RETURN_IF_ERROR(CheckDimensions(extra, "extra logit", rows, "rows"));
  }
  return absl::OkStatus();
}

absl::Status CheckNumbers(const AttentionSpec& spec) {
  if (!std::isfinite(spec.scale)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the scale ", spec.scale, " is not finite"));
  }
  if (spec.window < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the window ", spec.window, " is negative"));
  }
  MTF_RETURN_IF_ERROR(internal::CheckNotNegative("soft_cap", spec.soft_cap));
  if (!(spec.dropout >= 0 && spec.dropout < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the rate ", spec.dropout, " is not in [0, 1)"));
  }
  return absl::OkStatus();
}

absl::Status Check(const AttentionOperands<Tensor>& operands,
                   const AttentionSpec& spec) {
  const auto& [q, k, v, mask, bias, offset, extra_logit] = operands;
  std::vector<Tensor> inputs = {q, k, v};
  MTF_RETURN_IF_ERROR(internal::CheckInputs(q.graph(), inputs));
  for (const Tensor& x : {mask, bias, offset, extra_logit}) {
    if (x.valid()) inputs.push_back(x);
  }
  MTF_RETURN_IF_ERROR(internal::CheckInputs(q.graph(), inputs));
  if (!IsFloat(q.dtype())) {
    return absl::InvalidArgumentError(
        absl::StrCat("attention takes a float dtype, not ",
                     DTypeName(q.dtype()), DescribeInputs({q})));
  }
  MTF_RETURN_IF_ERROR(internal::CheckOneDType({q, k, v}));
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(q, spec.length));
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(q, spec.d_kv));
  MTF_RETURN_IF_ERROR(
      internal::CheckLacksLength(q, spec.memory_length, "memory"));
  MTF_RETURN_IF_ERROR(CheckValueDimension(operands, spec));
  for (const auto& [x, d] : {std::pair(k, spec.d_kv), std::pair(v, spec.d_v)}) {
    MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, spec.memory_length));
    MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, d));
    MTF_RETURN_IF_ERROR(internal::CheckLacksLength(x, spec.length, "queries"));
    for (const Dimension& dim : x.shape()) {
      if (dim.name == spec.memory_length || dim.name == d) continue;
      // Any other dimension would be silently summed over.
      MTF_RETURN_IF_ERROR(internal::CheckHasDimension(q, dim.name));
    }
  }
  MTF_RETURN_IF_ERROR(internal::CheckSizes({q, k}));
  // The values may have the dimension of the keys in another size.
  for (const Dimension& dim : v.shape()) {
    if (dim.name == spec.d_v) continue;
    MTF_RETURN_IF_ERROR(
        CheckSameSize(dim.name == spec.memory_length ? k : q, v, dim));
  }
  MTF_RETURN_IF_ERROR(CheckOptional(operands, spec));
  return CheckNumbers(spec);
}

}  // namespace

AttentionResults<Tensor> Attention(const AttentionOperands<Tensor>& operands,
                                   AttentionSpec spec,
                                   std::source_location location) {
  const auto& [q, k, v, mask, bias, offset, extra_logit] = operands;
  Graph* graph = internal::GraphOf({q, k, v});
  if (graph == nullptr) return {};
  const absl::Status status =
      q.valid() ? Check(operands, spec) : internal::CheckInputs(*graph, {q});
  if (graph->mode() == Mode::kEvaluate) spec.dropout = 0;
  // A call with an error takes a stream too, so that the streams of later calls
  // do not depend on it.
  if (spec.dropout != 0) spec.stream = graph->NextRandomStream();
  if (!status.ok()) {
    return {graph->Fail(status, "attention", location, q.shape(), q.dtype()),
            graph->Fail(status, "attention", location)};
  }
  const Shape output = q.shape()
                           .Renamed(spec.d_kv, spec.d_v)
                           .Resized(spec.d_v, v.shape().SizeOf(spec.d_v));
  return internal::AddAttention(operands, spec, output, location);
}

}  // namespace mtf
