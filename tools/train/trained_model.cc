// SPDX-License-Identifier: Apache-2.0
#include "tools/train/trained_model.h"

#include <functional>
#include <optional>
#include <source_location>
#include <utility>

#include "absl/strings/str_cat.h"
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
#include "nn/models/image_transformer.h"
#include "nn/models/language_model.h"
#include "nn/models/llama.h"
#include "nn/models/mesh_transformer.h"
#include "nn/models/model_presets.h"
#include "nn/models/t5.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/slice.h"
#include "ops/top_k.h"
#include "tools/models.h"
#include "tools/train/classifier_model.h"
#include "tools/train/masked_model.h"

namespace mtf::tools {
namespace {

// A network by its config: a function of tokens, and what belongs to it.
struct Network {
  std::function<nn::LanguageModel(Tensor tokens)> of = nullptr;
  double balance = 0;  // of the losses that balance experts
  nn::WeightMap published = {};
  bool has_published = false;
  Prediction predicts = Prediction::kNextTokens;
  nn::CrossEntropyOptions loss = {};  // in training
  const char* vocabulary_field = "vocab_size";
  // Builds a model that is no language model; the other members are not used.
  std::function<absl::StatusOr<TrainedModel>(Graph& graph)> build = nullptr;
};

// The model of examples/transformer_lm.cc, with `sizes` unless fields say
// otherwise.
absl::StatusOr<Network> GptNetwork(nn::ConfigFields fields,
                                   const GptSizes& sizes,
                                   const ModelRequest& request) {
  const int64_t layers = fields.Layers("layers", sizes.layers);
  const Dimension d_model{"d_model", fields.Size("d_model", sizes.d_model)},
      heads{"heads", fields.Size("heads", sizes.heads)},
      d_kv{"d_kv", fields.Size("d_kv", sizes.d_kv)},
      d_ff{"d_ff", fields.Size("d_ff", sizes.d_ff)},
      vocab{"vocab", fields.Size("vocab", sizes.vocab)};
  fields.RejectUnknown();
  MTF_RETURN_IF_ERROR(fields.status());
  const int64_t prompt = request.prompt_length;
  const auto of = [=](Tensor tokens) -> nn::LanguageModel {
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
  };
  return Network{.of = of, .vocabulary_field = "vocab"};
}

absl::StatusOr<Network> TransformerNetwork(nn::ConfigFields fields,
                                           const ModelRequest& request) {
  GptSizes sizes;
  if (request.vocabulary > 0) sizes.vocab = request.vocabulary;
  return GptNetwork(std::move(fields), sizes, request);
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

// The tokens of a row for an encoder, and those for a decoder, which predicts
// the tokens that follow each of them.
std::pair<Tensor, Tensor> Halves(Tensor tokens) {
  const Dimension& length = tokens.shape()[1];
  const int64_t first = length.size / 2;
  return {Slice(tokens, length.name, 0, first),
          Slice(tokens, length.name, first, length.size - first)};
}

absl::Status CheckHalves(const ModelRequest& request) {
  if (request.length >= 2) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a row has ", Plural(request.length, "token"),
      ", but an encoder-decoder reads the first half and predicts the second",
      DetailLine("help", "give --length=2 or more")));
}

absl::StatusOr<Network> T5Network(nn::ConfigFields fields,
                                  const ModelRequest& request) {
  MTF_RETURN_IF_ERROR(CheckHalves(request));
  MTF_ASSIGN_OR_RETURN(nn::T5Config config,
                       nn::ReadT5Config(std::move(fields)));
  config.prompt_length = request.prompt_length;
  return Network{.of =
                     [config](Tensor tokens) {
                       const auto [encoded, decoded] = Halves(tokens);
                       return nn::T5(encoded, decoded, config);
                     },
                 .published = nn::T5Weights(config),
                 .has_published = true,
                 .predicts = Prediction::kSecondHalf};
}

nn::CrossEntropyOptions MeshLoss(const nn::MeshTransformerConfig& config) {
  return {.label_smoothing = config.label_smoothing, .z_loss = config.z_loss};
}

// Mesh-TensorFlow's, by its type.
absl::StatusOr<Network> MeshNetwork(nn::ConfigFields fields,
                                    const ModelRequest& request) {
  MTF_RETURN_IF_ERROR(CheckNoPrompt(request));
  MTF_ASSIGN_OR_RETURN(const nn::MeshTransformerConfig config,
                       nn::ReadMeshTransformerConfig(std::move(fields)));
  if (config.transformer_type == "decoder") {
    return Network{.of =
                       [config](Tensor tokens) {
                         return nn::MeshTransformer({}, tokens, config);
                       },
                   .loss = MeshLoss(config)};
  }
  if (config.transformer_type == "encoder") {
    return absl::InvalidArgumentError(absl::StrCat(
        "a transformer of the type \"encoder\" sees the tokens that it would "
        "have to predict",
        DetailLine("help",
                   "train a \"decoder\" or \"encdec\"; a program has targets "
                   "of its own for an encoder")));
  }
  MTF_RETURN_IF_ERROR(CheckHalves(request));
  return Network{.of =
                     [config](Tensor tokens) {
                       const auto [encoded, decoded] = Halves(tokens);
                       return nn::MeshTransformer(encoded, decoded, config);
                     },
                 .predicts = Prediction::kSecondHalf,
                 .loss = MeshLoss(config)};
}

absl::StatusOr<Network> ImageNetwork(nn::ConfigFields fields,
                                     const ModelRequest& request) {
  MTF_RETURN_IF_ERROR(CheckNoPrompt(request));
  MTF_ASSIGN_OR_RETURN(const nn::ImageTransformerConfig config,
                       nn::ReadImageTransformerConfig(std::move(fields)));
  return Network{.of =
                     [config](Tensor tokens) {
                       return nn::ImageTransformer(nn::ShiftRight(tokens),
                                                   config);
                     },
                 .predicts = Prediction::kPixels};
}

// A model that is no language model.
template <auto kBuild>
absl::StatusOr<Network> OtherNetwork(nn::ConfigFields fields,
                                     const ModelRequest& request) {
  return Network{.build = [fields = std::move(fields), request](Graph& graph) {
    return kBuild(graph, fields, request);
  }};
}

// The models by name. To add one, add a row.
struct NamedModel {
  const char* name;
  absl::StatusOr<Network> (*network)(nn::ConfigFields fields,
                                     const ModelRequest& request);
  bool needs_config;  // with the sizes of the model
};
constexpr NamedModel kTrainedModels[] = {
    {"transformer", &TransformerNetwork, false},
    {"small", &TransformerNetwork, false},  // its name in mtf explain
    {"gpt2", &Gpt2Network, true},
    {"llama", &LlamaNetwork, true},
    {"mistral", &LlamaNetwork, true},
    {"mixtral", &LlamaNetwork, true},
    {"t5", &T5Network, true},
    {"bert", &OtherNetwork<&BuildMaskedModel>, true},
    {"vit", &OtherNetwork<&BuildVitClassifier>, true},
    {"resnet", &OtherNetwork<&BuildResNetClassifier>, false},
    {"mtf_transformer", &MeshNetwork, true},
    {"mtf_image_transformer", &ImageNetwork, true}};

const NamedModel* FindType(absl::string_view type) {
  for (const NamedModel& model : kTrainedModels) {
    if (model.name == type) return &model;
  }
  return nullptr;
}

absl::Status CheckHasConfig(const NamedModel& model,
                            const ModelRequest& request) {
  if (!model.needs_config || !request.config.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--model=", model.name, " needs the sizes of the model",
      DetailLine("help",
                 "give its config.json as --config, or a --model with sizes: "
                 "transformer, gpt2_medium, mtf_transformer_tiny_lm or others "
                 "of docs/training.md")));
}

// The network of a preset, whose config is complete.
absl::StatusOr<Network> PresetNetwork(const nn::ModelPreset& preset,
                                      const ModelRequest& request) {
  if (!request.config.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--model=", preset.name, " has a config, but --config is given",
        DetailLine("help", absl::StrCat("leave --config out, or give --model=",
                                        preset.type))));
  }
  MTF_ASSIGN_OR_RETURN(nn::ConfigFields fields,
                       nn::ConfigFields::Parse(preset.config));
  return FindType(preset.type)->network(std::move(fields), request);
}

absl::StatusOr<Network> FindNetwork(const ModelRequest& request) {
  if (const auto preset = nn::FindModelPreset(request.name); preset.ok()) {
    return PresetNetwork(*preset, request);
  }
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
  if (const NamedModel* const model = FindType(name)) {
    MTF_RETURN_IF_ERROR(CheckHasConfig(*model, request));
    fields.SetDefault("model_type", name);
    return model->network(std::move(fields), request);
  }
  if (const auto sizes = FindModel(name); sizes.ok()) {
    return GptNetwork(std::move(fields), *sizes, request);
  }
  return UnknownModel(name, TrainedModelNames());
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

// What is predicted of a row, and its weight in evaluations.
struct Predicted {
  Tensor targets, weights;
};
Predicted PredictedBy(const Network& network, const TrainedModel& model) {
  switch (network.predicts) {
    case Prediction::kSecondHalf:
      return {Halves(model.targets).second, Halves(model.weights).second};
    case Prediction::kPixels:
      return {model.inputs, model.weights};
    case Prediction::kNextTokens:
    case Prediction::kMaskedTokens:
    case Prediction::kClasses:
      break;
  }
  return {model.targets, model.weights};
}

}  // namespace

std::vector<std::string> TrainedModelNames() {
  std::vector<std::string> names;
  for (const NamedModel& model : kTrainedModels) names.emplace_back(model.name);
  for (const std::string& name : ModelNames()) {
    if (FindType(name) == nullptr) names.push_back(name);
  }
  return names;
}

absl::StatusOr<TrainedModel> BuildTrainedModel(Graph& graph,
                                               const ModelRequest& request) {
  MTF_ASSIGN_OR_RETURN(const Network network, FindNetwork(request));
  if (network.build != nullptr) return network.build(graph);
  const Dimension batch{"batch", request.batch},
      length{"length", request.length};
  TrainedModel model;
  model.inputs = Input(graph, "tokens", kInt32, {batch, length});
  model.targets = Input(graph, "targets", kInt32, {batch, length});
  model.weights = Input(graph, "weights", kFloat32, {batch, length});
  model.published = network.published;
  model.has_published = network.has_published;
  model.predicts = network.predicts;
  const Predicted predicted = PredictedBy(network, model);
  {
    const Scope scope(graph, kModelScope);
    const nn::LanguageModel trained = Adapted(network, request, model.inputs);
    model.loss =
        nn::LanguageModelLoss(trained, predicted.targets, network.loss);
    model.objective = model.loss;
    for (const nn::Experts& layer : trained.experts) {
      model.objective =
          model.objective + network.balance * layer.load_balancing_loss;
    }
    MTF_RETURN_IF_ERROR(graph.status());
    // The last token is the end of a text, which pictures do not have.
    const int64_t unused = network.predicts == Prediction::kPixels ? 1 : 0;
    MTF_RETURN_IF_ERROR(CheckVocabulary(request, trained.vocab.size, unused,
                                        network.vocabulary_field));
  }
  // The same parameters, without dropout.
  const Scope scope(graph, kModelScope, Scope::kReuse);
  const ModeScope mode(graph, Mode::kEvaluate);
  const nn::LanguageModel evaluated = Adapted(network, request, model.inputs);
  model.logits = nn::LanguageModelLogits(evaluated);
  const Tensor count = ReduceSum(predicted.weights, {});
  const Tensor loss = nn::LanguageModelLoss(evaluated, predicted.targets,
                                            {.weights = predicted.weights});
  const Tensor right =
      Cast(ArgMax(model.logits, evaluated.vocab.name) == predicted.targets,
           kFloat32);
  model.metrics = train::LossMetrics(loss, count);
  model.metrics.push_back(
      {"accuracy", ReduceSum(right * predicted.weights, {}), count});
  MTF_RETURN_IF_ERROR(graph.status());
  return model;
}

}  // namespace mtf::tools
