// SPDX-License-Identifier: Apache-2.0
//
// A GPT that keeps less of its forward pass than the backward pass reads and
// rematerializes the rest: an ordinary program whose backward pass is assembled
// from calls of Gradients.
#ifndef TESTS_LOWERING_GPT_RECOMPUTE_H_
#define TESTS_LOWERING_GPT_RECOMPUTE_H_

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ops/gradients.h"
#include "tests/lowering/gpt_layers.h"

namespace mtf::testing {

// What is rematerialized (Korthikanti et al., 2022).
enum class Recompute {
  kNothing,
  kAttention,  // logits, softmax, its dropout and the product with the values
  kLayer,      // everything: only the input of a layer is kept
};

struct RecomputeOptions {
  Recompute what = Recompute::kLayer;
  // Keeps values that enter a block as they are between blocks; the backward
  // pass gathers them again.
  bool enter_again = false;
};

class RecomputingGpt {
 public:
  RecomputingGpt(Graph& graph, const GptSizes& sizes,
                 const RecomputeOptions& options)
      : graph_(graph), sizes_(sizes), options_(options) {}

  // The loss and a step of AdamW, as BuildGpt has them.
  Gpt Build() {
    Gpt gpt;
    gpt.tokens = Input(graph_, "tokens", kInt32, {batch_, inner_length_});
    gpt.targets = Input(graph_, "targets", kInt32, {batch_, inner_length_});
    const Tensor table = Weight("table", {vocab_, d_model_});
    const Tensor embedded = Leave(nn::Embedding(
        gpt.tokens, vocab_, d_model_, {.dtype = sizes_.dtype, .table = table}));
    std::vector<Layer> layers;
    Tensor x = embedded;
    for (int i = 0; i < sizes_.layers; ++i) {
      Scope scope(graph_, absl::StrCat("layer_", i));
      layers.push_back(Forward(x));
      x = layers.back().x_out;
    }
    if (options_.what != Recompute::kNothing) x = StopGradient(x);
    gpt.loss = nn::CrossEntropy(Enter(Norm(x)), vocab_, gpt.targets,
                                {.kernel = table});
    if (options_.what == Recompute::kNothing) {
      for (const VariableInfo& info : graph_.variables()) {
        parameters_.push_back(info.read);
      }
      gradients_ = Gradients(gpt.loss, parameters_);
    } else {
      const std::vector<Tensor> top = Gradients(gpt.loss, {x, table});
      Tensor dx = top[0];
      for (int i = sizes_.layers - 1; i >= 0; --i) {
        Scope scope(graph_, absl::StrCat("layer_", i));
        dx = Backward(layers[i], dx);
      }
      Add(table, top[1] + Gradients(embedded, {table}, dx)[0]);
    }
    gpt.step =
        nn::AdamW({.learning_rate = 3e-3}).Apply(gradients_, parameters_);
    return gpt;
  }

  // The gradient of each of parameters(), in the same order.
  const std::vector<Tensor>& gradients() const { return gradients_; }
  const std::vector<Tensor>& parameters() const { return parameters_; }

 private:
  // Values of a forward pass, each detached from its operands: gradients end
  // there.
  struct Layer {
    Tensor x_in;
    Tensor query, key, value, output, in, out;   // kernels
    Tensor keep_weights, keep_middle, keep_out;  // masks of dropouts
    Tensor norm_1, entered_1, q, k, v, attended, x_middle;
    Tensor norm_2, entered_2, hidden, activated, x_out;
  };

  Tensor Weight(absl::string_view name, const Shape& shape) {
    return Variable(
        graph_, name,
        RandomNormal(graph_, shape, 0, 0.02,
                     {.per_step = false,
                      .dtype = sizes_.master.value_or(sizes_.parameters)}),
        {.dtype = sizes_.parameters, .gradient_dtype = sizes_.gradients});
  }
  Tensor Enter(Tensor x) { return Rename(x, "length", "inner_length"); }
  Tensor Leave(Tensor x) { return Rename(x, "inner_length", "length"); }
  Tensor Norm(Tensor x) {
    return nn::LayerNorm(x, d_model_, {.scale = false, .bias = false});
  }
  Tensor Keep(const Shape& shape) {
    if (sizes_.dropout == 0) return {};
    return GreaterEqual(RandomUniform(graph_, shape, 0, 1), sizes_.dropout);
  }
  Tensor Dropped(Tensor x, Tensor keep) {
    return keep.valid() ? Select(keep, x * (1 / (1 - sizes_.dropout)), 0.0) : x;
  }
  Tensor Project(Tensor x, Tensor kernel, const Shape& rows, const Shape& to) {
    Shape shape = rows;
    for (const Dimension& dim : to) shape = shape.With(dim);
    return Einsum({x, kernel}, shape);
  }
  // [batch, heads, queries, keys], then [batch, queries, heads, d_kv].
  Tensor Attend(const Layer& layer, Tensor q, Tensor k, Tensor v) {
    Scope scope(graph_, "core");
    const Shape shape = {batch_, heads_, inner_length_, memory_length_};
    const Tensor scaled = q * (1 / std::sqrt(double(sizes_.d_kv())));
    const Tensor logits = Cast(
        Einsum({scaled, Rename(k, "inner_length", "memory_length")}, shape),
        kFloat32);
    const Tensor sees =
        LessEqual(Range(graph_, memory_length_), Range(graph_, inner_length_));
    const Tensor weights = Cast(
        nn::Softmax(Select(sees, logits, -1e30), memory_length_), sizes_.dtype);
    return Einsum({Dropped(weights, layer.keep_weights),
                   Rename(v, "inner_length", "memory_length")},
                  {batch_, inner_length_, heads_, d_kv_});
  }
  // The contributions of the blocks to the residual stream.
  Tensor Middle(const Layer& layer, Tensor attended) {
    return Dropped(Leave(Project(attended, layer.output,
                                 {batch_, inner_length_}, {d_model_})),
                   layer.keep_middle);
  }
  Tensor Out(const Layer& layer, Tensor activated) {
    return Dropped(Leave(Project(activated, layer.out, {batch_, inner_length_},
                                 {d_model_})),
                   layer.keep_out);
  }

  // Computes a layer from its input; `detach` ends gradients at each value.
  void Run(Layer& layer, bool detach) {
    const auto end = [&](Tensor x) { return detach ? StopGradient(x) : x; };
    const Shape rows = {batch_, inner_length_}, heads = {heads_, d_kv_};
    layer.norm_1 = end(Norm(layer.x_in));
    layer.entered_1 = end(Enter(layer.norm_1));
    layer.q = end(Project(layer.entered_1, layer.query, rows, heads));
    layer.k = end(Project(layer.entered_1, layer.key, rows, heads));
    layer.v = end(Project(layer.entered_1, layer.value, rows, heads));
    layer.attended = end(Attend(layer, layer.q, layer.k, layer.v));
    layer.x_middle = end(layer.x_in + Middle(layer, layer.attended));
    layer.norm_2 = end(Norm(layer.x_middle));
    layer.entered_2 = end(Enter(layer.norm_2));
    layer.hidden = end(Project(layer.entered_2, layer.in, rows, {d_ff_}));
    layer.activated = end(Gelu(layer.hidden));
    layer.x_out = layer.x_middle + Out(layer, layer.activated);
  }

  Layer Forward(Tensor x) {
    const Shape heads = {d_model_, heads_, d_kv_}, between = x.shape();
    Layer layer;
    layer.x_in = options_.what == Recompute::kNothing ? x : StopGradient(x);
    layer.query = Weight("query", heads);
    layer.key = Weight("key", heads);
    layer.value = Weight("value", heads);
    layer.output = Weight("output", {heads_, d_kv_, d_model_});
    layer.in = Weight("in", {d_model_, d_ff_});
    layer.out = Weight("out", {d_ff_, d_model_});
    layer.keep_weights = Keep({batch_, heads_, inner_length_, memory_length_});
    layer.keep_middle = Keep(between);
    layer.keep_out = Keep(between);
    Run(layer, options_.what == Recompute::kAttention);
    return layer;
  }

  void Add(Tensor parameter, Tensor gradient) {
    parameters_.push_back(parameter);
    gradients_.push_back(gradient);
  }

  // The gradient of `y` with respect to `x`; adds the gradients of `kernels`.
  Tensor Back(Tensor y, Tensor x, Tensor dy, std::vector<Tensor> kernels = {}) {
    std::vector<Tensor> to = kernels;
    to.push_back(x);
    const std::vector<Tensor> gradients = Gradients(y, to, dy);
    for (size_t i = 0; i < kernels.size(); ++i) Add(kernels[i], gradients[i]);
    return gradients.back();
  }

  // The gradient of the layer's input; adds those of its kernels.
  Tensor Backward(const Layer& kept, Tensor dx) {
    if (options_.what == Recompute::kLayer) {
      Layer again = kept;
      Run(again, false);
      return Back(
          again.x_out, kept.x_in, dx,
          {kept.query, kept.key, kept.value, kept.output, kept.in, kept.out});
    }
    const Shape rows = {batch_, inner_length_}, heads = {heads_, d_kv_};
    const auto entered = [&](Tensor kept_gathered, Tensor norm) {
      return options_.enter_again ? Enter(norm) : kept_gathered;
    };
    const Tensor dactivated =
        Back(Out(kept, kept.activated), kept.activated, dx, {kept.out});
    const Tensor dhidden = Back(Gelu(kept.hidden), kept.hidden, dactivated);
    const Tensor entered_2 = entered(kept.entered_2, kept.norm_2);
    const Tensor dentered_2 = Back(Project(entered_2, kept.in, rows, {d_ff_}),
                                   entered_2, dhidden, {kept.in});
    dx = dx + Back(Norm(kept.x_middle), kept.x_middle, Leave(dentered_2));

    const Tensor dattended =
        Back(Middle(kept, kept.attended), kept.attended, dx, {kept.output});
    const std::vector<Tensor> dqkv =
        Gradients(Attend(kept, kept.q, kept.k, kept.v),
                  {kept.q, kept.k, kept.v}, dattended);
    const Tensor entered_1 = entered(kept.entered_1, kept.norm_1);
    const auto back = [&](Tensor kernel, Tensor dy) {
      return Back(Project(entered_1, kernel, rows, heads), entered_1, dy,
                  {kernel});
    };
    const Tensor dentered_1 = back(kept.query, dqkv[0]) +
                              back(kept.key, dqkv[1]) +
                              back(kept.value, dqkv[2]);
    return dx + Back(Norm(kept.x_in), kept.x_in, Leave(dentered_1));
  }

  Graph& graph_;
  const GptSizes sizes_;
  const RecomputeOptions options_;
  std::vector<Tensor> parameters_, gradients_;
  const Dimension batch_{"batch", sizes_.batch},
      inner_length_{"inner_length", sizes_.length},
      memory_length_{"memory_length", sizes_.length},
      d_model_{"d_model", sizes_.d_model}, heads_{"heads", sizes_.heads},
      d_kv_{"d_kv", sizes_.d_kv()}, d_ff_{"d_ff", sizes_.d_ff()},
      vocab_{"vocab", sizes_.vocab};
};

}  // namespace mtf::testing

#endif  // TESTS_LOWERING_GPT_RECOMPUTE_H_
