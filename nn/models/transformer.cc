// SPDX-License-Identifier: Apache-2.0
#include "nn/models/transformer.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/gradient_control.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_norm.h"
#include "nn/layers/regularization.h"
#include "nn/layers/reversible.h"
#include "nn/layers/rezero.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/one_hot.h"
#include "ops/random.h"

namespace mtf::nn {
namespace {

absl::Status CheckMemory(Tensor x, Tensor memory) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(x.graph(), {x, memory}));
  if (memory.shape().rank() >= 2) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the memory needs a length and a model dimension",
                   DescribeInputs({memory})));
}

bool Has(const TransformerOptions& options, StackLayer kind) {
  for (const StackSublayer& sublayer : options.sublayers) {
    const auto* known = std::get_if<StackLayer>(&sublayer);
    if (known != nullptr && *known == kind) return true;
  }
  return false;
}

// Checks combinations of options. The sublayers are given.
absl::Status CheckSublayers(const TransformerOptions& options) {
  for (const StackSublayer& sublayer : options.sublayers) {
    const auto* function = std::get_if<StackFunction>(&sublayer);
    if (function == nullptr || *function != nullptr) continue;
    return absl::InvalidArgumentError("a function of .sublayers is null");
  }
  if (Has(options, StackLayer::kMemoryAttention) && options.memories.empty()) {
    return absl::InvalidArgumentError(
        "a layer attends to a memory, but there is none\n  help     pass the "
        "result of an encoder, or leave out kMemoryAttention");
  }
  const bool experts =
      Has(options, StackLayer::kExperts) ||
      (Has(options, StackLayer::kFeedForward) && !options.experts.name.empty());
  if (experts) {
    MTF_RETURN_IF_ERROR(internal::CheckGiven(options.experts, ".experts"));
  }
  if (experts || Has(options, StackLayer::kFeedForward)) {
    MTF_RETURN_IF_ERROR(internal::CheckGiven(options.d_ff, ".d_ff"));
  }
  if (experts && !options.ensemble.name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a stack with the ensemble \"", options.ensemble.name,
                     "\" has experts, which have no kernels by member"));
  }
  if (!options.reversible) return absl::OkStatus();
  if (experts) {
    return absl::InvalidArgumentError(
        "a reversible stack has experts, whose losses would keep activations");
  }
  if (options.residual.position == NormPosition::kAfter) {
    return absl::InvalidArgumentError(
        "a reversible stack has norms after its sublayers, but residual sums "
        "must be the results of layers\n  help     set .residual.position to "
        "kBefore or kAround");
  }
  return absl::OkStatus();
}

absl::Status CheckStack(Tensor x, const TransformerOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "a stack of layers"));
  for (const Tensor& memory : options.memories) {
    MTF_RETURN_IF_ERROR(CheckMemory(x, memory));
  }
  if (options.layers < 0 || options.experts_every < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        ".layers is ", options.layers, " and .experts_every ",
        options.experts_every, ", but they must be at least 0 and 1"));
  }
  return CheckSublayers(options);
}

// The options for attention to `memory`, with what is left out.
AttentionOptions ToMemory(const TransformerOptions& options, Tensor memory) {
  AttentionOptions to = options.memory_attention;
  const auto complete = [](Dimension& dim, const Dimension& otherwise) {
    if (dim.name.empty()) dim = otherwise;
  };
  complete(to.length, options.attention.length);
  if (to.heads.name.empty()) to.groups = options.attention.groups;
  complete(to.heads, options.attention.heads);
  complete(to.d_kv, options.attention.d_kv);
  complete(to.memory_length,
           {"memory_length", memory.shape()[memory.shape().rank() - 2].size});
  if (to.name == AttentionOptions().name) to.name = "attention_to_memory";
  return to;
}

// The bias of relative positions for all layers, or the one that is given.
Tensor SharedBias(Graph& graph, const TransformerOptions& options) {
  const AttentionOptions& attention = options.attention;
  if (!options.relative_positions) return attention.position_bias;
  const std::string memory_length = attention.memory_length.name.empty()
                                        ? "memory_length"
                                        : attention.memory_length.name;
  // Layouts may shard both lengths over one axis, as for a ring.
  const AxisConflictScope conflict(
      graph, {.yielding = {memory_length},
              .sharded = {attention.length.name, attention.heads.name}});
  const Tensor positions = Range(graph, attention.length);
  const Tensor memory_positions =
      Range(graph, {memory_length, attention.length.size});
  // The name for which layouts have rules of attention.
  RelativePositionOptions relative = *options.relative_positions;
  if (relative.name == RelativePositionOptions().name) {
    relative.name = "attention_bias";
  }
  const Tensor bias = RelativePositionBias(positions, memory_positions,
                                           attention.heads, relative);
  if (!attention.position_bias.valid()) return bias;
  return bias + attention.position_bias;
}

// The result of a sublayer before it is added to `x`.
Tensor Branch(Tensor x, const Sublayer& sublayer,
              const ResidualOptions& options, std::source_location location) {
  if (options.position != NormPosition::kAfter) {
    x = Norm(x, options.norm, location);
  }
  if (options.mask.valid()) x = x * Cast(options.mask, x.dtype());
  Tensor y = sublayer(x);
  if (options.position == NormPosition::kAround) {
    y = Norm(y, options.norm, location);
  }
  if (options.clip_gradient != 0) {
    y = ClipActivationGradient(y, options.clip_gradient, location);
  }
  if (options.dropout_rate.valid()) {
    y = AnnealedDropout(y, options.dropout_rate, location);
  } else if (options.dropout != 0) {
    y = Dropout(y, options.dropout, {}, location);
  }
  if (!options.rezero) return y;
  return Rezero(y, {.each = options.norm.each}, location);
}

// Gives the parameters of all layers the dimension of the ensemble.
void SetEnsemble(TransformerOptions& options) {
  if (options.ensemble.name.empty()) return;
  const Shape each = {options.ensemble};
  options.attention.each = each;
  options.memory_attention.each = each;
  options.feed_forward.each = each;
  options.residual.norm.each = each;
  if (options.relative_positions) options.relative_positions->each = each;
}

// The sublayers of a stack as functions. A copy can outlive the call.
class StackLayers {
 public:
  StackLayers(TransformerOptions options, std::vector<AttentionOptions> to)
      : options_(std::move(options)), to_memories_(std::move(to)) {}

  // Applies sublayer `index` of `layer`. Appends to `experts` if not null.
  Tensor Apply(Tensor x, int64_t layer, size_t index,
               std::vector<Experts>* experts) const {
    const StackSublayer& sublayer = options_.sublayers[index];
    const size_t m = MemoryOf(layer);
    if (const auto* function = std::get_if<StackFunction>(&sublayer)) {
      const Tensor memory =
          options_.memories.empty() ? Tensor() : options_.memories[m];
      return (*function)(x, {.layer = layer, .memory = memory});
    }
    const StackLayer kind = std::get<StackLayer>(sublayer);
    if (kind == StackLayer::kSelfAttention) {
      return SelfAttention(x, options_.attention);
    }
    if (kind == StackLayer::kMemoryAttention) {
      return MultiHeadAttention(x, options_.memories[m], to_memories_[m]);
    }
    const bool has_experts = kind == StackLayer::kExperts ||
                             (!options_.experts.name.empty() &&
                              (layer + 1) % options_.experts_every == 0);
    if (!has_experts || experts == nullptr) {
      return FeedForward(x, options_.d_ff, options_.activation,
                         options_.feed_forward);
    }
    experts->push_back(MixtureOfExperts(x, options_.experts, options_.d_ff,
                                        options_.activation, options_.routing));
    return experts->back().output;
  }

  const TransformerOptions& options() const { return options_; }

 private:
  // The index of the memory of a layer.
  size_t MemoryOf(int64_t layer) const {
    return static_cast<size_t>(layer) * options_.memories.size() /
           static_cast<size_t>(options_.layers);
  }

  TransformerOptions options_;
  std::vector<AttentionOptions> to_memories_;  // by memory
};

// The layers one after the other.
void AddLayers(const StackLayers& layers, Transformer& result,
               std::source_location location) {
  const TransformerOptions& options = layers.options();
  Tensor x = result.output;
  for (int64_t i = 0; i < options.layers; ++i) {
    const Scope scope(x.graph(), absl::StrCat("layer_", i));
    for (size_t j = 0; j < options.sublayers.size(); ++j) {
      x = Residual(
          x, [&](Tensor y) { return layers.Apply(y, i, j, &result.experts); },
          options.residual, location);
    }
    result.states.push_back(x);
  }
  result.output = x;
}

// The same on two streams, in the order of ReversibleStack.
Tensor AddReversibleLayers(Tensor x, const StackLayers& layers,
                           std::source_location location) {
  const TransformerOptions& options = layers.options();
  const auto shared = std::make_shared<const StackLayers>(layers);
  std::vector<std::function<Tensor(Tensor)>> functions;
  for (int64_t i = 0; i < options.layers; ++i) {
    for (size_t j = 0; j < options.sublayers.size(); ++j) {
      functions.emplace_back([shared, i, j, location](Tensor half) {
        const Scope scope(half.graph(), absl::StrCat("layer_", i));
        return Branch(
            half, [&](Tensor y) { return shared->Apply(y, i, j, nullptr); },
            shared->options().residual, location);
      });
    }
  }
  const auto [y1, y2] = ReversibleStack(x, x, std::move(functions), location);
  return y1 + y2;
}

}  // namespace

Tensor Norm(Tensor x, NormOptions options, std::source_location location) {
  if (!x.valid() || options.kind == NormKind::kNone) return x;
  const auto dim = internal::ModelDimension(x);
  if (!dim.ok()) {
    return x.graph().Fail(dim.status(), "norm", location, x.shape(), x.dtype());
  }
  switch (options.kind) {
    case NormKind::kRmsNorm:
      return RmsNorm(
          x, *dim,
          {.epsilon = options.epsilon.value_or(RmsNormOptions().epsilon),
           .each = options.each},
          location);
    case NormKind::kScaleNorm:
      return ScaleNorm(
          x, *dim,
          {.epsilon = options.epsilon.value_or(ScaleNormOptions().epsilon),
           .each = options.each},
          location);
    case NormKind::kLayerNorm:
    case NormKind::kNone:
      break;
  }
  return LayerNorm(
      x, *dim,
      {.epsilon = options.epsilon.value_or(LayerNormOptions().epsilon),
       .bias = options.bias,
       .each = options.each},
      location);
}

Tensor Residual(Tensor x, const Sublayer& sublayer, ResidualOptions options,
                std::source_location location) {
  if (!x.valid()) return {};
  const CallSiteScope site(x.graph(), location);
  x = x + Branch(x, sublayer, options, location);
  return options.position == NormPosition::kAfter
             ? Norm(x, options.norm, location)
             : x;
}

Transformer TransformerStack(Tensor x, TransformerOptions options,
                             Tensor memory, std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  const CallSiteScope site(graph, location);
  absl::Status status;
  if (memory.valid()) {
    if (!options.memories.empty()) {
      status = absl::InvalidArgumentError(
          absl::StrCat("a memory is given besides ", options.memories.size(),
                       " .memories", DescribeInputs({memory})));
    }
    options.memories = {memory};
  }
  if (options.sublayers.empty()) {
    options.sublayers = {StackLayer::kSelfAttention};
    if (!options.memories.empty()) {
      options.sublayers.emplace_back(StackLayer::kMemoryAttention);
    }
    options.sublayers.emplace_back(StackLayer::kFeedForward);
  }
  if (status.ok()) status = CheckStack(x, options);
  if (!status.ok()) {
    return {
        graph.Fail(status, "transformer_stack", location, x.shape(), x.dtype()),
        {}};
  }
  SetEnsemble(options);
  std::vector<AttentionOptions> to_memories;
  for (const Tensor& each : options.memories) {
    to_memories.push_back(ToMemory(options, each));
  }
  options.attention.position_bias = SharedBias(graph, options);
  options.routing.feed_forward = options.feed_forward;
  const NormOptions final_norm = options.residual.norm;

  const StackLayers layers(options, std::move(to_memories));
  Transformer result = {x, {}};
  if (options.reversible) {
    result.output = AddReversibleLayers(x, layers, location);
  } else {
    result.states = {x};
    AddLayers(layers, result, location);
  }
  if (options.final_norm) {
    result.output = Norm(result.output, final_norm, location);
  }
  if (options.dropout != 0) {
    result.output = Dropout(result.output, options.dropout, {}, location);
  }
  return result;
}

}  // namespace mtf::nn
