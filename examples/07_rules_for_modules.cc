// SPDX-License-Identifier: Apache-2.0
//
// Lesson 7: other rules in a part of the model.
//
// A mesh axis shards one dimension of an operation. In a feed-forward layer the
// hidden units use it best; between the layers, where there are none, the axis
// would be idle and every device would keep the same activations. A section
// [in SCOPES] of the layout has rules for what is computed in these scopes:
//
//   length:model, d_ff:model
//   [in layer_*/feed_forward]
//   length:replicated
//
// shards the sequence between the layers and the hidden units in them. Values
// change their layout where they enter and leave a layer: an all_gather before
// it, a reduce_scatter after it. This is Megatron's sequence parallelism, and
// the program says nothing of it.
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"

namespace mtf {
namespace {

const Dimension batch{"batch", 4}, length{"length", 32}, d_model{"d_model", 24},
    d_ff{"d_ff", 96};

absl::Status Lesson() {
  Graph graph;
  Tensor x = RandomUniform(graph, {batch, length, d_model}, -1, 1,
                           {.per_step = false});
  const Tensor input = x;
  for (int i = 0; i < 2; ++i) {
    const Scope layer(graph, absl::StrCat("layer_", i));
    x = x + nn::FeedForward(nn::LayerNorm(x, d_model), d_ff, Gelu);
  }
  const Tensor loss = ReduceMean(Square(x - Square(input)), {});
  const Tensor step = nn::Sgd({.learning_rate = 0.5}).Minimize(loss);

  for (const std::string layout :
       {"", "d_ff:model",
        "length:model, d_ff:model, [in layer_*/feed_forward] "
        "length:replicated"}) {
    MTF_ASSIGN_OR_RETURN(const auto session,
                         train::Session::Create(graph, "model:4", layout));
    MTF_RETURN_IF_ERROR(session->Initialize());
    double last = 0;
    for (int i = 0; i < 20; ++i) {
      session->ResetCounts();
      MTF_ASSIGN_OR_RETURN(
          const auto values,
          session->Run({.fetches = {loss}, .updates = {step}}));
      MTF_ASSIGN_OR_RETURN(last, values[0].At(0));
    }
    std::cout << absl::StrFormat("loss %.4f  %s\n", last,
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
  return mtf::train::RunMain(argc, argv,
                             "Lesson 7: other rules in a part of the model.",
                             &mtf::Lesson);
}
