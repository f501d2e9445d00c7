// SPDX-License-Identifier: Apache-2.0
//
// Lesson 6: one network, built twice with the same weights.
//
// Training needs dropout and evaluation must not have it. The graph has both
// networks, and Scope::kReuse gives the second one the parameters of the first.
// A custom gradient then lets the network train through a step function,
// whose gradient is zero.
#include <iostream>
#include <string>

#include "absl/strings/str_format.h"
#include "mtf/mtf.h"

namespace mtf {
namespace {

const Dimension batch{"batch", 32}, features{"features", 8},
    hidden{"hidden", 24};

// 0 or 1. Backward, it is the identity (a "straight-through estimator").
Tensor Step(Tensor x) {
  return CustomGradient({Cast(Greater(x, 0.0), kFloat32)}, {x},
                        [](const std::vector<Tensor>& dy) { return dy; })[0];
}

// The squared error of a network that predicts whether the sum of the features
// is positive. All of its layers have parameters.
Tensor Loss(Tensor x, Tensor target) {
  Tensor h = Tanh(nn::Dense(x, {features}, {hidden}));
  h = Dropout(h, 0.2);
  const Tensor y = Step(nn::Dense(h, {hidden}, {}));
  return ReduceMean(Square(y - target), {});
}

absl::Status Train(const std::string& mesh, const std::string& layout) {
  Graph graph;
  const Tensor x = RandomUniform(graph, {batch, features}, -1, 1);
  const Tensor target = Cast(Greater(SumOver(x, {features}), 0.0), kFloat32);

  Tensor training_loss, error;
  {
    const Scope network(graph, "network");
    training_loss = Loss(x, target);
  }
  {
    // The same calls again take the parameters that exist, and dropout returns
    // its operand.
    const Scope network(graph, "network", Scope::kReuse);
    const ModeScope mode(graph, Mode::kEvaluate);
    error = Loss(x, target);
  }
  const size_t parameters = graph.variables().size();
  const Tensor step = nn::Adam({.learning_rate = 0.02}).Minimize(training_loss);

  MTF_ASSIGN_OR_RETURN(const auto session,
                       train::Session::Create(graph, mesh, layout));
  MTF_RETURN_IF_ERROR(session->Initialize());
  double first = 0, last = 0;
  for (int i = 0; i <= 200; ++i) {
    MTF_ASSIGN_OR_RETURN(const auto values,
                         session->Run({.fetches = {error}, .updates = {step}}));
    MTF_ASSIGN_OR_RETURN(const double now, values[0].At(0));
    if (i == 0) first = now;
    if (i > 180) last += now / 20;
  }
  std::cout << absl::StrFormat(
      "%d parameters, wrong at first %.2f, after 200 steps %.2f (%s)\n",
      parameters, first, last, layout.empty() ? "one device" : layout);
  return absl::OkStatus();
}

absl::Status Lesson() {
  MTF_RETURN_IF_ERROR(Train("", ""));
  return Train("data:2,model:2", "batch:data, hidden:model");
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Lesson 6: weights that are shared.",
                             &mtf::Lesson);
}
