// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/feed_forward.h"

#include "nn/layers/dense.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/elementwise.h"
#include "ops/random.h"

namespace mtf::nn {

Tensor FeedForward(Tensor x, Dimension d_ff, Activation activation,
                   FeedForwardOptions options, std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  const auto d_model = internal::ModelDimension(x);
  if (!d_model.ok()) {
    return graph.Fail(d_model.status(),
                      internal::DescribeLayer("feed_forward", options.name),
                      location, x.shape(), x.dtype());
  }
  Tensor h = Dense(x, {*d_model}, {d_ff},
                   {.bias = options.bias,
                    .activation = options.gated ? nullptr : activation,
                    .each = options.each,
                    .name = "in"});
  if (options.gated) {
    h = h * Dense(x, {*d_model}, {d_ff},
                  {.bias = options.bias,
                   .activation = activation,
                   .each = options.each,
                   .name = "gate"});
  }
  if (options.dropout != 0) h = Dropout(h, options.dropout);
  return Dense(h, {d_ff}, {*d_model},
               {.bias = options.bias, .each = options.each, .name = "out"});
}

}  // namespace mtf::nn
