// SPDX-License-Identifier: Apache-2.0
//
// A gated recurrent unit (Cho et al., 2014) over twelve steps of time, which
// learns to remember the first number of a sequence.
//
// Layout: data:2 | batch:data
// Layout: data:2,model:2 | batch:data, hidden:model
//
// Missing: a loop over a function of one's own. The graph has each step of time
// by itself, so it and the time to lower it grow with the length, and `hidden`
// has to be renamed where the state meets the kernel of the next state.
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"
using namespace mtf;

const Dimension batch{"batch", 32}, time_steps{"time", 12}, io{"io", 1},
    hidden{"hidden", 24}, hidden_in{"hidden_in", 24};

// The parameters of one gate, shared by all steps of time.
struct Gate {
  Gate(Graph& graph, absl::string_view name, double bias_value) {
    nn::LayerScope layer(graph, name, std::source_location::current());
    from_x = nn::Kernel(graph, "from_x", {io}, {hidden}, kFloat32);
    from_h = nn::Kernel(graph, "from_h", {hidden_in}, {hidden}, kFloat32);
    bias = nn::Parameter(graph, "bias",
                         Constant(graph, bias_value, kFloat32, {hidden}),
                         kFloat32);
  }
  // Its value before the activation for the input x and the state h.
  Tensor operator()(Tensor x, Tensor h) const {
    return Einsum({x, from_x}, {batch, hidden}) +
           Einsum({Rename(h, "hidden", "hidden_in"), from_h}, {batch, hidden}) +
           bias;
  }
  Tensor from_x, from_h, bias;
};

absl::Status Learn() {
  Graph graph;
  Tensor x = RandomUniform(graph, {time_steps, batch, io}, -1, 1);
  const Gate update(graph, "update", -2), reset(graph, "reset", 0),
      candidate(graph, "candidate", 0);
  Tensor h = Zeros(graph, kFloat32, {batch, hidden});
  for (int t = 0; t < time_steps.size; ++t) {
    Tensor now = Index(x, "time", t);
    Tensor z = Sigmoid(update(now, h));
    Tensor n = Tanh(candidate(now, Sigmoid(reset(now, h)) * h));
    h += z * (n - h);
  }
  Tensor y = nn::Dense(h, {hidden}, {io});
  Tensor loss = ReduceMean(Square(y - Index(x, "time", 0)), {});
  Tensor step = nn::AdamW({.learning_rate = 0.01}).Minimize(loss);

  const train::RunRequest request = {.fetches = {loss}, .updates = {step}};
  MTF_ASSIGN_OR_RETURN(auto session, train::StartSession(graph, request));
  double first = 0, now = 0;
  for (int i = 0; i < 120; ++i) {
    MTF_ASSIGN_OR_RETURN(auto values, session->Run(request));
    MTF_ASSIGN_OR_RETURN(now, values[0].At(0));
    if (i == 0) first = now;
    if (i % 10 == 0 && i < 40) {
      train::Say(absl::StrFormat("result loss %.9f", now));
    }
  }
  train::Say(absl::StrFormat("from %.9g to %.9g", first, now));
  return now < first / 2 ? absl::OkStatus()
                         : absl::InternalError("no learning");
}

int main(int argc, char** argv) {
  return train::RunMain(argc, argv, "Trains a recurrent network.", &Learn);
}
