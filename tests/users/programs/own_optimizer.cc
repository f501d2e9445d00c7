// SPDX-License-Identifier: Apache-2.0
//
// An optimizer of one's own with two states for each parameter: Adam that
// averages the second moment over rows, as in Adam-mini (Zhang et al., 2024).
//
// Layout: data:2 | batch:data
// Layout: data:2,model:2 | batch:data, hidden:model
// Layout: data:3 | batch:data [parameters] hidden:data [optimizer] hidden:data
//
// The last layout keeps a third of the parameters and of the states on each
// device.
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"
using namespace mtf;

struct RowAdamOptions {
  nn::Schedule learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double max_gradient_norm = 0;
};

// m <- beta1 m + (1 - beta1) g
// v <- beta2 v + (1 - beta2) mean of g^2 over all dimensions but the first
// parameter <- parameter - rate * m / (sqrt(v) + 1e-8)
nn::Optimizer RowAdam(RowAdamOptions o) {
  const auto make_rule = [o](Tensor step, Tensor learning_rate) {
    // The corrections of both averages, once for all parameters.
    const Tensor t = step + 1.0;
    const Tensor rate =
        learning_rate * Sqrt(1.0 - Pow(o.beta2, t)) / (1.0 - Pow(o.beta1, t));
    return [o, rate](nn::ParameterUpdate& p) {
      Shape row;
      if (p.variable.shape.rank() > 0) row = {p.variable.shape[0]};
      const Tensor m = p.State("m", p.variable.shape);
      const Tensor v = p.State("v", row);
      const Tensor new_m = o.beta1 * m + (1 - o.beta1) * p.gradient;
      const Tensor new_v =
          o.beta2 * v + (1 - o.beta2) * ReduceMean(Square(p.gradient), row);
      p.SetState(m, new_m);
      p.SetState(v, new_v);
      return p.value - rate * new_m / (Sqrt(new_v) + 1e-8);
    };
  };
  return nn::Optimizer({.learning_rate = o.learning_rate,
                        .make_rule = make_rule,
                        .max_gradient_norm = o.max_gradient_norm,
                        .name = "row_adam"});
}

absl::Status Learn() {
  const Dimension batch{"batch", 48}, io{"io", 6}, hidden{"hidden", 20};
  Graph graph;
  Tensor x = RandomUniform(graph, {batch, io}, -1, 1);
  Tensor h = nn::Dense(x, {io}, {hidden}, {.activation = Tanh});
  Tensor y = nn::Dense(h, {hidden}, {io});
  Tensor loss = ReduceMean(Square(y - Sin(2.0 * x)), {});
  Tensor step = RowAdam({.learning_rate = 0.02 * nn::LinearWarmup(5),
                         .max_gradient_norm = 1})
                    .Minimize(loss);

  const train::RunRequest request = {.fetches = {loss}, .updates = {step}};
  MTF_ASSIGN_OR_RETURN(auto session, train::StartSession(graph, request));
  double first = 0, now = 0;
  for (int i = 0; i < 60; ++i) {
    MTF_ASSIGN_OR_RETURN(auto values, session->Run(request));
    MTF_ASSIGN_OR_RETURN(now, values[0].At(0));
    if (i == 0) first = now;
    if (i % 15 == 14) train::Say(absl::StrFormat("result loss %.9f", now));
  }
  // The states are variables like any other.
  MTF_ASSIGN_OR_RETURN(const HostTensor v,
                       session->ReadVariable("row_adam/dense/kernel/v"));
  if (v.shape() != Shape{io}) return absl::InternalError("wrong state");
  return now < first / 4 ? absl::OkStatus()
                         : absl::InternalError("no learning");
}

int main(int argc, char** argv) {
  return train::RunMain(argc, argv, "Trains with its own optimizer.", &Learn);
}
