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

constexpr char kNextSentence[] = "next_sentence";

// What BERT reads and predicts besides masked tokens; empty without pairs.
struct PairInputs {
  Tensor token_types, next_sentences;
};

// Rows have no padding (MaskedWindows), so attention needs no mask.
nn::BertOutputs Outputs(const TrainedModel& model, const PairInputs& pairs,
                        const nn::BertConfig& config,
                        const ModelRequest& request) {
  std::optional<nn::AdapterScope> adapters;
  if (!request.adapters.pattern.empty()) {
    adapters.emplace(model.inputs.graph(), request.adapters,
                     std::source_location::current());
  }
  return nn::Bert({.tokens = model.inputs, .token_types = pairs.token_types},
                  config);
}

Tensor MaskedLoss(const TrainedModel& model, const nn::BertOutputs& outputs) {
  return nn::SoftmaxCrossEntropy(outputs.token_logits,
                                 outputs.token_logits.dim("vocab"),
                                 model.targets, {.weights = model.weights});
}

Tensor NextSentenceLoss(const nn::BertOutputs& outputs, const PairInputs& pairs,
                        Tensor weights) {
  return nn::SoftmaxCrossEntropy(
      outputs.next_sentence_logits, {kNextSentence, 2}, pairs.next_sentences,
      {.weights = weights, .name = "next_sentence_loss"});
}

void AddMetrics(const nn::BertOutputs& outputs, const PairInputs& pairs,
                TrainedModel& model) {
  const auto sum_of_right = [](Tensor logits, const char* over, Tensor targets,
                               Tensor weights) {
    return ReduceSum(Cast(ArgMax(logits, over) == targets, kFloat32) * weights,
                     {});
  };
  const Tensor count = ReduceSum(model.weights, {});
  model.metrics = train::LossMetrics(MaskedLoss(model, outputs), count);
  model.metrics.push_back({"accuracy",
                           sum_of_right(outputs.token_logits, "vocab",
                                        model.targets, model.weights),
                           count});
  if (!pairs.next_sentences.valid()) return;
  // 1 for rows with tokens to predict: all but those that fill up a batch.
  const Tensor rows = ReduceMax(model.weights, {model.weights.dim("batch")}),
               number = ReduceSum(rows, {});
  model.metrics.push_back({"next_sentence_loss",
                           NextSentenceLoss(outputs, pairs, rows) * number,
                           number});
  model.metrics.push_back(
      {"next_sentence_accuracy",
       sum_of_right(outputs.next_sentence_logits, kNextSentence,
                    pairs.next_sentences, rows),
       number});
}

}  // namespace

absl::StatusOr<TrainedModel> BuildMaskedModel(Graph& graph,
                                              const nn::ConfigFields& fields,
                                              const ModelRequest& request) {
  MTF_RETURN_IF_ERROR(CheckNoPrompt(request));
  MTF_ASSIGN_OR_RETURN(const nn::BertConfig config, nn::ReadBertConfig(fields));
  MTF_RETURN_IF_ERROR(CheckVocabulary(request, config.vocab_size));
  const Dimension batch{"batch", request.batch};
  const Shape shape = {batch, {"length", request.length}};
  TrainedModel model;
  model.inputs = Input(graph, "tokens", kInt32, shape);
  model.targets = Input(graph, "targets", kInt32, shape);
  model.weights = Input(graph, "weights", kFloat32, shape);
  model.predicts = Prediction::kMaskedTokens;
  model.pairs = request.next_sentence;
  model.published = nn::BertWeights(config);
  model.has_published = true;
  PairInputs pairs;
  if (model.pairs) {
    pairs = {Input(graph, "token_types", kInt32, shape),
             Input(graph, "next_sentences", kInt32, {batch})};
  }
  {
    const Scope scope(graph, kModelScope);
    const nn::BertOutputs trained = Outputs(model, pairs, config, request);
    MTF_RETURN_IF_ERROR(graph.status());
    model.loss = MaskedLoss(model, trained);
    if (model.pairs) {
      model.loss = model.loss + NextSentenceLoss(trained, pairs, Tensor());
    }
    model.objective = model.loss;
  }
  // The same parameters, without dropout.
  const Scope scope(graph, kModelScope, Scope::kReuse);
  const ModeScope mode(graph, Mode::kEvaluate);
  const nn::BertOutputs evaluated = Outputs(model, pairs, config, request);
  MTF_RETURN_IF_ERROR(graph.status());
  model.logits = evaluated.token_logits;
  AddMetrics(evaluated, pairs, model);
  MTF_RETURN_IF_ERROR(graph.status());
  return model;
}

}  // namespace mtf::tools
