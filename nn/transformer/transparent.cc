// SPDX-License-Identifier: Apache-2.0
#include "nn/transformer/transparent.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "nn/layers/softmax.h"
#include "ops/checks.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/random.h"
#include "ops/split.h"
#include "ops/stack.h"

namespace mtf::nn {
namespace {

absl::Status Check(const std::vector<Tensor>& states, int64_t count,
                   const TransparentOptions& options) {
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckInputs(states.front().graph(), states));
  MTF_RETURN_IF_ERROR(internal::CheckFloat(states.front(), "transparent"));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckNotNegative(".stddev", options.stddev));
  if (count >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the number of memories is ", count, ", less than 1"));
}

}  // namespace

std::vector<Tensor> TransparentMemories(std::vector<Tensor> states,
                                        int64_t count,
                                        TransparentOptions options,
                                        std::source_location location) {
  Graph* graph = mtf::internal::GraphOf(states);
  if (graph == nullptr) return {};
  LayerScope layer(*graph, options.name, location);
  const absl::Status status = states.front().valid()
                                  ? Check(states, count, options)
                                  : mtf::internal::CheckInputs(*graph, states);
  if (!status.ok()) {
    return {graph->Fail(status,
                        internal::DescribeLayer("transparent", options.name),
                        location, states.back().shape())};
  }
  const Dimension rows{"encoder_states", static_cast<int64_t>(states.size())},
      columns{"decoder_layers", count};
  const double stddev = options.stddev == 0
                            ? 1 / std::sqrt(static_cast<double>(rows.size))
                            : options.stddev;
  Shape shape = {rows, columns};
  if (!options.ensemble.name.empty()) {
    shape = internal::Join({options.ensemble}, shape);
  }
  Tensor weights = Parameter(
      *graph, "weights",
      RandomNormal(*graph, shape, 0, stddev, {.per_step = false}), kFloat32);
  if (options.dropout != 0) weights = Dropout(weights, options.dropout);
  weights = Softmax(weights, rows);
  const Tensor stacked = Stack(std::move(states), rows.name);
  const Shape memory = stacked.shape().Without(rows.name);
  const Tensor mixed = Einsum({internal::To(stacked.dtype(), weights), stacked},
                              internal::Join({columns}, memory));
  return Unstack(mixed, columns.name);
}

}  // namespace mtf::nn
