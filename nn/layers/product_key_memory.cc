// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/product_key_memory.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/dense.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_norm.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "nn/layers/softmax.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/random.h"
#include "ops/reshape.h"
#include "ops/split.h"
#include "ops/top_k.h"

namespace mtf::nn {
namespace {

constexpr char kHalf[] = "key_half", kFirst[] = "neighbour",
               kSecond[] = "neighbour_2", kPair[] = "neighbour_pair",
               kSlots[] = "memory_slots", kQuery[] = "d_query";

absl::Status Check(Tensor x, const ProductKeyOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "product_key_memory"));
  MTF_RETURN_IF_ERROR(internal::ModelDimension(x).status());
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.heads, ".heads"));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.keys, ".keys"));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.d_half, ".d_half"));
  for (const absl::string_view name :
       {absl::string_view(options.heads.name), absl::string_view(kSlots),
        absl::string_view(options.keys.name),
        absl::string_view(options.d_half.name)}) {
    if (!x.shape().Contains(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("\"", x.name(), "\" has the dimension \"", name,
                     "\" of the memory", DescribeInputs({x})));
  }
  if (options.neighbours >= 1 && options.neighbours <= options.keys.size) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(".neighbours is ", options.neighbours, ", not in [1, ",
                   options.keys.size, "], the half keys"));
}

// Queries [..., heads, key_half, d_half], normalized.
Tensor Queries(Tensor x, const ProductKeyOptions& options) {
  const Dimension half{kHalf, 2};
  const Dimension d_query{kQuery, options.heads.size * 2 * options.d_half.size};
  Tensor q = Dense(x, {x.shape().dims().back()},
                   {options.heads, half, options.d_half}, {.name = "query"});
  if (options.norm == QueryNorm::kLayerNorm) {
    return LayerNorm(q, options.d_half);
  }
  if (options.norm == QueryNorm::kNone) return q;
  // Batch norm is of each element of the queries of all heads.
  q = MergeDimensions(q, {options.heads.name, half.name, options.d_half.name},
                      d_query.name);
  return SplitDimension(BatchNorm(q, d_query), d_query.name,
                        {options.heads, half, options.d_half});
}

// The scores and slots of the nearest keys: [..., heads, neighbour].
TopKResult NearestSlots(Tensor scores, const ProductKeyOptions& options) {
  const Dimension nearest{kFirst, options.neighbours};
  const TopKResult half = TopK(scores, options.keys.name, nearest);
  const std::vector<Tensor> score = Unstack(half.values, kHalf),
                            index = Unstack(half.indices, kHalf);
  const auto pairs = [&](Tensor first, Tensor second) {
    return MergeDimensions(first + Rename(second, kFirst, kSecond),
                           {kFirst, kSecond}, kPair);
  };
  const TopKResult best = TopK(pairs(score[0], score[1]), kPair, nearest);
  const Tensor slots =
      pairs(index[0] * static_cast<double>(options.keys.size), index[1]);
  return {best.values, Gather(slots, best.indices, kPair)};
}

}  // namespace

Tensor ProductKeyMemory(Tensor x, ProductKeyOptions options,
                        std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  const absl::Status status = Check(x, options);
  if (!status.ok()) {
    return graph.Fail(
        status, internal::DescribeLayer("product_key_memory", options.name),
        location, x.shape(), x.dtype());
  }
  x = internal::To(ActivationDType(x), x);
  const Dimension d_model = x.shape().dims().back(),
                  slots{kSlots, options.keys.size * options.keys.size};
  const Tensor q = Queries(x, options);
  const double bound = 1 / std::sqrt(static_cast<double>(options.d_half.size));
  const Shape key_shape = {
      options.heads, {kHalf, 2}, options.keys, options.d_half};
  const Tensor keys = Parameter(
      graph, "keys",
      RandomUniform(graph, key_shape, -bound, bound, {.per_step = false}),
      q.dtype());
  const double stddev = 1 / std::sqrt(static_cast<double>(d_model.size));
  const Tensor values = Parameter(
      graph, "values",
      RandomNormal(graph, {slots, d_model}, 0, stddev, {.per_step = false}),
      x.dtype());
  const Tensor scores = Einsum(
      {q, keys}, q.shape().Without(options.d_half.name).With(options.keys));
  const TopKResult nearest =
      NearestSlots(internal::To(kFloat32, scores), options);
  const Tensor weights = Softmax(nearest.values, {kFirst, options.neighbours});
  return Einsum({internal::To(x.dtype(), weights),
                 Gather(values, nearest.indices, kSlots)},
                x.shape());
}

}  // namespace mtf::nn
