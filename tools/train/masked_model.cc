// SPDX-License-Identifier: Apache-2.0
#include "tools/train/masked_model.h"

#include <optional>
#include <source_location>

#include "mtf/status.h"
#include "nn/losses/cross_entropy.h"
#include "nn/models/bert.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/top_k.h"

namespace mtf::tools {
namespace {

// The logits of all tokens. Rows have no padding (MaskedWindows), so attention
// needs no mask.
Tensor MaskedLogits(const TrainedModel& model, const nn::BertConfig& config,
                    const ModelRequest& request) {
  std::optional<nn::AdapterScope> adapters;
  if (!request.adapters.pattern.empty()) {
    adapters.emplace(model.inputs.graph(), request.adapters,
                     std::source_location::current());
  }
  return nn::Bert({.tokens = model.inputs}, config).token_logits;
}

}  // namespace

absl::StatusOr<TrainedModel> BuildMaskedModel(Graph& graph,
                                              const nn::ConfigFields& fields,
                                              const ModelRequest& request) {
  MTF_RETURN_IF_ERROR(CheckNoPrompt(request));
  MTF_ASSIGN_OR_RETURN(const nn::BertConfig config, nn::ReadBertConfig(fields));
  MTF_RETURN_IF_ERROR(CheckVocabulary(config.vocab_size, request.vocabulary,
                                      request.vocabulary));
  const Shape shape = {{"batch", request.batch}, {"length", request.length}};
  const Dimension vocab{"vocab", config.vocab_size};
  TrainedModel model;
  model.inputs = Input(graph, "tokens", kInt32, shape);
  model.targets = Input(graph, "targets", kInt32, shape);
  model.weights = Input(graph, "weights", kFloat32, shape);
  model.predicts = Prediction::kMaskedTokens;
  model.published = nn::BertWeights(config);
  model.has_published = true;
  {
    const Scope scope(graph, kModelScope);
    model.loss =
        nn::SoftmaxCrossEntropy(MaskedLogits(model, config, request), vocab,
                                model.targets, {.weights = model.weights});
    model.objective = model.loss;
  }
  // The same parameters, without dropout.
  const Scope scope(graph, kModelScope, Scope::kReuse);
  const ModeScope mode(graph, Mode::kEvaluate);
  model.logits = MaskedLogits(model, config, request);
  MTF_RETURN_IF_ERROR(graph.status());
  const Tensor count = ReduceSum(model.weights, {});
  model.metrics = train::LossMetrics(
      nn::SoftmaxCrossEntropy(model.logits, vocab, model.targets,
                              {.weights = model.weights}),
      count);
  const Tensor right =
      Cast(ArgMax(model.logits, vocab.name) == model.targets, kFloat32);
  model.metrics.push_back(
      {"accuracy", ReduceSum(right * model.weights, {}), count});
  MTF_RETURN_IF_ERROR(graph.status());
  return model;
}

}  // namespace mtf::tools
