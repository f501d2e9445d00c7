// SPDX-License-Identifier: Apache-2.0
//
// Lesson 9: a mixture of experts.
//
// In a mixture of experts a router sends each token to a few of many networks.
// The model has the weights of all experts, and a token costs the work of two.
// On several devices each has some of the experts, and tokens travel. Groups of
// tokens and experts are sharded over one axis, by a rule each:
//
//   batch:data, experts:data
//
// Where tokens are, the axis belongs to the batch; where experts compute, to
// the experts. In between an all_to_all sends each token to its experts, and
// another one brings the results back; the gradients travel the same way. The
// weights of experts are never sent.
#include <iostream>
#include <string>

#include "absl/strings/str_format.h"
#include "mtf/mtf.h"

namespace mtf {
namespace {

const Dimension batch{"batch", 8}, length{"length", 32}, d_model{"d_model", 16},
    d_ff{"d_ff", 32}, experts{"experts", 8};

absl::Status Lesson() {
  Graph graph;
  // The function to learn depends on the kind of a token, the sign of its first
  // element: a task for two experts.
  Tensor x = RandomNormal(graph, {batch, length, d_model}, 0, 1);
  Tensor wanted = Select(Index(x, "d_model", 0) > 0.0, x, -x);

  // Each expert has slots for 1.25 times its share of the choices of a
  // sequence. A choice that finds none is dropped, as the layer reports.
  nn::Experts y =
      nn::MixtureOfExperts(nn::LayerNorm(x, d_model), experts, d_ff, Relu,
                           {.choices = 2, .capacity_factor = 1.25});
  Tensor error = ReduceMean(Square(y.output - wanted), {});
  // The second loss keeps all experts busy.
  Tensor loss = error + 0.01 * y.load_balancing_loss + 0.001 * y.z_loss;
  Tensor step = nn::AdamW({.learning_rate = 0.01}).Minimize(loss);

  for (const std::string layout :
       {"", "batch:data", "batch:data, experts:data"}) {
    MTF_ASSIGN_OR_RETURN(const auto session,
                         train::Session::Create(graph, "data:4", layout));
    MTF_RETURN_IF_ERROR(session->Initialize());
    double first = 0, last = 0, dropped = 0;
    for (int i = 0; i < 60; ++i) {
      session->ResetCounts();
      MTF_ASSIGN_OR_RETURN(
          const auto values,
          session->Run({.fetches = {error, y.dropped}, .updates = {step}}));
      MTF_ASSIGN_OR_RETURN(last, values[0].At(0));
      MTF_ASSIGN_OR_RETURN(dropped, values[1].At(0));
      if (i == 0) first = last;
    }
    std::cout << absl::StrFormat("error %.3f to %.3f, dropped %2.0f %%  %s\n",
                                 first, last, 100 * dropped,
                                 layout.empty() ? "no rules" : layout);
    // What a rank sent in the last step.
    for (const auto& [key, count] : session->counts()) {
      std::cout << absl::StrFormat("  %-14s %2d calls %6d bytes\n",
                                   CollectiveName(key.first), count.calls,
                                   count.bytes);
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Lesson 9: a mixture of experts.",
                             &mtf::Lesson);
}
