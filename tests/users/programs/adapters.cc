// SPDX-License-Identifier: Apache-2.0
//
// Low-rank adapters (LoRA: Hu et al., 2021): trains a network on one task,
// then only adapters of rank 2 on another, and leaves the network as it was.
//
// Layout: data:2 | batch:data
// Layout: data:2,model:2 | batch:data, hidden:model
//
// Missing: nothing but a layer for it. No step computes gradients of the
// network's own parameters, which `.only` leaves out.
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"
using namespace mtf;

const Dimension batch{"batch", 40}, io{"io", 6}, hidden{"hidden", 32},
    rank{"rank", 2};

// A linear layer plus x * down * up, where `up` is 0 at first.
Tensor AdaptedDense(
    Tensor x, Dimension from, Dimension to, bool adapters,
    std::source_location location = std::source_location::current()) {
  Tensor y = nn::Dense(x, {from}, {to});
  if (!adapters) return y;
  Graph& graph = x.graph();
  nn::LayerScope layer(graph, "adapter", location);
  Tensor down = nn::Kernel(graph, "down", {from}, {rank}, x.dtype());
  Tensor up =
      nn::Parameter(graph, "up", Zeros(graph, kFloat32, {rank, to}), x.dtype());
  return y + Einsum({Einsum({x, down}, {batch, rank}), up}, {batch, to});
}

// The network learns factor * sin(2 x).
struct Model {
  Model(double factor, bool adapters) {
    Tensor x = RandomUniform(graph, {batch, io}, -1, 1);
    Tensor h = Tanh(AdaptedDense(x, io, hidden, adapters));
    Tensor y = AdaptedDense(h, hidden, io, adapters);
    loss = ReduceMean(Square(y - factor * Sin(2.0 * x)), {});
    step = nn::AdamW({.learning_rate = 0.02, .weight_decay = 0})
               .Minimize(loss, {.only = adapters ? "adapter*" : ""});
  }
  Graph graph;
  Tensor loss, step;
};

// Runs some steps and returns the loss of the last.
absl::StatusOr<double> Train(train::Session& session, const Model& model,
                             int steps) {
  double loss = 0;
  for (int i = 0; i < steps; ++i) {
    MTF_ASSIGN_OR_RETURN(auto values, session.Run({.fetches = {model.loss},
                                                   .updates = {model.step}}));
    MTF_ASSIGN_OR_RETURN(loss, values[0].At(0));
    if (i % 10 == 0 && i < 30) {
      train::Say(absl::StrFormat("result loss %.9f", loss));
    }
  }
  return loss;
}

absl::Status Adapt() {
  Model base(1, false), adapted(-1, true);
  const train::SavedState base_state(base.graph), state(adapted.graph);
  MTF_ASSIGN_OR_RETURN(
      auto session, train::StartSession(base.graph, {.fetches = {base.loss},
                                                     .updates = {base.step}}));
  MTF_ASSIGN_OR_RETURN(const double before, Train(*session, base, 100));
  MTF_ASSIGN_OR_RETURN(const auto values, base_state.Save(*session));

  MTF_ASSIGN_OR_RETURN(
      auto other,
      train::StartSession(adapted.graph, {.fetches = {adapted.loss},
                                          .updates = {adapted.step}}));
  MTF_RETURN_IF_ERROR(state.Load(*other, values, {.partial = true}));
  MTF_ASSIGN_OR_RETURN(const double start, Train(*other, adapted, 1));
  MTF_ASSIGN_OR_RETURN(const double after, Train(*other, adapted, 100));
  for (const char* name : {"dense/kernel", "dense_1/bias"}) {
    MTF_ASSIGN_OR_RETURN(const HostTensor now, other->ReadVariable(name));
    if (now != values.at(name)) return absl::InternalError("it has changed");
  }
  train::Say(absl::StrFormat("%.9g; %.9g to %.9g", before, start, after));
  return before < 0.05 && after < start / 4
             ? absl::OkStatus()
             : absl::InternalError("no learning");
}

int main(int argc, char** argv) {
  return train::RunMain(argc, argv, "Trains low-rank adapters.", &Adapt);
}
