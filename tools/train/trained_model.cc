// SPDX-License-Identifier: Apache-2.0
#include "tools/train/trained_model.h"

#include <functional>
#include <optional>
#include <source_location>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "nn/attention/attention.h"
#include "nn/layers/embedding.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/layer_norm.h"
#include "nn/layers/prompt.h"
#include "nn/losses/cross_entropy.h"
#include "nn/models/config_fields.h"
#include "nn/models/gpt2.h"
#include "nn/models/language_model.h"
#include "nn/models/llama.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/top_k.h"

namespace mtf::tools {
namespace {

// A network by its config: a function of tokens, and what belongs to it.
struct Network {
  std::function<nn::LanguageModel(Tensor tokens)> of = nullptr;
  double balance = 0;  // of the losses that balance experts
  nn::WeightMap published = {};
  bool has_published = false;
};

// The model of examples/transformer_lm.cc.
absl::StatusOr<Network> TransformerNetwork(nn::ConfigFields fields,
                                           const ModelRequest& request) {
  const int64_t layers = fields.Size("layers", 2);
  const Dimension d_model{"d_model", fields.Size("d_model", 128)},
      heads{"heads", fields.Size("heads", 4)},
      d_kv{"d_kv", fields.Size("d_kv", 32)},
      d_ff{"d_ff", fields.Size("d_ff", 512)},
      vocab{"vocab",
            fields.Size("vocab",
                        request.vocabulary > 0 ? request.vocabulary : 256)};
  MTF_RETURN_IF_ERROR(fields.status());
  const int64_t prompt = request.prompt_length;
  return Network{[=](Tensor tokens) -> nn::LanguageModel {
    Dimension length = tokens.shape()[1];
    Tensor x = nn::Embedding(tokens, vocab, d_model, {.stddev = 0.05});
    if (prompt > 0) {
      x = nn::PrependPrompt(x, length, d_model, {.prompt_length = prompt});
      length.size += prompt;
    }
    x = nn::PositionEmbedding(x, length, d_model, {.stddev = 0.05});
    for (int64_t i = 0; i < layers; ++i) {
      const Scope layer(tokens.graph(), absl::StrCat("layer_", i));
      x = x +
          nn::SelfAttention(
              nn::LayerNorm(x, d_model),
              {.length = length, .heads = heads, .d_kv = d_kv, .causal = true});
      x = x + nn::FeedForward(nn::LayerNorm(x, d_model), d_ff, Gelu);
    }
    return {.hidden =
                nn::DropPrompt(nn::LayerNorm(x, d_model), length.name, prompt),
            .head = nn::HeadKernel(tokens.graph(), d_model, vocab),
            .vocab = vocab,
            .experts = {}};
  }};
}

absl::StatusOr<Network> Gpt2Network(nn::ConfigFields fields,
                                    const ModelRequest& request) {
  MTF_ASSIGN_OR_RETURN(nn::Gpt2Config config,
                       nn::ReadGpt2Config(std::move(fields)));
  config.prompt_length = request.prompt_length;
  return Network{[config](Tensor tokens) { return nn::Gpt2(tokens, config); },
                 /*balance=*/0.01, nn::Gpt2Weights(config), true};
}

// Also Mistral and Mixtral.
absl::StatusOr<Network> LlamaNetwork(nn::ConfigFields fields,
                                     const ModelRequest& request) {
  MTF_ASSIGN_OR_RETURN(nn::LlamaConfig config,
                       nn::ReadLlamaConfig(std::move(fields)));
  config.prompt_length = request.prompt_length;
  return Network{[config](Tensor tokens) { return nn::Llama(tokens, config); },
                 config.router_aux_loss_coef, nn::LlamaWeights(config), true};
}

// The models by name. To add one, add a row.
struct NamedModel {
  const char* name;
  absl::StatusOr<Network> (*network)(nn::ConfigFields fields,
                                     const ModelRequest& request);
};
constexpr NamedModel kTrainedModels[] = {{"transformer", &TransformerNetwork},
                                         {"gpt2", &Gpt2Network},
                                         {"llama", &LlamaNetwork},
                                         {"mistral", &LlamaNetwork},
                                         {"mixtral", &LlamaNetwork}};

absl::StatusOr<Network> FindNetwork(const ModelRequest& request) {
  MTF_ASSIGN_OR_RETURN(
      nn::ConfigFields fields,
      nn::ConfigFields::Parse(request.config.empty() ? "{}" : request.config));
  std::string name = request.name;
  const std::string stated = fields.Text("model_type", "");
  MTF_RETURN_IF_ERROR(fields.status());
  if (name.empty()) name = stated.empty() ? "transformer" : stated;
  if (!stated.empty() && stated != name) {
    return absl::InvalidArgumentError(
        absl::StrCat("the config is that of a ", Quoted(stated),
                     ", but --model is ", Quoted(name),
                     DetailLine("help",
                                "omit --model, or give another "
                                "--config")));
  }
  for (const NamedModel& model : kTrainedModels) {
    if (model.name == name) return model.network(std::move(fields), request);
  }
  const std::string nearest = NearestName(name, TrainedModelNames());
  return absl::NotFoundError(absl::StrCat(
      "unknown model ", Quoted(name),
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"),
      DetailLine("models", absl::StrJoin(TrainedModelNames(), ", "))));
}

// The network with the adapters of `request`.
nn::LanguageModel Adapted(const Network& network, const ModelRequest& request,
                          Tensor tokens) {
  std::optional<nn::AdapterScope> adapters;
  if (!request.adapters.pattern.empty()) {
    // By itself emplace() would give the place of its own call in a header.
    adapters.emplace(tokens.graph(), request.adapters,
                     std::source_location::current());
  }
  return network.of(tokens);
}

}  // namespace

std::vector<std::string> TrainedModelNames() {
  std::vector<std::string> names;
  for (const NamedModel& model : kTrainedModels) names.emplace_back(model.name);
  return names;
}

absl::StatusOr<TrainedModel> BuildTrainedModel(Graph& graph,
                                               const ModelRequest& request) {
  MTF_ASSIGN_OR_RETURN(const Network network, FindNetwork(request));
  const Dimension batch{"batch", request.batch},
      length{"length", request.length};
  TrainedModel model;
  model.tokens = Input(graph, "tokens", kInt32, {batch, length});
  model.targets = Input(graph, "targets", kInt32, {batch, length});
  model.weights = Input(graph, "weights", kFloat32, {batch, length});
  model.published = network.published;
  model.has_published = network.has_published;
  {
    const Scope scope(graph, kModelScope);
    const nn::LanguageModel trained = Adapted(network, request, model.tokens);
    model.loss = nn::LanguageModelLoss(trained, model.targets);
    model.objective = model.loss;
    for (const nn::Experts& layer : trained.experts) {
      model.objective =
          model.objective + network.balance * layer.load_balancing_loss;
    }
    MTF_RETURN_IF_ERROR(graph.status());
    if (trained.vocab.size < request.vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the model has a vocabulary of ", trained.vocab.size,
          ", but the tokenizer makes ", request.vocabulary, " tokens",
          DetailLine("help", "enlarge the vocabulary in --config")));
    }
  }
  // The same parameters, without dropout.
  const Scope scope(graph, kModelScope, Scope::kReuse);
  const ModeScope mode(graph, Mode::kEvaluate);
  const nn::LanguageModel evaluated = Adapted(network, request, model.tokens);
  model.logits = nn::LanguageModelLogits(evaluated);
  const Tensor count = ReduceSum(model.weights, {});
  const Tensor loss = nn::LanguageModelLoss(evaluated, model.targets,
                                            {.weights = model.weights});
  const Tensor right = Cast(
      ArgMax(model.logits, evaluated.vocab.name) == model.targets, kFloat32);
  model.metrics = train::LossMetrics(loss, count);
  model.metrics.push_back(
      {"accuracy", ReduceSum(right * model.weights, {}), count});
  MTF_RETURN_IF_ERROR(graph.status());
  return model;
}

}  // namespace mtf::tools
