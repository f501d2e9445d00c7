// SPDX-License-Identifier: Apache-2.0
#include "nn/models/build_model.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mtf/status.h"
#include "nn/losses/cross_entropy.h"
#include "nn/models/bert.h"
#include "nn/models/config_fields.h"
#include "nn/models/gpt2.h"
#include "nn/models/image_transformer.h"
#include "nn/models/language_model.h"
#include "nn/models/llama.h"
#include "nn/models/mesh_transformer.h"
#include "nn/models/resnet.h"
#include "nn/models/t5.h"
#include "nn/models/vit.h"
#include "ops/elementwise.h"
#include "ops/input.h"

namespace mtf::nn {
namespace {

using Builder = absl::StatusOr<PublishedModel> (*)(Graph& graph,
                                                   const ConfigFields& fields,
                                                   const ModelSizes& sizes);

Tensor TokensInput(Graph& graph, const char* name, int64_t batch,
                   int64_t length) {
  return Input(graph, name, kInt32, {{"batch", batch}, {"length", length}});
}

// The loss of `model` for `targets`, and the logits.
PublishedModel OfLanguageModel(const LanguageModel& model,
                               std::vector<Tensor> inputs, double balance,
                               WeightMap weights,
                               const CrossEntropyOptions& options = {}) {
  PublishedModel result;
  result.loss = LanguageModelLoss(model, inputs.back(), options);
  result.objective = result.loss;
  for (const Experts& layer : model.experts) {
    result.objective = result.objective + balance * layer.load_balancing_loss;
  }
  result.logits = LanguageModelLogits(model);
  result.inputs = std::move(inputs);
  result.vocab = result.classes = model.vocab.size;
  result.weights = std::move(weights);
  return result;
}

absl::StatusOr<PublishedModel> BuildGpt2(Graph& graph,
                                         const ConfigFields& fields,
                                         const ModelSizes& sizes) {
  MTF_ASSIGN_OR_RETURN(Gpt2Config config, ReadGpt2Config(fields));
  config.prompt_length = sizes.prompt_length;
  const Tensor tokens = TokensInput(graph, "tokens", sizes.batch, sizes.length);
  const Tensor targets =
      TokensInput(graph, "targets", sizes.batch, sizes.length);
  return OfLanguageModel(Gpt2(tokens, config), {tokens, targets}, 0,
                         Gpt2Weights(config));
}

absl::StatusOr<PublishedModel> BuildLlama(Graph& graph,
                                          const ConfigFields& fields,
                                          const ModelSizes& sizes) {
  MTF_ASSIGN_OR_RETURN(LlamaConfig config, ReadLlamaConfig(fields));
  config.prompt_length = sizes.prompt_length;
  const Tensor tokens = TokensInput(graph, "tokens", sizes.batch, sizes.length);
  const Tensor targets =
      TokensInput(graph, "targets", sizes.batch, sizes.length);
  // Where experts are balanced, the loss of a layer is 1, that of the reference
  // for all layers and choices is num_experts_per_tok.
  const double balance = config.router_aux_loss_coef *
                         static_cast<double>(config.num_experts_per_tok) /
                         static_cast<double>(config.num_hidden_layers);
  return OfLanguageModel(Llama(tokens, config), {tokens, targets}, balance,
                         LlamaWeights(config));
}

absl::StatusOr<PublishedModel> BuildT5(Graph& graph, const ConfigFields& fields,
                                       const ModelSizes& sizes) {
  MTF_ASSIGN_OR_RETURN(T5Config config, ReadT5Config(fields));
  config.prompt_length = sizes.prompt_length;
  const int64_t target_length =
      sizes.target_length > 0 ? sizes.target_length : sizes.length;
  const Tensor tokens = TokensInput(graph, "tokens", sizes.batch, sizes.length);
  const Tensor targets =
      TokensInput(graph, "targets", sizes.batch, target_length);
  const Tensor decoder_tokens =
      ShiftRight(targets, config.decoder_start_token_id);
  return OfLanguageModel(T5(tokens, decoder_tokens, config), {tokens, targets},
                         0, T5Weights(config));
}

// Targets of 0 are padding, as in the reference.
absl::StatusOr<PublishedModel> BuildMeshTransformer(Graph& graph,
                                                    const ConfigFields& fields,
                                                    const ModelSizes& sizes) {
  MTF_ASSIGN_OR_RETURN(const MeshTransformerConfig config,
                       ReadMeshTransformerConfig(fields));
  const bool translates = config.transformer_type == "encdec";
  const int64_t target_length = translates && sizes.target_length > 0
                                    ? sizes.target_length
                                    : sizes.length;
  const Tensor tokens = TokensInput(graph, "tokens", sizes.batch, sizes.length);
  const Tensor targets =
      TokensInput(graph, "targets", sizes.batch, target_length);
  const bool decodes_tokens = config.transformer_type == "decoder";
  const LanguageModel model =
      MeshTransformer(decodes_tokens ? Tensor() : tokens,
                      decodes_tokens ? tokens
                      : translates   ? ShiftRight(targets)
                                     : Tensor(),
                      config);
  return OfLanguageModel(model, {tokens, targets}, 0, WeightMap(),
                         {.label_smoothing = config.label_smoothing,
                          .z_loss = config.z_loss,
                          .weights = NotEqual(targets, 0.0)});
}

absl::StatusOr<PublishedModel> BuildImageTransformer(Graph& graph,
                                                     const ConfigFields& fields,
                                                     const ModelSizes& sizes) {
  MTF_ASSIGN_OR_RETURN(const ImageTransformerConfig config,
                       ReadImageTransformerConfig(fields));
  const Tensor pixels =
      TokensInput(graph, "pixels", sizes.batch, config.length());
  return OfLanguageModel(ImageTransformer(ShiftRight(pixels), config), {pixels},
                         0, WeightMap());
}

absl::StatusOr<PublishedModel> BuildBert(Graph& graph,
                                         const ConfigFields& fields,
                                         const ModelSizes& sizes) {
  MTF_ASSIGN_OR_RETURN(const BertConfig config, ReadBertConfig(fields));
  const int64_t batch = sizes.batch, length = sizes.length;
  const Tensor tokens = TokensInput(graph, "tokens", batch, length);
  const Tensor token_types = TokensInput(graph, "token_types", batch, length);
  const Tensor mask =
      Input(graph, "mask", kBool, {{"batch", batch}, {"length", length}});
  const Tensor targets = TokensInput(graph, "targets", batch, length);
  const Tensor next_sentences =
      Input(graph, "next_sentences", kInt32, {{"batch", batch}});
  const BertOutputs outputs = Bert({tokens, token_types, mask}, config);
  PublishedModel result;
  result.inputs = {tokens, token_types, mask, targets, next_sentences};
  result.loss = BertPretrainingLoss(outputs, targets, next_sentences);
  result.objective = result.loss;
  result.logits = outputs.token_logits;
  result.vocab = result.classes = config.vocab_size;
  result.weights = BertWeights(config);
  return result;
}

// The loss of a classifier of `images`.
PublishedModel OfClassifier(Tensor images, Tensor logits, int64_t classes,
                            WeightMap weights) {
  const Dimension batch = images.dim("batch");
  const Tensor labels = Input(images.graph(), "labels", kInt32, {batch});
  PublishedModel result;
  result.inputs = {images, labels};
  result.loss = SoftmaxCrossEntropy(logits, {"classes", classes}, labels);
  result.objective = result.loss;
  result.logits = logits;
  result.classes = classes;
  result.weights = std::move(weights);
  return result;
}

Tensor ImagesInput(Graph& graph, int64_t batch, int64_t size,
                   int64_t channels) {
  return Input(graph, "images", kFloat32,
               {{"batch", batch},
                {"height", size},
                {"width", size},
                {"channels", channels}});
}

absl::StatusOr<PublishedModel> BuildVit(Graph& graph,
                                        const ConfigFields& fields,
                                        const ModelSizes& sizes) {
  MTF_ASSIGN_OR_RETURN(const VitConfig config, ReadVitConfig(fields));
  const Tensor images =
      ImagesInput(graph, sizes.batch, config.image_size, config.num_channels);
  return OfClassifier(images, Vit(images, config).logits, config.num_labels,
                      VitWeights(config));
}

absl::StatusOr<PublishedModel> BuildResNet(Graph& graph,
                                           const ConfigFields& fields,
                                           const ModelSizes& sizes) {
  MTF_ASSIGN_OR_RETURN(const ResNetConfig config, ReadResNetConfig(fields));
  const int64_t size = sizes.image_size > 0 ? sizes.image_size : 224;
  const Tensor images =
      ImagesInput(graph, sizes.batch, size, config.num_channels);
  return OfClassifier(images, ResNet(images, config).logits, config.num_labels,
                      ResNetWeights(config));
}

struct TypedBuilder {
  const char* type;
  Builder build;
};
constexpr TypedBuilder kBuilders[] = {
    {"gpt2", &BuildGpt2},
    {"llama", &BuildLlama},
    {"mistral", &BuildLlama},
    {"mixtral", &BuildLlama},
    {"t5", &BuildT5},
    {"bert", &BuildBert},
    {"vit", &BuildVit},
    {"resnet", &BuildResNet},
    {"mtf_transformer", &BuildMeshTransformer},
    {"mtf_image_transformer", &BuildImageTransformer}};

absl::Status UnknownType(const std::string& type) {
  if (type.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the config has no \"model_type\"\n  help     add it, or give the "
        "type\n  types    ",
        absl::StrJoin(PublishedModelTypes(), ", ")));
  }
  const std::string nearest = NearestName(type, PublishedModelTypes());
  return absl::NotFoundError(absl::StrCat(
      "there is no model type \"", absl::Utf8SafeCEscape(type).substr(0, 80),
      "\"",
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"),
      "\n  types    ", absl::StrJoin(PublishedModelTypes(), ", ")));
}

}  // namespace

std::vector<std::string> PublishedModelTypes() {
  std::vector<std::string> types;
  for (const TypedBuilder& builder : kBuilders) {
    types.emplace_back(builder.type);
  }
  return types;
}

absl::StatusOr<PublishedModel> BuildModel(Graph& graph, absl::string_view type,
                                          absl::string_view config,
                                          const ModelSizes& sizes) {
  MTF_ASSIGN_OR_RETURN(ConfigFields fields, ConfigFields::Parse(config));
  const std::string stated = fields.Text("model_type", "");
  MTF_RETURN_IF_ERROR(fields.status());
  const std::string wanted = type.empty() ? stated : std::string(type);
  const auto builder = std::find_if(
      std::begin(kBuilders), std::end(kBuilders),
      [&](const TypedBuilder& each) { return each.type == wanted; });
  if (builder == std::end(kBuilders)) return UnknownType(wanted);
  if (!stated.empty() && stated != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the config is that of a ", absl::Utf8SafeCEscape(stated).substr(0, 80),
        ", not of a ", wanted,
        "\n  help     leave the type out, or change "
        "\"model_type\" of the config"));
  }
  fields.SetDefault("model_type", wanted);
  fields.RejectPresent("quantization_config",
                       "is present, but weights are read as floats only",
                       "use weights that are not quantized");
  MTF_RETURN_IF_ERROR(fields.status());
  const bool reads_text = builder->build == &BuildGpt2 ||
                          builder->build == &BuildLlama ||
                          builder->build == &BuildT5;
  if (sizes.prompt_length != 0 && !reads_text) {
    return absl::InvalidArgumentError(
        absl::StrCat("a prompt of ", sizes.prompt_length,
                     " vectors is for a language ", "model or T5, not for a ",
                     wanted, "\n  help     leave .prompt_length out"));
  }
  MTF_ASSIGN_OR_RETURN(PublishedModel model,
                       builder->build(graph, fields, sizes));
  MTF_RETURN_IF_ERROR(graph.status());
  model.type = wanted;
  return model;
}

}  // namespace mtf::nn
