// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/memory_compressed_attention.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/one_hot.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/windows.h"

namespace mtf::nn {
namespace {

constexpr absl::string_view kCompressed = "compressed";

int64_t CompressedSize(int64_t size, int64_t factor) {
  return (size + factor - 1) / factor;
}

absl::Status CheckFactor(int64_t factor) {
  if (factor >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the factor is ", factor, ", less than 1"));
}

absl::Status Check(Tensor x, int64_t factor, const AttentionOptions& options) {
  MTF_RETURN_IF_ERROR(CheckFactor(factor));
  MTF_RETURN_IF_ERROR(internal::CheckGiven(options.length, ".length"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, options.length));
  if (options.window == 0 && !options.rotary) return absl::OkStatus();
  return absl::InvalidArgumentError(
      ".window and .rotary are set, but keys are means of several positions");
}

}  // namespace

Tensor CompressMean(Tensor x, absl::string_view dim, int64_t factor,
                    std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, "compress_mean", location);
  absl::Status status = internal::CheckFloat(x, "compress_mean");
  if (status.ok()) status = CheckFactor(factor);
  if (status.ok()) status = mtf::internal::CheckHasDimension(x, dim);
  if (!status.ok()) {
    return graph.Fail(status, "compress_mean", location, x.shape(), x.dtype());
  }
  const int64_t size = x.shape().SizeOf(dim);
  const int64_t count = CompressedSize(size, factor);
  const Tensor windows = Windows(internal::To(kFloat32, x), dim,
                                 {std::string(kCompressed), factor},
                                 {.stride = factor,
                                  .padding = WindowPadding::kExplicit,
                                  .after = count * factor - size});
  std::vector<double> scales(count, 1.0 / static_cast<double>(factor));
  if (count > 0) {
    scales.back() = 1.0 / static_cast<double>(size - (count - 1) * factor);
  }
  const Tensor sums = ReduceSum(windows, windows.shape().Without(kCompressed));
  return internal::To(x.dtype(),
                      sums * Constant(graph, std::move(scales), kFloat32,
                                      {{std::string(dim), count}}));
}

Tensor MemoryCompressedAttention(Tensor x, int64_t factor,
                                 AttentionOptions options,
                                 std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, "memory_compressed", location);
  const absl::Status status = Check(x, factor, options);
  if (!status.ok()) {
    return graph.Fail(status, "memory_compressed", location, x.shape(),
                      x.dtype());
  }
  if (options.memory_length.name.empty()) {
    options.memory_length.name = "memory_length";
  }
  const int64_t size = options.length.size;
  options.memory_length.size = CompressedSize(size, factor);
  const Tensor memory = Rename(CompressMean(x, options.length.name, factor),
                               options.length.name, options.memory_length.name);
  if (std::exchange(options.causal, false)) {
    // The position of the last element of each mean.
    const Tensor last = Minimum((Range(graph, options.memory_length) + 1.0) *
                                        static_cast<double>(factor) -
                                    1.0,
                                static_cast<double>(size - 1));
    const Tensor causal = GreaterEqual(Range(graph, options.length), last);
    options.mask =
        options.mask.valid() ? LogicalAnd(options.mask, causal) : causal;
  }
  return MultiHeadAttention(x, memory, options);
}

}  // namespace mtf::nn
