// SPDX-License-Identifier: Apache-2.0
//
// Lesson 5: a layer and an optimizer of one's own.
//
// A layer is a function from tensors to tensors. An optimizer is a function
// from the gradient of a parameter to its new value. Neither mentions a device:
// the layout distributes them like everything else. docs/writing_layers.md
// explains this program; tests/docs checks that it shows the same text.
#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"

namespace mtf {
namespace {

struct GatedLayerOptions {
  double epsilon = 1e-6;
  std::string name = "gated_layer";
};

// A gated feed-forward layer on a normalized input (SwiGLU: Shazeer, 2020):
//
//   y = x / sqrt(mean(x^2) + epsilon) * scale    over "d_model"
//   out(swish(gate(y)) * in(y))
//
//   // [..., d_model] -> [..., d_model]
//   x = x + GatedLayer(x, d_ff);
Tensor GatedLayer(
    Tensor x, Dimension d_ff, GatedLayerOptions options = {},
    std::source_location location = std::source_location::current()) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  nn::LayerScope layer(graph, options.name, location);
  if (!IsFloat(x.dtype()) || !(options.epsilon > 0)) {
    return graph.Fail(
        absl::InvalidArgumentError(absl::StrCat(
            "a gated layer takes floats and a positive .epsilon, not ",
            DTypeName(x.dtype()), " and ", options.epsilon)),
        options.name, location, x.shape());
  }
  const Dimension d_model = x.dim("d_model", location);
  const DType dtype = nn::ActivationDType(x);

  // The norm is computed in f32, whatever the precision of the model.
  Tensor y = Cast(x, kFloat32);
  y = y * Rsqrt(MeanOver(Square(y), {d_model}) + options.epsilon);
  y = y *
      nn::Parameter(graph, "scale", Ones(graph, kFloat32, {d_model}), kFloat32);
  y = Cast(y, dtype);

  Tensor gate = nn::Kernel(graph, "gate", {d_model}, {d_ff}, dtype);
  Tensor in = nn::Kernel(graph, "in", {d_model}, {d_ff}, dtype);
  Tensor out = nn::Kernel(graph, "out", {d_ff}, {d_model}, dtype);
  const Shape hidden = x.shape().Without("d_model").With(d_ff);
  Tensor h = Swish(Einsum({y, gate}, hidden));
  h = h * Einsum({y, in}, hidden);
  return Einsum({h, out}, x.shape());
}

struct LionOptions {
  nn::Schedule learning_rate = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
};

// Lion (Chen et al., 2023): moves each element of a parameter by the learning
// rate, in the direction of an average of its gradients.
//
//   parameter <- parameter - learning_rate *
//                (sign(beta1 * m + (1 - beta1) * g) + weight_decay * parameter)
//   m <- beta2 * m + (1 - beta2) * g
nn::Optimizer Lion(LionOptions o) {
  const auto make_rule = [o](Tensor, Tensor learning_rate) {
    return [o, learning_rate](nn::ParameterUpdate& p) {
      const Tensor m = p.State("m", p.variable.shape);
      p.SetState(m, o.beta2 * m + (1 - o.beta2) * p.gradient);
      Tensor update = Sign(o.beta1 * m + (1 - o.beta1) * p.gradient);
      update = update + p.weight_decay * p.value;
      return p.value - learning_rate * update;
    };
  };
  return nn::Optimizer({.learning_rate = o.learning_rate,
                        .make_rule = make_rule,
                        .weight_decay = o.weight_decay,
                        .name = "lion"});
}

// Two layers learn to double numbers. Returns the losses of ten steps.
absl::StatusOr<std::vector<double>> Losses(const std::string& mesh,
                                           const std::string& layout) {
  const Dimension batch{"batch", 30}, d_model{"d_model", 12}, d_ff{"d_ff", 40};
  Graph graph;
  Tensor x = RandomUniform(graph, {batch, d_model}, -1, 1);
  Tensor y = x + GatedLayer(x, d_ff);
  y = y + GatedLayer(y, d_ff);
  Tensor loss = ReduceMean(Square(y - 2.0 * x), {});
  Tensor step = Lion({.learning_rate = 0.01}).Minimize(loss);

  MTF_ASSIGN_OR_RETURN(const auto session,
                       train::Session::Create(graph, mesh, layout));
  MTF_RETURN_IF_ERROR(session->Initialize());
  std::vector<double> losses;
  for (int i = 0; i < 10; ++i) {
    MTF_ASSIGN_OR_RETURN(const auto values,
                         session->Run({.fetches = {loss}, .updates = {step}}));
    MTF_ASSIGN_OR_RETURN(const double now, values[0].At(0));
    losses.push_back(now);
  }
  return losses;
}

// The losses of a layout must be those of one device, except for rounding.
absl::Status Compare(const std::string& mesh, const std::string& layout) {
  MTF_ASSIGN_OR_RETURN(const std::vector<double> expected, Losses("", ""));
  MTF_ASSIGN_OR_RETURN(const std::vector<double> actual, Losses(mesh, layout));
  for (size_t i = 0; i < actual.size(); ++i) {
    // Not "greater than": a NaN is an error, too.
    if (!(std::abs(actual[i] - expected[i]) <= 1e-5 * expected[i])) {
      return absl::InternalError(absl::StrCat(
          "the loss of step ", i, " is ", actual[i], ", not ", expected[i]));
    }
  }
  std::cout << absl::StrFormat("%.3f to %.3f on %s, %s\n", actual.front(),
                               actual.back(), mesh, layout);
  return absl::OkStatus();
}

absl::Status Lesson() {
  MTF_RETURN_IF_ERROR(Compare("data:2", "batch:data"));
  MTF_RETURN_IF_ERROR(Compare("model:3", "d_ff:model"));  // 40 / 3 is uneven
  MTF_RETURN_IF_ERROR(Compare("model:2", "d_model:model"));
  MTF_RETURN_IF_ERROR(Compare("data:2,model:2", "batch:data, d_ff:model"));
  // Parameters and the state of Lion are sharded over the data axis, too.
  return Compare("data:4",
                 "batch:data [parameters] d_ff:data [optimizer] d_ff:data");
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Lesson 5: a layer and an optimizer.",
                             &mtf::Lesson);
}
