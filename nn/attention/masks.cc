// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/masks.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/checks.h"
#include "ops/elementwise.h"

namespace mtf::nn {
namespace {

absl::Status CheckIntegers(const Graph& graph,
                           const std::vector<Tensor>& operands) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(graph, operands));
  for (const Tensor& operand : operands) {
    MTF_RETURN_IF_ERROR(mtf::internal::CheckIndexDType(operand, {operand}));
  }
  return mtf::internal::CheckSizes(operands);
}

absl::Status CheckKeys(Tensor queries, Tensor keys) {
  for (const Dimension& dim : keys.shape()) {
    if (!queries.shape().Contains(dim.name)) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the keys \"", keys.name(), "\" have no dimension of their own",
      DescribeInputs({queries, keys}),
      "\n  help     Rename() their length to that of the memory"));
}

absl::Status CheckBlocks(const BlockMaskOptions& options) {
  if (options.block >= 1 && options.before >= 0 && options.after >= 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "blocks of ", options.block, " positions, ", options.before,
      " before and ", options.after, " after that of the query: the first is ",
      "less than 1 or another negative"));
}

using MaskFunction = std::function<Tensor(Tensor queries, Tensor keys)>;

// A mask of `operands`: those of queries, of keys, and others. `status` is that
// of the options.
Tensor MaskOf(absl::string_view name, std::vector<Tensor> operands,
              absl::Status status, std::source_location location,
              const MaskFunction& mask) {
  Graph* graph = mtf::internal::GraphOf(operands);
  if (graph == nullptr) return {};
  LayerScope layer(*graph, name, location);
  if (status.ok()) status = CheckIntegers(*graph, operands);
  if (status.ok()) status = CheckKeys(operands[0], operands[1]);
  if (!status.ok()) return graph->Fail(status, name, location, {}, kBool);
  // Without loss: segments may be 64-bit hashes.
  DType dtype = kInt32;
  for (const Tensor& operand : operands) {
    if (operand.dtype() == kInt64) dtype = kInt64;
  }
  for (Tensor& operand : operands) operand = internal::To(dtype, operand);
  return mask(operands[0], operands[1]);
}

// Whether low <= x <= high.
Tensor Between(Tensor x, int64_t low, int64_t high) {
  return LogicalAnd(GreaterEqual(x, static_cast<double>(low)),
                    LessEqual(x, static_cast<double>(high)));
}

// Whether a key is in the block of a query or in one of those next to it.
Tensor InBlocks(Tensor positions, Tensor memory_positions,
                const BlockMaskOptions& options) {
  const auto size = static_cast<double>(options.block);
  return Between(
      FloorDivide(positions, size) - FloorDivide(memory_positions, size),
      -options.after, options.before);
}

}  // namespace

Tensor PaddingMask(Tensor memory_tokens, int64_t padding,
                   std::source_location location) {
  if (!memory_tokens.valid()) return {};
  Graph& graph = memory_tokens.graph();
  LayerScope layer(graph, "padding_mask", location);
  const absl::Status status = CheckIntegers(graph, {memory_tokens});
  if (!status.ok()) {
    return graph.Fail(status, "padding_mask", location, memory_tokens.shape(),
                      kBool);
  }
  return NotEqual(memory_tokens, static_cast<double>(padding));
}

Tensor SegmentMask(Tensor segments, Tensor memory_segments,
                   std::source_location location) {
  return MaskOf("segment_mask", {segments, memory_segments}, absl::OkStatus(),
                location, [](Tensor q, Tensor k) { return Equal(q, k); });
}

Tensor CausalMask(Tensor positions, Tensor memory_positions,
                  std::source_location location) {
  return MaskOf("causal_mask", {positions, memory_positions}, absl::OkStatus(),
                location,
                [](Tensor q, Tensor k) { return GreaterEqual(q, k); });
}

Tensor PrefixMask(Tensor positions, Tensor memory_positions, Tensor prefix,
                  std::source_location location) {
  return MaskOf("prefix_mask", {positions, memory_positions, prefix},
                absl::OkStatus(), location, [prefix](Tensor q, Tensor k) {
                  return LogicalOr(GreaterEqual(q, k),
                                   Less(k, internal::To(k.dtype(), prefix)));
                });
}

Tensor WindowMask(Tensor positions, Tensor memory_positions, int64_t before,
                  int64_t after, std::source_location location) {
  absl::Status status;
  if (before < 0 || after < 0) {
    status = absl::InvalidArgumentError(
        absl::StrCat("a window of ", before, " positions before and ", after,
                     " after the query: a number is negative"));
  }
  return MaskOf(
      "window_mask", {positions, memory_positions}, status, location,
      [=](Tensor q, Tensor k) { return Between(q - k, -after, before); });
}

Tensor BlockMask(Tensor positions, Tensor memory_positions,
                 BlockMaskOptions options, std::source_location location) {
  return MaskOf("block_mask", {positions, memory_positions},
                CheckBlocks(options), location,
                [&](Tensor q, Tensor k) { return InBlocks(q, k, options); });
}

Tensor BlockMask2d(Tensor positions, Tensor memory_positions,
                   BlockMask2dOptions options, std::source_location location) {
  absl::Status status = CheckBlocks(options.rows);
  if (status.ok()) status = CheckBlocks(options.columns);
  if (status.ok() && options.width < 1) {
    status = absl::InvalidArgumentError(
        absl::StrCat(".width is ", options.width, ", less than 1"));
  }
  return MaskOf("block_mask_2d", {positions, memory_positions}, status,
                location, [&](Tensor q, Tensor k) {
                  const auto width = static_cast<double>(options.width);
                  return LogicalAnd(
                      InBlocks(FloorDivide(q, width), FloorDivide(k, width),
                               options.rows),
                      InBlocks(Mod(q, width), Mod(k, width), options.columns));
                });
}

}  // namespace mtf::nn
