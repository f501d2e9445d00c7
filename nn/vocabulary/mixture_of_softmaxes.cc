// SPDX-License-Identifier: Apache-2.0
#include "nn/vocabulary/mixture_of_softmaxes.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/dense.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "nn/layers/softmax.h"
#include "ops/checks.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/split.h"
#include "ops/stack.h"

namespace mtf::nn {
namespace {

constexpr char kGates[] = "gates", kNodes[] = "gate_nodes";

// Checks `x` and the table that is given.
absl::StatusOr<Dimension> Check(Tensor x, const Dimension& vocab, Tensor table,
                                absl::string_view what) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, what));
  MTF_ASSIGN_OR_RETURN(const Dimension d_model,
                       internal::ModelDimension(x, {vocab}));
  if (!table.valid()) return d_model;
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(x.graph(), {x, table}));
  MTF_RETURN_IF_ERROR(internal::CheckFloat(table, "the table"));
  if (table.shape().SameDimensions({vocab, d_model})) return d_model;
  return absl::InvalidArgumentError(absl::StrCat(
      "the table is [", table.shape().ToString(), "], not [",
      Shape({vocab, d_model}).ToString(), "]", DescribeInputs({x, table})));
}

absl::Status CheckMixtape(const Dimension& vocab,
                          const MixtapeOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.d_gate, ".d_gate"));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckBelowOne(".dropout", options.dropout));
  MTF_RETURN_IF_ERROR(mtf::internal::CheckNotNegative(".noise", options.noise));
  if (options.frequent >= -1 && options.frequent <= vocab.size) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      ".frequent is ", options.frequent, ", not in [-1, ", vocab.size, "]"));
}

Tensor TableOf(Tensor given, Tensor x, const Dimension& d_model,
               const Dimension& vocab) {
  if (given.valid()) return internal::To(x.dtype(), given);
  return Kernel(x.graph(), "kernel", {d_model}, {vocab}, x.dtype());
}

// tanh of a linear layer to d_model for each of `parts`: [..., parts, d_model].
Tensor Contexts(Tensor x, const Dimension& d_model, const Dimension& parts,
                bool bias) {
  return Dense(x, {d_model}, {parts, d_model},
               {.bias = bias, .activation = Tanh, .name = "context"});
}

// The weights of four leaves from three nodes: [..., gates].
Tensor SigmoidTree(Tensor nodes) {
  const std::vector<Tensor> s = Unstack(Sigmoid(nodes), kNodes);
  return Stack({s[0] * s[1], s[0] * (1.0 - s[1]), (1.0 - s[0]) * s[2],
                (1.0 - s[0]) * (1.0 - s[2])},
               kGates);
}

Tensor WithDropout(Tensor x, double rate) {
  return rate == 0 ? x : Dropout(x, rate);
}

// The nodes of the trees of all tokens, f32 [..., gate_nodes, vocab].
Tensor GateNodes(Tensor x, const Dimension& d_model, const Dimension& vocab,
                 const MixtapeOptions& options) {
  Graph& graph = x.graph();
  const Dimension nodes{kNodes, 3};
  const int64_t count =
      options.frequent == -1 ? vocab.size / 10 : options.frequent;
  const Dimension frequent{vocab.name, count},
      rare{vocab.name, vocab.size - count};
  const Tensor shared = internal::To(
      kFloat32,
      Dense(x, {d_model}, {nodes}, {.bias = false, .name = "shared"}));
  std::vector<Tensor> parts;
  if (frequent.size > 0) {
    const Tensor hidden =
        WithDropout(Dense(x, {d_model}, {nodes, options.d_gate},
                          {.activation = Tanh, .name = "gate"}),
                    options.dropout);
    const Tensor own =
        internal::To(kFloat32, Dense(hidden, {options.d_gate}, {frequent},
                                     {.bias = false, .name = "frequent"}));
    const Tensor bias =
        Parameter(graph, "frequent_bias",
                  Zeros(graph, kFloat32, {nodes, frequent}), kFloat32);
    parts.push_back(own + shared + bias);
  }
  if (rare.size > 0) {
    parts.push_back(Broadcast(shared, shared.shape().With(rare)));
  }
  Tensor all = Concat(parts, vocab.name);
  if (options.noise > 0 && graph.mode() == Mode::kTrain) {
    all = all + RandomNormal(graph, all.shape(), 0, options.noise);
  }
  return all;
}

}  // namespace

Tensor MixtureOfSoftmaxes(Tensor x, Dimension vocab,
                          MixtureOfSoftmaxesOptions options,
                          std::source_location location) {
  if (!x.valid()) return {};
  LayerScope layer(x.graph(), options.name, location);
  auto d_model = Check(x, vocab, options.table, "mixture_of_softmaxes");
  const Dimension& components = options.components;
  if (d_model.ok() && (components.name.empty() || components.size < 1)) {
    d_model = absl::InvalidArgumentError(
        absl::StrCat("a mixture needs at least one component, not \"",
                     components.name, "\" of ", components.size));
  }
  if (!d_model.ok()) {
    return x.graph().Fail(
        d_model.status(),
        internal::DescribeLayer("mixture_of_softmaxes", options.name), location,
        {vocab});
  }
  x = internal::To(ActivationDType(x), x);
  const Shape positions = x.shape().Without(d_model->name);
  const Tensor prior =
      Dense(x, {*d_model}, {components}, {.bias = false, .name = "prior"});
  const Tensor contexts = Contexts(x, *d_model, components, false);
  const Tensor table = TableOf(options.table, x, *d_model, vocab);
  const Tensor logits =
      Einsum({contexts, table}, positions.With(components).With(vocab));
  const Tensor logs = LogSoftmax(internal::To(kFloat32, logits), vocab) +
                      LogSoftmax(internal::To(kFloat32, prior), components);
  return ReduceLogSumExp(logs, positions.With(vocab));
}

Tensor Mixtape(Tensor x, Dimension vocab, MixtapeOptions options,
               std::source_location location) {
  if (!x.valid()) return {};
  LayerScope layer(x.graph(), options.name, location);
  auto d_model = Check(x, vocab, options.table, "mixtape");
  const absl::Status status = CheckMixtape(vocab, options);
  if (d_model.ok() && !status.ok()) d_model = status;
  if (!d_model.ok()) {
    return x.graph().Fail(d_model.status(),
                          internal::DescribeLayer("mixtape", options.name),
                          location, {vocab});
  }
  x = internal::To(ActivationDType(x), x);
  const Shape positions = x.shape().Without(d_model->name);
  const Dimension gates{kGates, 4};
  const Tensor contexts = Contexts(x, *d_model, gates, true);
  const Tensor table = TableOf(options.table, x, *d_model, vocab);
  const Tensor logits =
      WithDropout(Einsum({contexts, table}, positions.With(gates).With(vocab)),
                  options.dropout);
  const Tensor weights = SigmoidTree(GateNodes(x, *d_model, vocab, options));
  return Einsum({logits, internal::To(logits.dtype(), weights)},
                positions.With(vocab));
}

}  // namespace mtf::nn
