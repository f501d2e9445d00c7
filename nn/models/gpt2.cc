// SPDX-License-Identifier: Apache-2.0
#include "nn/models/gpt2.h"

#include "nn/layers/embedding.h"
#include "nn/layers/prompt.h"
#include "nn/models/model_parts.h"
#include "nn/models/transformer.h"
#include "ops/random.h"

namespace mtf::nn {

absl::StatusOr<Gpt2Config> ReadGpt2Config(ConfigFields fields) {
  Gpt2Config config;
  config.vocab_size = fields.Size("vocab_size");
  config.n_positions = fields.Size("n_positions");
  config.n_embd = fields.Size("n_embd");
  config.n_layer = fields.Layers("n_layer");
  config.n_head = fields.Size("n_head");
  config.n_inner = fields.Size("n_inner", 4 * config.n_embd);
  config.activation_function =
      fields.Text("activation_function", config.activation_function);
  config.layer_norm_epsilon = fields.Epsilon("layer_norm_epsilon", 1e-5);
  config.embd_pdrop = fields.Number("embd_pdrop", 0.1);
  config.attn_pdrop = fields.Number("attn_pdrop", 0.1);
  config.resid_pdrop = fields.Number("resid_pdrop", 0.1);
  config.tie_word_embeddings = fields.Flag("tie_word_embeddings", true);
  fields.Require("scale_attn_weights", "true");
  fields.Require("scale_attn_by_inverse_layer_idx", "false");
  fields.Require("add_cross_attention", "false");
  MTF_RETURN_IF_ERROR(fields.status());
  MTF_RETURN_IF_ERROR(ActivationOf(config.activation_function).status());
  MTF_RETURN_IF_ERROR(
      CheckDivides("n_head", config.n_head, "n_embd", config.n_embd));
  return config;
}

LanguageModel Gpt2(Tensor tokens, const Gpt2Config& config,
                   std::source_location location) {
  if (!tokens.valid()) return {};
  Graph& graph = tokens.graph();
  const CallSiteScope site(graph, location);
  absl::Status status = CheckTokens(tokens, "n_positions", config.n_positions,
                                    config.prompt_length);
  if (status.ok()) {
    status = CheckDivides("n_head", config.n_head, "n_embd", config.n_embd);
  }
  const auto activation = ActivationOf(config.activation_function);
  if (status.ok()) status = activation.status();
  if (!status.ok()) return FailedModel(tokens, status, "gpt2", location);

  const Dimension length =
                      WithPrompt(LastDimension(tokens), config.prompt_length),
                  vocab{"vocab", config.vocab_size},
                  d_model{"d_model", config.n_embd},
                  heads{"heads", config.n_head},
                  d_kv{"d_kv", config.n_embd / config.n_head},
                  d_ff{"d_ff",
                       config.n_inner > 0 ? config.n_inner : 4 * config.n_embd},
                  positions{"positions", config.n_positions};

  const Tensor wte = EmbeddingTable(graph, vocab, d_model, {.stddev = 0.02});
  Tensor x =
      PromptedEmbedding(tokens, wte, vocab, d_model, config.prompt_length);
  x = PositionEmbedding(
      x, length, d_model,
      {.rows = positions.size == length.size ? Dimension() : positions});
  if (config.embd_pdrop != 0) x = Dropout(x, config.embd_pdrop);

  const Transformer h = TransformerStack(
      x, {.layers = config.n_layer,
          .attention = {.length = length,
                        .heads = heads,
                        .d_kv = d_kv,
                        .causal = true,
                        .dropout = config.attn_pdrop,
                        .bias = true},
          .d_ff = d_ff,
          .activation = *activation,
          .feed_forward = {.bias = true},
          .experts = config.experts > 1 ? Dimension{"experts", config.experts}
                                        : Dimension(),
          .residual = {.norm = {.kind = NormKind::kLayerNorm,
                                .epsilon = config.layer_norm_epsilon},
                       .position = NormPosition::kBefore,
                       .dropout = config.resid_pdrop}});
  const Tensor lm_head =
      config.tie_word_embeddings ? wte : HeadKernel(graph, d_model, vocab);
  return {DropPrompt(h.output, length.name, config.prompt_length), lm_head,
          vocab, h.experts};
}

WeightMap Gpt2Weights(const Gpt2Config& config) {
  const std::string layer = "layer_*/", h = "h.*.";
  WeightMap map;
  map.prefix = "transformer.";
  map.rules = {{"embedding/table", "wte.weight"},
               {"position_embedding/table", "wpe.weight"},
               {layer + "layer_norm/scale", h + "ln_1.weight"},
               {layer + "layer_norm/bias", h + "ln_1.bias"},
               // Fused queries, keys and values. Kernels are in x out, as ours.
               {layer + "attention/query/kernel", h + "attn.c_attn.weight",
                "d_model (0/3 heads d_kv)"},
               {layer + "attention/key/kernel", h + "attn.c_attn.weight",
                "d_model (1/3 heads d_kv)"},
               {layer + "attention/value/kernel", h + "attn.c_attn.weight",
                "d_model (2/3 heads d_kv)"},
               {layer + "attention/query/bias", h + "attn.c_attn.bias",
                "(0/3 heads d_kv)"},
               {layer + "attention/key/bias", h + "attn.c_attn.bias",
                "(1/3 heads d_kv)"},
               {layer + "attention/value/bias", h + "attn.c_attn.bias",
                "(2/3 heads d_kv)"},
               {layer + "attention/output/kernel", h + "attn.c_proj.weight",
                "(heads d_kv) d_model"},
               {layer + "attention/output/bias", h + "attn.c_proj.bias"},
               {layer + "layer_norm_1/scale", h + "ln_2.weight"},
               {layer + "layer_norm_1/bias", h + "ln_2.bias"},
               {layer + "feed_forward/in/kernel", h + "mlp.c_fc.weight"},
               {layer + "feed_forward/in/bias", h + "mlp.c_fc.bias"},
               {layer + "feed_forward/out/kernel", h + "mlp.c_proj.weight"},
               {layer + "feed_forward/out/bias", h + "mlp.c_proj.bias"},
               {"layer_norm/scale", "ln_f.weight"},
               {"layer_norm/bias", "ln_f.bias"},
               {"head/kernel", "/lm_head.weight", "vocab d_model"}};
  // Masks, which older files have.
  map.ignored = {h + "attn.bias", h + "attn.masked_bias"};
  if (config.tie_word_embeddings) {
    map.copies = {{"/lm_head.weight", "wte.weight"}};
  }
  return map;
}

}  // namespace mtf::nn
