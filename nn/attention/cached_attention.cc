// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/cached_attention.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/attention/projections.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/checks.h"
#include "ops/dynamic_slice.h"
#include "ops/elementwise.h"
#include "ops/variable.h"

namespace mtf::nn {
namespace {

constexpr absl::string_view kCacheLength = "memory_length";

// The shapes of keys and of values, given the dimensions before the heads.
Shape KeysShape(const Shape& rows, const AttentionOptions& options) {
  return internal::Join(internal::Join(rows, internal::MemoryHeads(options)),
                        {options.d_kv});
}
Shape ValuesShape(const Shape& rows, const AttentionOptions& options) {
  return internal::Join(internal::Join(rows, internal::MemoryHeads(options)),
                        {internal::ValueDimension(options.d_kv, options.d_v)});
}

absl::Status CheckShape(Tensor cached, const Shape& shape,
                        absl::string_view what) {
  if (cached.shape().SameDimensions(shape)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the cached ", what, " are [", cached.shape().ToString(),
                   "], not [", shape.ToString(), "]", DescribeInputs({cached}),
                   "\n  help     create them with CacheVariables()"));
}

// Gives .memory_length the size of the cache, if it has none.
void FindMemoryLength(const KeyValueCache& cache, AttentionOptions& options) {
  if (!options.memory_length.name.empty() || !cache.keys.valid()) return;
  const std::string name(kCacheLength);
  if (!cache.keys.shape().Contains(name)) return;
  options.memory_length = {name, cache.keys.shape().SizeOf(name)};
}

// Checks `x`, the options and the cache. `batch` is the shape of `x` without
// length and model dimension.
absl::Status Check(Tensor x, const KeyValueCache& cache, const Shape& batch,
                   const AttentionOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckQueries(x, options));
  MTF_RETURN_IF_ERROR(
      internal::CheckGiven(options.memory_length, ".memory_length"));
  const Shape rows = batch.With(options.memory_length);
  MTF_RETURN_IF_ERROR(CheckShape(cache.keys, KeysShape(rows, options), "keys"));
  return CheckShape(cache.values, ValuesShape(rows, options), "values");
}

absl::Status CheckPosition(Tensor position, const Shape& batch,
                           const AttentionOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckInteger(position, "the position"));
  for (const Dimension& dim : position.shape()) {
    if (batch.Contains(dim.name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the position \"", position.name(), "\" has the dimension \"", dim.name,
        "\", which is not of the batch [", batch.ToString(), "]",
        DescribeInputs({position}), "\n  help     give the position of the ",
        "first of \"", options.length.name, "\""));
  }
  if (options.causal) return absl::OkStatus();
  return absl::InvalidArgumentError(
      ".causal is not set, but rows of a cache after the position have no keys "
      "yet\n  help     set .causal, or use AttendToCache() for a complete "
      "memory");
}

std::string Describe(const AttentionOptions& options) {
  return internal::DescribeLayer("cached_attention", options.name);
}

}  // namespace

KeyValueCache CacheVariables(Graph& graph, const Shape& batch,
                             AttentionOptions options,
                             CacheOptions cache_options,
                             std::source_location location) {
  LayerScope layer(graph, cache_options.name, location);
  absl::Status status =
      internal::CheckGiven(options.memory_length, ".memory_length");
  if (status.ok()) status = internal::CheckGiven(options.heads, ".heads");
  if (status.ok()) status = internal::CheckGiven(options.d_kv, ".d_kv");
  const Shape rows = batch.With(options.memory_length);
  const Shape keys = KeysShape(rows, options);
  const Shape values = ValuesShape(rows, options);
  if (!status.ok()) {
    const auto fail = [&](const Shape& shape) {
      return graph.Fail(status,
                        internal::DescribeLayer("cache", cache_options.name),
                        location, shape, cache_options.dtype);
    };
    return {fail(keys), fail(values)};
  }
  const Tensor cached_keys =
      StateVariable(graph, "keys", cache_options.dtype, keys);
  return {cached_keys,
          StateVariable(graph, "values", cache_options.dtype, values)};
}

Tensor WriteCache(const KeyValueCache& variables, const KeyValueCache& next,
                  std::source_location location) {
  Graph* graph = mtf::internal::GraphOf(
      {variables.keys, variables.values, next.keys, next.values});
  if (graph == nullptr) return {};
  const auto assign = [&](Tensor variable, Tensor value) {
    const bool cast = variable.valid() && value.valid();
    return Assign(variable,
                  cast ? internal::To(variable.dtype(), value) : value,
                  location);
  };
  const Tensor keys = assign(variables.keys, next.keys);
  return Group(*graph, {keys, assign(variables.values, next.values)}, location);
}

CachedAttentionResult CachedSelfAttention(Tensor x, KeyValueCache cache,
                                          Tensor position,
                                          AttentionOptions options,
                                          std::source_location location) {
  Graph* graph =
      mtf::internal::GraphOf({x, cache.keys, cache.values, position});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, options.name, location);
  const auto fail = [&](const absl::Status& status) {
    return CachedAttentionResult{
        graph->Fail(status, Describe(options), location, x.shape()), cache};
  };
  absl::Status status = mtf::internal::CheckInputs(
      *graph, {x, cache.keys, cache.values, position});
  if (!status.ok()) return fail(status);
  const auto d_model = internal::ModelDimension(x, {options.length});
  if (!d_model.ok()) return fail(d_model.status());
  FindMemoryLength(cache, options);
  const Shape batch =
      x.shape().Without(options.length.name).Without(d_model->name);
  status = Check(x, cache, batch, options);
  if (status.ok()) status = CheckPosition(position, batch, options);
  if (!status.ok()) return fail(status);

  const Tensor at = internal::To(kInt32, position);
  const Tensor q = internal::ProjectQueries(x, *d_model, options, at);
  const internal::KeysAndValues made =
      internal::ProjectMemory(x, *d_model, options.length, options, at);
  const auto update = [&](Tensor cached, Tensor rows) {
    return UpdateSlice(cached, internal::To(cached.dtype(), rows),
                       options.memory_length.name, at);
  };
  cache.keys = update(cache.keys, made.keys);
  cache.values = update(cache.values, made.values);
  const Tensor y = internal::AttendTo(q,
                                      {internal::To(q.dtype(), cache.keys),
                                       internal::To(q.dtype(), cache.values)},
                                      *d_model, options, at);
  return {y, cache};
}

KeyValueCache ProjectMemory(Tensor memory, AttentionOptions options,
                            std::source_location location) {
  if (!memory.valid()) return {};
  Graph& graph = memory.graph();
  LayerScope layer(graph, options.name, location);
  const auto fail = [&](const absl::Status& status) {
    const Tensor none =
        graph.Fail(status, Describe(options), location, memory.shape());
    return KeyValueCache{none, none};
  };
  absl::Status status =
      internal::CheckGiven(options.memory_length, ".memory_length");
  if (status.ok()) status = internal::CheckGiven(options.heads, ".heads");
  if (status.ok()) status = internal::CheckGiven(options.d_kv, ".d_kv");
  if (status.ok()) {
    status = internal::CheckDimension(memory, options.memory_length);
  }
  if (!status.ok()) return fail(status);
  const auto d_memory =
      internal::ModelDimension(memory, {options.memory_length});
  if (!d_memory.ok()) return fail(d_memory.status());
  const internal::KeysAndValues made = internal::ProjectMemory(
      memory, *d_memory, options.memory_length, options);
  return {made.keys, made.values};
}

Tensor AttendToCache(Tensor x, KeyValueCache cache, AttentionOptions options,
                     std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({x, cache.keys, cache.values});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, options.name, location);
  const auto fail = [&](const absl::Status& status) {
    return graph->Fail(status, Describe(options), location, x.shape());
  };
  absl::Status status =
      mtf::internal::CheckInputs(*graph, {x, cache.keys, cache.values});
  if (!status.ok()) return fail(status);
  const auto d_model = internal::ModelDimension(x, {options.length});
  if (!d_model.ok()) return fail(d_model.status());
  FindMemoryLength(cache, options);
  status = Check(x, cache,
                 x.shape().Without(options.length.name).Without(d_model->name),
                 options);
  if (!status.ok()) return fail(status);
  const Tensor q = internal::ProjectQueries(x, *d_model, options);
  return internal::AttendTo(q,
                            {internal::To(q.dtype(), cache.keys),
                             internal::To(q.dtype(), cache.values)},
                            *d_model, options);
}

}  // namespace mtf::nn
