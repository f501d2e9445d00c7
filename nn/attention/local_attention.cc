// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/local_attention.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/attention/projections.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/one_hot.h"
#include "ops/reshape.h"
#include "ops/windows.h"

namespace mtf::nn {
namespace {

// The dimensions of the queries of a block, and of the keys around it.
constexpr absl::string_view kBlock = "local_length";
constexpr absl::string_view kKeys = "local_memory_length";

// One of the dimensions `along`, in blocks. The dimension itself counts blocks
// while attention is computed.
struct QueryBlocks {
  Dimension dim;
  int64_t block, before, after;  // keys before and after a query
  Dimension queries, keys;       // of a block

  QueryBlocks(const LocalDimension& along, int index, bool only_before,
              int64_t default_block)
      : dim(along.dim) {
    const int64_t radius = std::min(along.radius, dim.size);
    block = along.block > 0 ? along.block : std::max(radius + 1, default_block);
    block = std::max<int64_t>(std::min(block, dim.size), 1);
    before = radius;
    after = only_before ? 0 : radius;
    queries = {absl::StrCat(kBlock, "_", index), block};
    keys = {absl::StrCat(kKeys, "_", index), before + block + after};
  }

  int64_t count() const { return (dim.size + block - 1) / block; }
  int64_t padding() const { return count() * block - dim.size; }
  WindowOptions query_windows() const {
    return {.stride = block,
            .padding = WindowPadding::kExplicit,
            .after = padding()};
  }
  WindowOptions key_windows() const {
    return {.stride = block,
            .padding = WindowPadding::kExplicit,
            .before = before,
            .after = padding() + after};
  }
};

absl::Status CheckAlong(const LocalAttentionOptions& options) {
  if (options.along.empty()) {
    return absl::InvalidArgumentError(
        "the option .along is empty, but local attention is along at least one "
        "dimension");
  }
  for (size_t i = 0; i < options.along.size(); ++i) {
    const LocalDimension& each = options.along[i];
    MTF_RETURN_IF_ERROR(internal::CheckGiven(each.dim, ".along.dim"));
    if (each.radius < 0 || each.block < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the radius ", each.radius, " or the block ", each.block,
                       " of \"", each.dim.name, "\" is negative"));
    }
    for (size_t j = 0; j < i; ++j) {
      if (options.along[j].dim.name != each.dim.name) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("\"", each.dim.name, "\" is twice in .along"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSegments(Tensor q, const LocalAttentionOptions& options) {
  const Tensor& segments = options.segments;
  if (!segments.valid()) return absl::OkStatus();
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(q.graph(), {segments}));
  MTF_RETURN_IF_ERROR(mtf::internal::CheckIndexDType(segments, {segments}));
  for (const LocalDimension& each : options.along) {
    MTF_RETURN_IF_ERROR(internal::CheckDimension(segments, each.dim));
  }
  for (const Dimension& dim : segments.shape()) {
    MTF_RETURN_IF_ERROR(internal::CheckDimension(q, dim));
    if (dim.name != options.d_kv.name) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the segments \"", segments.name(), "\" have the dimension \"",
        dim.name, "\" of the keys", DescribeInputs({segments})));
  }
  return absl::OkStatus();
}

absl::Status Check(Tensor q, Tensor k, Tensor v,
                   const LocalAttentionOptions& options) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(q.graph(), {q, k, v}));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.d_kv, ".d_kv"));
  MTF_RETURN_IF_ERROR(CheckAlong(options));
  for (const LocalDimension& each : options.along) {
    for (const Tensor& x : {q, k, v}) {
      MTF_RETURN_IF_ERROR(internal::CheckDimension(x, each.dim));
    }
  }
  return CheckSegments(q, options);
}

// Checks the options of self-attention: each may be given in one place only.
absl::Status CheckSelf(const LocalAttentionOptions& local,
                       const AttentionOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.heads, ".heads"));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.d_kv, ".d_kv"));
  MTF_RETURN_IF_ERROR(CheckAlong(local));
  const std::pair<absl::string_view, bool> of_local[] = {
      {".d_kv", !local.d_kv.name.empty()}, {".d_v", !local.d_v.name.empty()},
      {".causal", local.causal},           {".dropout", local.dropout != 0},
      {".soft_cap", local.soft_cap != 0},  {".scale", local.scale.has_value()}};
  for (const auto& [name, is_set] : of_local) {
    if (!is_set) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        name,
        " is set in LocalAttentionOptions, of which LocalSelfAttention() "
        "reads .along and .segments only\n  help     set ",
        name, " in AttentionOptions"));
  }
  if (options.mask.valid() || options.window != 0 ||
      options.position_bias.valid() || options.rotary) {
    return absl::InvalidArgumentError(
        ".mask, .window, .position_bias and .rotary are options of attention "
        "to a complete memory\n  help     call LocalAttention() with projected "
        "queries, keys and values");
  }
  if (!options.length.name.empty() || !options.memory_length.name.empty()) {
    return absl::InvalidArgumentError(
        ".length or .memory_length is set in AttentionOptions, but local "
        "attention is along .along of LocalAttentionOptions\n  help     leave "
        "both away");
  }
  return absl::OkStatus();
}

std::vector<QueryBlocks> BlocksOf(const LocalAttentionOptions& options) {
  const int64_t default_block = options.along.size() == 1 ? 32 : 8;
  std::vector<QueryBlocks> blocks;
  for (const LocalDimension& each : options.along) {
    const int index = static_cast<int>(blocks.size());
    blocks.emplace_back(each, index, options.causal && index == 0,
                        default_block);
  }
  return blocks;
}

// `x`, which has the dimensions QueryBlocks::queries or QueryBlocks::keys, with
// these merged.
Tensor Merge(Tensor x, const std::vector<QueryBlocks>& blocks, bool of_keys) {
  std::vector<std::string> names;
  for (const QueryBlocks& each : blocks) {
    names.push_back(of_keys ? each.keys.name : each.queries.name);
  }
  return MergeDimensions(x, std::move(names), of_keys ? kKeys : kBlock);
}

// The queries of each block, or the keys around it.
Tensor InBlocks(Tensor x, const std::vector<QueryBlocks>& blocks,
                bool of_keys) {
  for (const QueryBlocks& each : blocks) {
    x = of_keys ? Windows(x, each.dim.name, each.keys, each.key_windows())
                : Windows(x, each.dim.name, each.queries, each.query_windows());
  }
  return Merge(x, blocks, of_keys);
}

// The inverse of InBlocks for queries.
Tensor OutOfBlocks(Tensor x, const std::vector<QueryBlocks>& blocks) {
  std::vector<Dimension> queries;
  for (const QueryBlocks& each : blocks) queries.push_back(each.queries);
  x = SplitDimension(x, kBlock, std::move(queries));
  for (const QueryBlocks& each : blocks) {
    x = FoldWindows(x, each.dim.name, each.queries.name, each.dim.size,
                    each.query_windows());
  }
  return x;
}

// Which keys around a block each of its queries attends to.
Tensor MaskOf(Graph& graph, const std::vector<QueryBlocks>& blocks,
              bool causal) {
  Tensor mask, not_after;
  for (size_t i = blocks.size(); i-- > 0;) {
    const QueryBlocks& b = blocks[i];
    const Tensor begin =
        Range(graph, {b.dim.name, b.count()}) * static_cast<double>(b.block);
    const Tensor query = begin + Range(graph, b.queries);
    const Tensor key =
        begin + Range(graph, b.keys) - static_cast<double>(b.before);
    const Tensor distance = query - key;
    const Tensor in_radius =
        LogicalAnd(LessEqual(distance, static_cast<double>(b.before)),
                   GreaterEqual(distance, static_cast<double>(-b.after)));
    const Tensor exists = LogicalAnd(
        GreaterEqual(key, 0.0), Less(key, static_cast<double>(b.dim.size)));
    const Tensor visible = LogicalAnd(in_radius, exists);
    mask = mask.valid() ? LogicalAnd(mask, visible) : visible;
    // In row-major order: before, or equal here and not after in the rest.
    not_after = not_after.valid()
                    ? LogicalOr(Greater(distance, 0.0),
                                LogicalAnd(Equal(distance, 0.0), not_after))
                    : GreaterEqual(distance, 0.0);
  }
  if (causal) mask = LogicalAnd(mask, not_after);
  return Merge(Merge(mask, blocks, false), blocks, true);
}

}  // namespace

Tensor LocalAttention(Tensor q, Tensor k, Tensor v,
                      LocalAttentionOptions options,
                      std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({q, k, v});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, "local_attention", location);
  const absl::Status status = q.valid()
                                  ? Check(q, k, v, options)
                                  : mtf::internal::CheckInputs(*graph, {q});
  if (!status.ok()) {
    return graph->Fail(status, "local_attention", location, q.shape(),
                       q.dtype());
  }
  const std::vector<QueryBlocks> blocks = BlocksOf(options);
  Tensor mask = MaskOf(*graph, blocks, options.causal);
  if (options.segments.valid()) {
    mask = LogicalAnd(mask, Equal(InBlocks(options.segments, blocks, false),
                                  InBlocks(options.segments, blocks, true)));
  }
  Dimension length{std::string(kBlock), 1}, memory{std::string(kKeys), 1};
  for (const QueryBlocks& each : blocks) {
    length.size *= each.queries.size;
    memory.size *= each.keys.size;
  }
  const Tensor y =
      DotProductAttention(InBlocks(q, blocks, false), InBlocks(k, blocks, true),
                          InBlocks(v, blocks, true),
                          {.length = length,
                           .memory_length = memory,
                           .d_kv = options.d_kv,
                           .d_v = options.d_v,
                           .dropout = options.dropout,
                           .mask = mask,
                           .soft_cap = options.soft_cap,
                           .scale = options.scale});
  return OutOfBlocks(y, blocks);
}

Tensor LocalSelfAttention(Tensor x, LocalAttentionOptions local,
                          AttentionOptions options,
                          std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  const auto fail = [&](const absl::Status& status) {
    return graph.Fail(status,
                      internal::DescribeLayer("local_attention", options.name),
                      location, x.shape(), x.dtype());
  };
  const absl::Status status = CheckSelf(local, options);
  if (!status.ok()) return fail(status);
  Shape along;
  for (const LocalDimension& each : local.along) along = along.With(each.dim);
  const auto d_model = internal::ModelDimension(x, along);
  if (!d_model.ok()) return fail(d_model.status());
  local.d_kv = options.d_kv;
  local.d_v = options.d_v;
  local.causal = options.causal;
  local.dropout = options.dropout;
  local.soft_cap = options.soft_cap;
  local.scale = options.scale;
  const Tensor q = internal::ProjectQueries(x, *d_model, options);
  const internal::KeysAndValues memory =
      internal::ProjectMemory(x, *d_model, options.length, options);
  const Tensor y = LocalAttention(q, memory.keys, memory.values, local);
  return internal::ProjectOutput(y, *d_model, options);
}

}  // namespace mtf::nn
