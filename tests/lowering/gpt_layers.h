// SPDX-License-Identifier: Apache-2.0
//
// A GPT whose program every published layout can shard, at any size: in
// lowering sizes are only numbers. Dimensions are renamed where a published
// layout shards a tensor differently than before, so that a rule can give the
// new name another axis. If both names have the same rule, the rename is free.
//
//   [batch, length, d_model]              between blocks
//   [batch, inner_length, ...]            inside a block: a sequence parallel
//                                         layout shards length, not this one
//   [batch, core_length, core_heads, d_kv]
//                                         inside attention, which an all-to-all
//                                         layout shards over heads instead
//   [batch, slots, capacity, d_model]     tokens on their way to the experts
//   [group, experts, capacity, d_model]   tokens at their expert
#ifndef TESTS_LOWERING_GPT_LAYERS_H_
#define TESTS_LOWERING_GPT_LAYERS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/graph.h"
#include "nn/attention/attention.h"
#include "nn/layers/embedding.h"
#include "nn/layers/layer_norm.h"
#include "nn/layers/softmax.h"
#include "nn/losses/cross_entropy.h"
#include "nn/optimizers/adam.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/one_hot.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/stop_gradient.h"
#include "ops/variable.h"

namespace mtf::testing {

struct GptSizes {
  int layers = 1;
  int64_t batch = 1, length = 2048, d_model = 12288, heads = 96, vocab = 51200;
  // A layer has 12 d_model^2 weights, as in most formulas; with biases also 13
  // d_model in biases and layer norms, and positions, as in GPT-2.
  bool biases = false;
  DType dtype = kBFloat16;       // of activations and gradients
  DType parameters = kBFloat16;  // of stored parameters
  // The dtype of the optimizer's master copies and of gradients; see
  // mtf/precision.h.
  std::optional<DType> master = std::nullopt, gradients = std::nullopt;
  double dropout = 0;
  // Feed-forward layers with experts: each token goes to `choices` of them, and
  // each expert takes length * choices / experts tokens of an example (a
  // capacity factor of 1).
  int64_t experts = 0, choices = 2;

  int64_t d_kv() const { return d_model / heads; }
  int64_t d_ff() const { return 4 * d_model; }
  int64_t capacity() const { return length * choices / experts; }
};

struct Gpt {
  Tensor tokens, targets, loss, step;
};

class GptBuilder {
 public:
  GptBuilder(Graph& graph, const GptSizes& sizes)
      : graph_(graph), sizes_(sizes) {}

  // Parameters and activations are bf16 or f32.
  Gpt Build() {
    Gpt gpt;
    gpt.tokens = Input(graph_, "tokens", kInt32, {batch_, inner_length_});
    gpt.targets = Input(graph_, "targets", kInt32, {batch_, inner_length_});
    const Tensor table = Weight("table", {vocab_, d_model_}, 0.02);
    Tensor x = nn::Embedding(gpt.tokens, vocab_, d_model_,
                             {.dtype = sizes_.dtype, .table = table});
    if (sizes_.biases) {
      x = x + Used(Weight("positions", {inner_length_, d_model_}, 0.02));
    }
    x = Leave(x);
    for (int layer = 0; layer < sizes_.layers; ++layer) {
      Scope scope(graph_, absl::StrCat("layer_", layer));
      x = x + Dropped(Leave(Attention(Enter(Norm(x, "norm_1")))));
      if (sizes_.experts > 0) {
        x = x + Dropped(Experts(Norm(x, "norm_2")));
      } else {
        x = x + Dropped(Leave(FeedForward(Enter(Norm(x, "norm_2")))));
      }
    }
    gpt.loss = nn::CrossEntropy(Enter(Norm(x, "norm")), vocab_, gpt.targets,
                                {.kernel = table});
    return gpt;
  }

 private:
  // A parameter, normal around `mean`.
  Tensor Weight(absl::string_view name, const Shape& shape, double stddev,
                double mean = 0) {
    const Tensor initial =
        RandomNormal(graph_, shape, mean, stddev,
                     {.per_step = false,
                      .dtype = sizes_.master.value_or(sizes_.parameters)});
    return Variable(
        graph_, name, initial,
        {.dtype = sizes_.parameters, .gradient_dtype = sizes_.gradients});
  }
  Tensor Used(Tensor weight) {
    return weight.dtype() == sizes_.dtype ? weight : Cast(weight, sizes_.dtype);
  }
  Tensor Project(Tensor x, absl::string_view name, const Shape& from,
                 const Shape& to) {
    Shape kept = x.shape(), shape = from;
    for (const Dimension& dim : from) kept = kept.Without(dim.name);
    for (const Dimension& dim : to) {
      kept = kept.With(dim);
      shape = shape.With(dim);
    }
    Tensor y = Einsum(
        {x, Used(Weight(absl::StrCat(name, "/kernel"), shape, 0.02))}, kept);
    if (!sizes_.biases) return y;
    return y + Used(Weight(absl::StrCat(name, "/bias"), to, 0.02));
  }
  Tensor Norm(Tensor x, absl::string_view name) {
    const Tensor y =
        nn::LayerNorm(x, d_model_, {.scale = false, .bias = false});
    if (!sizes_.biases) return y;
    return y * Used(Weight(absl::StrCat(name, "/scale"), {d_model_}, 0.02, 1)) +
           Used(Weight(absl::StrCat(name, "/bias"), {d_model_}, 0.02));
  }
  Tensor Dropped(Tensor x) {
    return sizes_.dropout == 0 ? x : Dropout(x, sizes_.dropout);
  }
  Tensor Enter(Tensor x) { return Rename(x, "length", "inner_length"); }
  Tensor Leave(Tensor x) { return Rename(x, "inner_length", "length"); }

  Tensor Attention(Tensor x) {
    Scope scope(graph_, "attention");
    const auto project = [&](const char* name, const char* length) {
      const Tensor y = Project(x, name, {d_model_}, {heads_, d_kv_});
      return Rename(Rename(y, "inner_length", length), "heads", "core_heads");
    };
    const Tensor q = project("query", "core_length"),
                 k = project("key", "memory_length"),
                 v = project("value", "memory_length");
    const Tensor y = nn::DotProductAttention(
        q, k, v,
        {.length = {"core_length", sizes_.length},
         .memory_length = {"memory_length", sizes_.length},
         .d_kv = d_kv_,
         .causal = true,
         .dropout = sizes_.dropout});
    return Project(
        Rename(Rename(y, "core_heads", "heads"), "core_length", "inner_length"),
        "output", {heads_, d_kv_}, {d_model_});
  }

  Tensor FeedForward(Tensor x) {
    Scope scope(graph_, "feed_forward");
    return Project(Gelu(Project(x, "in", {d_model_}, {d_ff_})), "out", {d_ff_},
                   {d_model_});
  }

  // Tokens choose their experts and are sent there and back (Lepikhin et al.,
  // 2020): dispatch and combine are [batch, length, slots, capacity], 1 or the
  // weight of the choice where a token occupies the slot.
  Tensor Experts(Tensor x) {
    Scope scope(graph_, "experts");
    const Dimension slots{"slots", sizes_.experts},
        experts{"experts", sizes_.experts},
        capacity{"capacity", sizes_.capacity()}, group{"group", sizes_.batch},
        earlier{"earlier", sizes_.length};
    const Shape routing_shape = {batch_, length_, slots};
    const Tensor logits = Einsum(
        {x, Used(Weight("router", {d_model_, slots}, 0.02))}, routing_shape);
    const Tensor weights = nn::Softmax(Cast(logits, kFloat32), slots);
    const Tensor is_earlier =
        Cast(Less(Range(graph_, earlier), Range(graph_, length_)), kFloat32);
    Tensor remaining = StopGradient(weights), used, dispatch, combine;
    for (int64_t choice = 0; choice < sizes_.choices; ++choice) {
      // The best remaining expert, the first of equals.
      const Tensor best = ReduceMax(remaining, {batch_, length_});
      const Tensor index = ReduceMin(
          Select(Equal(remaining, best), Range(graph_, slots),
                 Constant(graph_, static_cast<double>(slots.size), kInt32, {})),
          {batch_, length_});
      const Tensor chosen = OneHot(index, slots);
      remaining = Select(Equal(index, Range(graph_, slots)), -1.0, remaining);
      // Its index in the capacity: the number of tokens before it, by length
      // and by choice.
      Tensor before = Einsum({Rename(chosen, "length", "earlier"), is_earlier},
                             routing_shape);
      const Tensor count = ReduceSum(chosen, {batch_, slots});
      if (used.valid()) before = before + used;
      used = used.valid() ? used + count : count;
      const Tensor position =
          Cast(ReduceSum(before * chosen, {batch_, length_}), kInt32);
      const Tensor sent = chosen * OneHot(position, capacity);
      const Tensor weighed =
          ReduceSum(weights * chosen, {batch_, length_}) * sent;
      dispatch = dispatch.valid() ? dispatch + sent : sent;
      combine = combine.valid() ? combine + weighed : weighed;
    }
    // Renames via [group, slots]: no tensor has both batch and experts.
    const auto move = [](Tensor y, const char* from, const char* to,
                         const char* then_from, const char* then_to) {
      return Rename(Rename(y, from, to), then_from, then_to);
    };
    const Tensor sent = move(Einsum({x, StopGradient(To(dispatch))},
                                    {batch_, slots, capacity, d_model_}),
                             "batch", "group", "slots", "experts");
    const Tensor hidden = Gelu(Einsum(
        {sent, Used(Weight("in/kernel", {experts, d_model_, d_ff_}, 0.02))},
        {group, experts, capacity, d_ff_}));
    const Tensor back = move(
        Einsum({hidden,
                Used(Weight("out/kernel", {experts, d_ff_, d_model_}, 0.02))},
               {group, experts, capacity, d_model_}),
        "experts", "slots", "group", "batch");
    return Einsum({back, To(combine)}, x.shape());
  }
  Tensor To(Tensor x) {
    return x.dtype() == sizes_.dtype ? x : Cast(x, sizes_.dtype);
  }

  Graph& graph_;
  const GptSizes sizes_;
  const Dimension batch_{"batch", sizes_.batch},
      length_{"length", sizes_.length},
      inner_length_{"inner_length", sizes_.length},
      d_model_{"d_model", sizes_.d_model}, heads_{"heads", sizes_.heads},
      d_kv_{"d_kv", sizes_.d_kv()}, d_ff_{"d_ff", sizes_.d_ff()},
      vocab_{"vocab", sizes_.vocab};
};

// The loss, and a step of AdamW.
inline Gpt BuildGpt(Graph& graph, const GptSizes& sizes) {
  Gpt gpt = GptBuilder(graph, sizes).Build();
  gpt.step = nn::AdamW({.learning_rate = 3e-3}).Minimize(gpt.loss);
  return gpt;
}

// The layouts of the literature in the names of this program.
namespace gpt_layouts {
inline constexpr char kData[] = "batch:data";
// Optimizer state is stored in shards (Rajbhandari et al., 2020, stages 1 and
// 2).
inline constexpr char kZero1[] = "batch:data [optimizer] d_model:data";
inline constexpr char kZero3[] =
    "batch:data [parameters] d_model:data [optimizer] d_model:data";
inline constexpr char kZero3KeepGathered[] =
    "batch:data [parameters keep_gathered] d_model:data "
    "[optimizer] d_model:data";
inline constexpr char kMegatron[] =
    "heads:model, core_heads:model, d_ff:model, vocab:model";
// Korthikanti et al., 2022.
inline constexpr char kSequence[] =
    "length:model, heads:model, core_heads:model, d_ff:model, vocab:model";
inline constexpr char kTwoAxes[] =
    "batch:data, heads:model, core_heads:model, d_ff:model, vocab:model";
// The weights are sharded over both axes.
inline constexpr char kTwoAxesOfWeights[] =
    "batch:data, heads:model, core_heads:model, d_ff:model, vocab:model "
    "[parameters] d_model:data [optimizer] d_model:data";
inline constexpr char kExperts[] = "batch:data, experts:data";
// Jacobs et al., 2023: shards the length outside attention, heads inside.
inline constexpr char kAllToAll[] =
    "length:model, inner_length:model, core_heads:model";
}  // namespace gpt_layouts

}  // namespace mtf::testing

#endif  // TESTS_LOWERING_GPT_LAYERS_H_
