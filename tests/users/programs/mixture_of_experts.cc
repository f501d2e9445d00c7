// SPDX-License-Identifier: Apache-2.0
//
// A mixture of experts (GShard: Lepikhin et al., 2020): each token goes to its
// two best experts, as long as these have capacity. It learns a function that
// differs by the kind of the token.
//
// Layout: data:2 | batch:data
// Layout: data:2,model:2 | batch:data, expert:model
// Layout: data:2 | batch:data, [in experts/own] expert:data, batch:replicated
//
// In the last layout each device keeps half of the experts, and two
// all_to_alls carry the tokens to them and back.
//
// nn::MixtureOfExperts is a layer of this kind; this one is written by hand.
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"
using namespace mtf;

const Dimension batch{"batch", 8}, length{"length", 16}, d_model{"d_model", 16},
    d_ff{"d_ff", 32}, expert{"expert", 4}, capacity{"capacity", 12},
    choice{"choice", 2};

// The two layers of each expert, in a scope that a layout may shard over the
// experts where it shards the batch elsewhere.
Tensor OwnExperts(Tensor x) {
  Graph& graph = x.graph();
  Scope own(graph, "own");
  Tensor in = nn::Kernel(graph, "in", {d_model}, {expert, d_ff}, x.dtype());
  Tensor out = nn::Kernel(graph, "out", {d_ff}, {expert, d_model}, x.dtype());
  Tensor h = Relu(Einsum({x, in}, x.shape().Without("d_model").With(d_ff)));
  return Einsum({h, out}, x.shape());
}

Tensor Experts(Tensor x) {
  Graph& graph = x.graph();
  nn::LayerScope layer(graph, "experts", std::source_location::current());
  Tensor gates = nn::Softmax(
      nn::Dense(x, {d_model}, {expert}, {.name = "router"}), expert);
  const auto [weight, index] = TopK(gates, "expert", choice);

  // Tokens queue for their experts: all first choices, then all second ones.
  // [batch, choice, length, expert], 1 where a token chose an expert.
  Tensor chosen =
      Transpose(OneHot(index, expert), {batch, choice, length, expert});
  Tensor queue = MergeDimensions(chosen, {"choice", "length"}, "queue");
  Tensor slot = CumulativeSum(queue, "queue", {.exclusive = true});
  slot = SplitDimension(slot, "queue", {choice, length});
  // A slot beyond the capacity is not a slot: OneHot is all 0.
  Tensor placed = chosen * OneHot(Cast(slot, kInt32), capacity);
  Tensor dispatch = ReduceSum(placed, {batch, length, expert, capacity});
  Tensor combine = Einsum({placed, weight}, {batch, length, expert, capacity});

  Tensor y = OwnExperts(
      Einsum({StopGradient(dispatch), x}, {batch, expert, capacity, d_model}));
  return Einsum({combine, y}, x.shape());
}

absl::Status Learn() {
  Graph graph;
  // The kind of a token, seen in its first elements, selects its sign.
  Tensor x = RandomNormal(graph, {batch, length, d_model}, 0, 1);
  Tensor kind = Index(x, "d_model", 0) > 0.0;
  Tensor wanted = Select(kind, x, -x);
  Tensor y = Experts(x);
  Tensor loss = ReduceMean(Square(y - wanted), {});
  Tensor step = nn::AdamW({.learning_rate = 0.02}).Minimize(loss);

  const train::RunRequest request = {.fetches = {loss}, .updates = {step}};
  MTF_ASSIGN_OR_RETURN(auto session, train::StartSession(graph, request));
  double first = 0, now = 0;
  for (int i = 0; i < 60; ++i) {
    MTF_ASSIGN_OR_RETURN(auto values, session->Run(request));
    MTF_ASSIGN_OR_RETURN(now, values[0].At(0));
    if (i == 0) first = now;
    if (i % 15 == 0) train::Say(absl::StrFormat("result loss %.9f", now));
  }
  return now < first / 2 ? absl::OkStatus()
                         : absl::InternalError("no learning");
}

int main(int argc, char** argv) {
  return train::RunMain(argc, argv, "Trains a mixture of experts.", &Learn);
}
