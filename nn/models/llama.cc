// SPDX-License-Identifier: Apache-2.0
#include "nn/models/llama.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "nn/layers/embedding.h"
#include "nn/layers/prompt.h"
#include "nn/models/model_parts.h"
#include "nn/models/transformer.h"

namespace mtf::nn {
namespace {

// Reads the scaling of rotary positions from the object `rope`.
void ReadRopeScaling(ConfigFields& fields, const std::string& rope,
                     RotaryScaling& scaling) {
  const auto name = [&](const char* field) {
    return absl::StrCat(rope, ".", field);
  };
  const std::string type =
      fields.Text(name("rope_type"), fields.Text(name("type"), "default"));
  fields.Require(name("partial_rotary_factor"), "1");
  if (type == "default") return;
  if (type == "linear") {
    scaling.rule = RotaryScalingRule::kLinear;
    scaling.factor = fields.Number(name("factor"));
  } else if (type == "llama3") {
    scaling.rule = RotaryScalingRule::kLlama3;
    scaling.factor = fields.Number(name("factor"));
    scaling.low_frequency_factor = fields.Number(name("low_freq_factor"));
    scaling.high_frequency_factor = fields.Number(name("high_freq_factor"));
    // Outside of the object it applies first.
    const char* const original = "original_max_position_embeddings";
    scaling.original_length = fields.Number(
        original,
        fields.Number(name(original),
                      fields.Number("max_position_embeddings", 2048)));
  } else {
    fields.Fail(name("rope_type"), "is a rule that is not supported",
                "the rules supported are default, linear and llama3");
  }
}

// Windows are those of all layers or of none.
void CheckLayerTypes(ConfigFields& fields, const LlamaConfig& config) {
  const char* const all =
      config.sliding_window > 0 ? "sliding_attention" : "full_attention";
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    fields.Require(absl::StrCat("layer_types.", i), all);
  }
}

absl::Status CheckLlama(const LlamaConfig& config) {
  const int64_t kv = config.num_key_value_heads;
  MTF_RETURN_IF_ERROR(CheckDivides(
      "num_key_value_heads", kv > 0 ? kv : config.num_attention_heads,
      "num_attention_heads", config.num_attention_heads));
  if (config.head_dim > 0) return absl::OkStatus();
  return CheckDivides("num_attention_heads", config.num_attention_heads,
                      "hidden_size", config.hidden_size);
}

// The sizes of heads: "heads" is that of keys and values.
struct LlamaHeads {
  Dimension heads, group_heads, d_kv;
  bool grouped() const { return group_heads.size > 1; }
};

LlamaHeads HeadsOf(const LlamaConfig& config) {
  const int64_t queries = config.num_attention_heads;
  const int64_t kv =
      config.num_key_value_heads > 0 ? config.num_key_value_heads : queries;
  const int64_t head_dim =
      config.head_dim > 0 ? config.head_dim : config.hidden_size / queries;
  return {{"heads", kv}, {"group_heads", queries / kv}, {"d_kv", head_dim}};
}

AttentionOptions LlamaAttention(const Dimension& length,
                                const LlamaConfig& config) {
  const auto [heads, group_heads, d_kv] = HeadsOf(config);
  const bool grouped = group_heads.size > 1;
  return {.length = length,
          .heads = grouped ? group_heads : heads,
          .d_kv = d_kv,
          .causal = true,
          .dropout = config.attention_dropout,
          .bias = config.attention_bias,
          .groups = grouped ? heads : Dimension(),
          .rotary = RotaryOptions{.base = config.rope_theta,
                                  .scaling = config.rope_scaling},
          .window = config.sliding_window};
}

// Of Mixtral. A slot for every token: none is dropped.
ExpertsOptions MixtralRouting(const LlamaConfig& config) {
  const double slots_per_token =
      static_cast<double>(config.num_local_experts) /
      static_cast<double>(config.num_experts_per_tok);
  return {.choices = config.num_experts_per_tok,
          .normalize = true,
          .capacity_factor = slots_per_token,
          .evaluation_capacity_factor = slots_per_token,
          .jitter = config.router_jitter_noise};
}

}  // namespace

absl::StatusOr<LlamaConfig> ReadLlamaConfig(ConfigFields fields) {
  LlamaConfig config;
  const std::string type = fields.Text("model_type", "llama");
  const bool is_mixtral = type == "mixtral";
  config.vocab_size = fields.Size("vocab_size");
  config.hidden_size = fields.Size("hidden_size");
  config.intermediate_size = fields.Size("intermediate_size");
  config.num_hidden_layers = fields.Layers("num_hidden_layers");
  config.num_attention_heads = fields.Size("num_attention_heads");
  // Null is not absent here: one head of keys for each of queries.
  const bool ungrouped =
      type == "llama" || fields.IsNull("num_key_value_heads");
  config.num_key_value_heads = fields.Size(
      "num_key_value_heads", ungrouped ? config.num_attention_heads : 8);
  config.head_dim = fields.Size("head_dim", 0);
  config.hidden_act = fields.Text("hidden_act", config.hidden_act);
  config.rms_norm_eps =
      fields.Epsilon("rms_norm_eps", is_mixtral ? 1e-5 : 1e-6);
  for (const char* rope : {"rope_scaling", "rope_parameters"}) {
    ReadRopeScaling(fields, rope, config.rope_scaling);
    fields.RejectObjectsIn(rope);  // rules for each type of layer
  }
  config.rope_theta =
      fields.Number("rope_parameters.rope_theta",
                    fields.Number("rope_theta", is_mixtral ? 1e6 : 10000));
  const bool has_window = type == "mistral" && !fields.IsNull("sliding_window");
  config.sliding_window = fields.Size("sliding_window", has_window ? 4096 : 0);
  if (type == "llama" && config.sliding_window > 0) {
    fields.Fail("sliding_window", "is set, but a llama has no window",
                "remove it, or use \"model_type\": \"mistral\"");
  }
  CheckLayerTypes(fields, config);
  config.attention_dropout = fields.Number("attention_dropout", 0);
  config.attention_bias = fields.Flag("attention_bias", false);
  config.mlp_bias = fields.Flag("mlp_bias", false);
  config.tie_word_embeddings = fields.Flag("tie_word_embeddings", false);
  if (is_mixtral) {
    config.num_local_experts = fields.Size("num_local_experts", 8);
    config.num_experts_per_tok = fields.Size("num_experts_per_tok", 2);
    config.router_jitter_noise = fields.Number("router_jitter_noise", 0);
    config.router_aux_loss_coef =
        fields.Number("router_aux_loss_coef", config.router_aux_loss_coef);
  }
  fields.Require("partial_rotary_factor", "1");
  fields.Require("pretraining_tp", "1");
  MTF_RETURN_IF_ERROR(fields.status());
  MTF_RETURN_IF_ERROR(ActivationOf(config.hidden_act).status());
  MTF_RETURN_IF_ERROR(CheckLlama(config));
  return config;
}

LanguageModel Llama(Tensor tokens, const LlamaConfig& config,
                    std::source_location location) {
  if (!tokens.valid()) return {};
  Graph& graph = tokens.graph();
  const CallSiteScope site(graph, location);
  absl::Status status = CheckTokens(tokens, "", 0, config.prompt_length);
  if (status.ok()) status = CheckLlama(config);
  const auto activation = ActivationOf(config.hidden_act);
  if (status.ok()) status = activation.status();
  if (!status.ok()) return FailedModel(tokens, status, "llama", location);

  const Dimension length =
                      WithPrompt(LastDimension(tokens), config.prompt_length),
                  vocab{"vocab", config.vocab_size},
                  d_model{"d_model", config.hidden_size},
                  d_ff{"d_ff", config.intermediate_size},
                  experts{"experts", config.num_local_experts};
  const bool has_experts = experts.size > 0;

  const Tensor embed_tokens =
      EmbeddingTable(graph, vocab, d_model, {.stddev = 0.02});
  const Transformer model = TransformerStack(
      PromptedEmbedding(tokens, embed_tokens, vocab, d_model,
                        config.prompt_length),
      {.layers = config.num_hidden_layers,
       .attention = LlamaAttention(length, config),
       .d_ff = d_ff,
       .activation = *activation,
       .feed_forward = {.bias = config.mlp_bias, .gated = true},
       .experts = has_experts ? experts : Dimension(),
       .routing = has_experts ? MixtralRouting(config) : ExpertsOptions(),
       .residual = {.norm = {.kind = NormKind::kRmsNorm,
                             .epsilon = config.rms_norm_eps}}});
  const Tensor lm_head = config.tie_word_embeddings
                             ? embed_tokens
                             : HeadKernel(graph, d_model, vocab);
  return {DropPrompt(model.output, length.name, config.prompt_length), lm_head,
          vocab, model.experts};
}

WeightMap LlamaWeights(const LlamaConfig& config) {
  const std::string ours = "layer_*/", theirs = "layers.*.";
  const std::string attention = ours + "attention/",
                    self_attn = theirs + "self_attn.";
  const std::string heads =
      HeadsOf(config).grouped() ? "heads group_heads d_kv" : "heads d_kv";
  const std::string queries = absl::StrCat("(", heads, ")");
  WeightMap map;
  map.prefix = "model.";
  // Kernels of linear layers are out x in.
  map.rules = {
      {"embedding/table", "embed_tokens.weight"},
      {ours + "rms_norm/scale", theirs + "input_layernorm.weight"},
      {attention + "query/kernel", self_attn + "q_proj.weight",
       queries + " d_model"},
      {attention + "key/kernel", self_attn + "k_proj.weight",
       "(heads d_kv) d_model"},
      {attention + "value/kernel", self_attn + "v_proj.weight",
       "(heads d_kv) d_model"},
      {attention + "output/kernel", self_attn + "o_proj.weight",
       "d_model " + queries},
      {attention + "query/bias", self_attn + "q_proj.bias", queries},
      {attention + "key/bias", self_attn + "k_proj.bias", "(heads d_kv)"},
      {attention + "value/bias", self_attn + "v_proj.bias", "(heads d_kv)"},
      {attention + "output/bias", self_attn + "o_proj.bias"},
      {ours + "rms_norm_1/scale", theirs + "post_attention_layernorm.weight"},
      {"rms_norm/scale", "norm.weight"},
      {"head/kernel", "/lm_head.weight", "vocab d_model"}};
  const std::vector<std::pair<std::string, std::string>> mlp = {
      {"in", "up_proj"}, {"gate", "gate_proj"}, {"out", "down_proj"}};
  for (const auto& [layer, proj] : mlp) {
    const std::string name = ours + "feed_forward/" + layer;
    map.rules.push_back({name + "/kernel", theirs + "mlp." + proj + ".weight",
                         layer == "out" ? "d_model d_ff" : "d_ff d_model"});
    map.rules.push_back({name + "/bias", theirs + "mlp." + proj + ".bias"});
  }
  // Mixtral: a tensor for each expert.
  const std::string moe = theirs + "block_sparse_moe.",
                    expert = ours + "experts/expert/feed_forward/";
  map.rules.push_back(
      {ours + "experts/router", moe + "gate.weight", "router_experts d_model"});
  map.rules.push_back({expert + "gate/kernel",
                       moe + "experts.{experts}.w1.weight", "d_ff d_model"});
  map.rules.push_back({expert + "in/kernel",
                       moe + "experts.{experts}.w3.weight", "d_ff d_model"});
  map.rules.push_back({expert + "out/kernel",
                       moe + "experts.{experts}.w2.weight", "d_model d_ff"});
  map.ignored = {theirs + "self_attn.rotary_emb.inv_freq"};
  if (config.tie_word_embeddings) {
    map.copies = {{"/lm_head.weight", "embed_tokens.weight"}};
  }
  return map;
}

}  // namespace mtf::nn
