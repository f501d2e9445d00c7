// SPDX-License-Identifier: Apache-2.0
#include "nn/models/language_model.h"

#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "nn/models/model_parts.h"
#include "ops/checks.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/one_hot.h"
#include "ops/reshape.h"
#include "ops/scan.h"
#include "ops/shift.h"

namespace mtf::nn {
namespace {

absl::Status CheckSegments(Tensor tokens, Tensor segments) {
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckInputs(tokens.graph(), {tokens, segments}));
  MTF_RETURN_IF_ERROR(internal::CheckInteger(segments, "segments"));
  return mtf::internal::CheckSameDimensions(tokens, segments,
                                            {tokens, segments});
}

}  // namespace

Tensor HeadKernel(Graph& graph, Dimension d_model, Dimension vocab,
                  double stddev, std::source_location location) {
  const LayerScope layer(graph, "head", location);
  return Kernel(graph, "kernel", {d_model}, {vocab},
                graph.precision().activations.value_or(kFloat32),
                {.init = NormalValues(stddev)}, location);
}

Tensor LanguageModelLogits(const LanguageModel& model,
                           std::source_location location) {
  if (!model.hidden.valid()) return {};
  const LayerScope layer(model.hidden.graph(), "dense_logits", location);
  const auto d_model = internal::ModelDimension(model.hidden);
  if (!d_model.ok()) {
    return model.hidden.graph().Fail(d_model.status(), "logits", location,
                                     {model.vocab});
  }
  const Shape rows = model.hidden.shape().Without(d_model->name);
  const DType dtype = ActivationDType(model.hidden);
  return Einsum(
      {internal::To(dtype, model.hidden), internal::To(dtype, model.head)},
      rows.With(model.vocab));
}

Tensor LanguageModelLoss(const LanguageModel& model, Tensor targets,
                         CrossEntropyOptions options,
                         std::source_location location) {
  options.kernel = model.head;
  if (!model.hidden.valid() || !targets.valid() || !model.head.valid() ||
      model.hidden.shape().rank() == 0) {
    return CrossEntropy(model.hidden, model.vocab, targets, options, location);
  }
  // Each member of an ensemble predicts the same targets.
  for (const Dimension& dim : model.head.shape()) {
    if (dim.name == model.vocab.name ||
        dim.name == model.hidden.shape().dims().back().name) {
      continue;
    }
    options.each = options.each.With(dim);
    if (!targets.shape().Contains(dim.name)) {
      targets = Broadcast(targets, targets.shape().With(dim), location);
    }
  }
  return CrossEntropy(model.hidden, model.vocab, targets, options, location);
}

Tensor ShiftRight(Tensor tokens, int64_t start, Tensor segments,
                  std::source_location location) {
  if (!tokens.valid()) return {};
  Graph& graph = tokens.graph();
  const LayerScope layer(graph, "shift_right", location);
  absl::Status status = internal::CheckInteger(tokens, "tokens");
  const auto length = internal::ModelDimension(tokens);
  if (status.ok()) status = length.status();
  if (status.ok() && segments.valid()) {
    status = CheckSegments(tokens, segments);
  }
  if (!status.ok()) {
    return graph.Fail(status, "shift_right", location, tokens.shape(),
                      tokens.dtype());
  }
  const Tensor shifted = Shift(tokens, length->name, 1, false);
  if (start == 0 && !segments.valid()) return shifted;
  Tensor is_first = Equal(Range(graph, *length), 0.0);
  if (segments.valid()) {
    is_first = LogicalOr(
        is_first, NotEqual(segments, Shift(segments, length->name, 1, false)));
  }
  return mtf::internal::InOrderOf(
      Select(is_first, static_cast<double>(start), shifted), tokens.shape());
}

Tensor DelimitedInputs(Tensor tokens, int64_t end,
                       std::source_location location) {
  if (!tokens.valid()) return {};
  Graph& graph = tokens.graph();
  const LayerScope layer(graph, "delimited_inputs", location);
  absl::Status status = internal::CheckInteger(tokens, "tokens");
  const auto length = internal::ModelDimension(tokens);
  if (status.ok()) status = length.status();
  if (!status.ok()) {
    return graph.Fail(status, "delimited_inputs", location, tokens.shape(),
                      kBool);
  }
  const Tensor is_end = Equal(tokens, static_cast<double>(end));
  const Tensor ends =
      CumulativeSum(Cast(is_end, kInt32), length->name, {.exclusive = true});
  return Equal(Mod(ends, 2.0), 0.0);
}

}  // namespace mtf::nn
