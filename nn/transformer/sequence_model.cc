// SPDX-License-Identifier: Apache-2.0
#include "nn/transformer/sequence_model.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/embedding.h"
#include "nn/layers/layer.h"
#include "nn/layers/parameter.h"
#include "nn/layers/sinusoid_positions.h"
#include "nn/models/model_parts.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/one_hot.h"
#include "ops/random.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

constexpr char kStackMemory[] = "memory_length";

absl::Status Check(Tensor tokens, const SequenceModelOptions& options) {
  MTF_RETURN_IF_ERROR(CheckTokens(tokens));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.vocab, ".vocab"));
  return internal::CheckGiven(options.d_model, ".d_model");
}

absl::Status CheckMask(Tensor tokens, Tensor mask) {
  if (!mask.valid()) return absl::OkStatus();
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckInputs(tokens.graph(), {tokens, mask}));
  if (mask.shape().SameDimensions(tokens.shape())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the mask must have the dimensions of the tokens",
                   DescribeInputs({tokens, mask})));
}

absl::Status CheckBoth(Tensor tokens, Tensor decoder_tokens,
                       const SequenceModelOptions& options) {
  MTF_RETURN_IF_ERROR(Check(tokens, options));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckInputs(tokens.graph(), {tokens, decoder_tokens}));
  MTF_RETURN_IF_ERROR(CheckTokens(decoder_tokens));
  MTF_RETURN_IF_ERROR(CheckMask(tokens, options.mask));
  if (!options.transparent || !options.encoder.reversible) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      ".transparent needs the results of all layers of the encoder, which a "
      "reversible stack does not keep");
}

Shape EachOf(const SequenceModelOptions& options) {
  if (options.ensemble.name.empty()) return {};
  return {options.ensemble};
}

Tensor NewTable(Graph& graph, const SequenceModelOptions& options) {
  return EmbeddingTable(
      graph, options.vocab, options.d_model,
      {.stddev = options.embedding_stddev, .each = EachOf(options)});
}

// The embedding of tokens with their positions, in the scope of a stack.
Tensor Embedded(Tensor tokens, Tensor table,
                const SequenceModelOptions& options) {
  const Dimension length = LastDimension(tokens);
  Tensor x = Embedding(tokens, options.vocab, options.d_model,
                       {.table = table, .each = EachOf(options)});
  if (options.positions == PositionKind::kLearned) {
    x = PositionEmbedding(x, length, options.d_model,
                          {.each = EachOf(options)});
  } else if (options.positions == PositionKind::kSinusoid) {
    const Tensor signal =
        SinusoidPositions(Range(tokens.graph(), length), options.d_model);
    x = x + internal::To(x.dtype(), signal);
  }
  return options.dropout == 0 ? x : Dropout(x, options.dropout);
}

// The stack `stack` on `x`, in the scope `name`.
Transformer Apply(Tensor x, TransformerOptions stack, const Dimension& length,
                  const SequenceModelOptions& options, Tensor memory = {}) {
  stack.attention.length = length;
  stack.ensemble = options.ensemble;
  return TransformerStack(x, std::move(stack), memory);
}

LanguageModel WithHead(const Transformer& result, Tensor table,
                       const SequenceModelOptions& options) {
  LanguageModel model = {result.output, table, options.vocab, result.experts};
  if (options.tied) {
    model.hidden = model.hidden *
                   (1 / std::sqrt(static_cast<double>(options.d_model.size)));
  } else {
    Graph& graph = result.output.graph();
    const Scope head(graph, "head");
    model.head =
        Kernel(graph, "kernel", {options.d_model}, {options.vocab},
               ActivationDType(result.output), {.each = EachOf(options)});
  }
  return model;
}

}  // namespace

LanguageModel DecoderModel(Tensor tokens, SequenceModelOptions options,
                           std::source_location location) {
  if (!tokens.valid()) return {};
  Graph& graph = tokens.graph();
  const CallSiteScope site(graph, location);
  const absl::Status status = Check(tokens, options);
  if (!status.ok()) {
    return FailedModel(tokens, status, "decoder_model", location);
  }
  options.decoder.attention.causal = true;
  const Tensor table = NewTable(graph, options);
  const Scope scope(graph, "decoder");
  return WithHead(Apply(Embedded(tokens, table, options), options.decoder,
                        LastDimension(tokens), options),
                  table, options);
}

LanguageModel EncoderModel(Tensor tokens, SequenceModelOptions options,
                           std::source_location location) {
  if (!tokens.valid()) return {};
  Graph& graph = tokens.graph();
  const CallSiteScope site(graph, location);
  absl::Status status = Check(tokens, options);
  if (status.ok()) status = CheckMask(tokens, options.mask);
  if (!status.ok()) {
    return FailedModel(tokens, status, "encoder_model", location);
  }
  const Dimension length = LastDimension(tokens);
  if (options.mask.valid()) {
    options.encoder.attention.mask =
        Rename(internal::To(kBool, options.mask), length.name, kStackMemory);
  }
  const Tensor table = NewTable(graph, options);
  const Scope scope(graph, "encoder");
  return WithHead(
      Apply(Embedded(tokens, table, options), options.encoder, length, options),
      table, options);
}

LanguageModel EncoderDecoderModel(Tensor tokens, Tensor decoder_tokens,
                                  SequenceModelOptions options,
                                  std::source_location location) {
  if (!tokens.valid()) return {};
  Graph& graph = tokens.graph();
  const CallSiteScope site(graph, location);
  const absl::Status status = CheckBoth(tokens, decoder_tokens, options);
  if (!status.ok()) {
    return FailedModel(tokens, status, "encoder_decoder_model", location);
  }
  const Dimension length = LastDimension(tokens);
  if (options.mask.valid()) {
    const Tensor mask =
        Rename(internal::To(kBool, options.mask), length.name, kStackMemory);
    options.encoder.attention.mask = mask;
    options.decoder.memory_attention.mask = mask;
  }
  options.decoder.attention.causal = true;
  options.decoder.memory_attention.memory_length = {kStackMemory, length.size};
  const Tensor table = NewTable(graph, options);

  Transformer encoded;
  {
    const Scope scope(graph, "encoder");
    encoded = Apply(Embedded(tokens, table, options), options.encoder, length,
                    options);
  }
  const Scope scope(graph, "decoder");
  const Tensor decoder_table =
      options.shared_embedding ? table : NewTable(graph, options);
  const auto to_memory = [&](Tensor x) {
    return Rename(x, length.name, kStackMemory);
  };
  Tensor memory;
  if (options.transparent) {
    options.transparency.ensemble = options.ensemble;
    encoded.states.back() = encoded.output;  // with its norm
    for (const Tensor& each : TransparentMemories(
             encoded.states, options.decoder.layers, options.transparency)) {
      options.decoder.memories.push_back(to_memory(each));
    }
  } else {
    memory = to_memory(encoded.output);
  }
  const Transformer decoded =
      Apply(Embedded(decoder_tokens, decoder_table, options), options.decoder,
            LastDimension(decoder_tokens), options, memory);
  LanguageModel model = WithHead(decoded, decoder_table, options);
  model.experts.insert(model.experts.begin(), encoded.experts.begin(),
                       encoded.experts.end());
  return model;
}

}  // namespace mtf::nn
