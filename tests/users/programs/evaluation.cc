// SPDX-License-Identifier: Apache-2.0
//
// Trains with dropout on small batches and evaluates without dropout on large
// ones, and keeps the parameters of the best evaluation.
//
// Layout: data:2 | batch:data
// Layout: data:2,model:2 | batch:data, hidden:model
//
// Missing: parameters that two graphs share. A second network in one graph has
// parameters of its own, so evaluation has its own graph and session, and the
// host carries the parameters from one to the other.
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "mtf/mtf.h"
using namespace mtf;

struct Model {
  Model(int64_t rows, double dropout) : batch{"batch", rows} {
    x = RandomUniform(graph, {batch, io}, -1, 1);
    Tensor h = nn::Dense(x, {io}, {hidden}, {.activation = Tanh});
    Tensor y = nn::Dense(Dropout(h, dropout), {hidden}, {io});
    loss = ReduceMean(Square(y - Sin(3.0 * x)), {});
  }
  const Dimension batch, io{"io", 3}, hidden{"hidden", 40};
  Graph graph;
  Tensor x, loss;
};

absl::Status Evaluate() {
  Model training(32, 0.1), evaluation(500, 0);
  Tensor step = nn::AdamW({.learning_rate = 0.02}).Minimize(training.loss);
  const train::SavedState trained(training.graph), state(evaluation.graph);

  const train::RunRequest request = {.fetches = {training.loss},
                                     .updates = {step}};
  MTF_ASSIGN_OR_RETURN(auto session,
                       train::StartSession(training.graph, request));
  MTF_ASSIGN_OR_RETURN(
      auto other,
      train::StartSession(evaluation.graph, {.fetches = {evaluation.loss}}));
  // The loss of the present parameters on 500 rows.
  const auto evaluate = [&]() -> absl::StatusOr<double> {
    MTF_ASSIGN_OR_RETURN(const auto values, trained.Save(*session));
    // The state of the optimizer has no variable in the other graph.
    MTF_RETURN_IF_ERROR(state.Load(*other, values, {.partial = true}));
    MTF_ASSIGN_OR_RETURN(auto result,
                         other->Run({.fetches = {evaluation.loss}}));
    return result[0].At(0);
  };

  MTF_ASSIGN_OR_RETURN(const double first, evaluate());
  double best = first;
  train::SavedState::Values best_values;
  for (int i = 0; i < 80; ++i) {
    MTF_RETURN_IF_ERROR(session->Run(request).status());
    if (i % 10 != 9) continue;
    MTF_ASSIGN_OR_RETURN(const double now, evaluate());
    if (i < 40) train::Say(absl::StrFormat("result loss %.9f", now));
    if (now >= best) continue;
    best = now;
    MTF_ASSIGN_OR_RETURN(best_values, trained.Save(*session));
  }
  MTF_RETURN_IF_ERROR(trained.Load(*session, best_values));
  MTF_ASSIGN_OR_RETURN(const double again, evaluate());
  // The evaluation draws the same rows every time, since it takes no step.
  if (again != best) return absl::InternalError("another evaluation");
  if (!(best < first / 3)) return absl::InternalError("no learning");
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  return train::RunMain(argc, argv, "Trains and evaluates.", &Evaluate);
}
