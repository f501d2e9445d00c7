// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/attention_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/attention/projections.h"
#include "nn/layers/layer.h"
#include "nn/layers/softmax.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/one_hot.h"
#include "ops/random.h"
#include "ops/reshape.h"

namespace mtf::nn::internal {
namespace {

// Where a query sees a key; empty if everywhere.
Tensor Visible(Graph& graph, const AttentionOptions& options) {
  Tensor visible = options.mask;
  const auto restrict = [&](Tensor condition) {
    visible = visible.valid() ? LogicalAnd(visible, condition) : condition;
  };
  if (!options.causal && options.window == 0) return visible;
  const Tensor query = Range(graph, options.length);
  const Tensor key = Range(graph, options.memory_length);
  if (options.causal) restrict(GreaterEqual(query, key));
  if (options.window > 0) {
    restrict(Less(query, key + static_cast<double>(options.window)));
  }
  return visible;
}

absl::Status CheckNumbers(const AttentionOptions& options) {
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckBelowOne(".dropout", options.dropout));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckNotNegative(".soft_cap", options.soft_cap));
  if (options.window >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(".window is ", options.window, ", less than 0"));
}

}  // namespace

absl::StatusOr<Sides> SidesOf(Tensor x, Tensor memory,
                              AttentionOptions& options,
                              absl::string_view what) {
  MTF_RETURN_IF_ERROR(CheckFloat(x, what));
  MTF_RETURN_IF_ERROR(CheckGiven(options.length, ".length"));
  MTF_RETURN_IF_ERROR(CheckDimension(x, options.length));
  MTF_RETURN_IF_ERROR(CheckNumbers(options));
  if (!memory.valid()) {
    if (options.memory_length.name.empty()) {
      options.memory_length.name = "memory_length";
    }
    options.memory_length.size = options.length.size;
    MTF_RETURN_IF_ERROR(mtf::internal::CheckLacksLength(
        x, options.memory_length.name, "memory"));
    memory = Rename(x, options.length.name, options.memory_length.name);
  }
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(x.graph(), {x, memory}));
  MTF_RETURN_IF_ERROR(CheckGiven(options.memory_length, ".memory_length"));
  MTF_RETURN_IF_ERROR(CheckDimension(memory, options.memory_length));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckLacksLength(memory, options.length.name, "queries"));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckLacksLength(x, options.memory_length.name, "memory"));
  MTF_ASSIGN_OR_RETURN(const Dimension d_model,
                       ModelDimension(x, {options.length}));
  MTF_ASSIGN_OR_RETURN(const Dimension d_memory,
                       ModelDimension(memory, {options.memory_length}));
  return Sides{x, memory, d_model, d_memory};
}

absl::Status CheckPlain(const AttentionOptions& options) {
  if (options.groups.name.empty() && !options.rotary) return absl::OkStatus();
  return absl::InvalidArgumentError(
      ".groups and .rotary are options of dot product attention only");
}

double ScaleOf(const AttentionOptions& options, const Dimension& d_kv) {
  return options.scale.value_or(
      1.0 / std::sqrt(std::max<double>(1.0, static_cast<double>(d_kv.size))));
}

Tensor MaskedLogits(Tensor logits, const AttentionOptions& options) {
  logits = To(kFloat32, logits);
  if (options.soft_cap > 0) {
    logits = Tanh(logits * (1 / options.soft_cap)) * options.soft_cap;
  }
  if (options.position_bias.valid()) {
    logits = logits + To(kFloat32, options.position_bias);
  }
  const Tensor visible = Visible(logits.graph(), options);
  if (!visible.valid()) return logits;
  return Select(visible, logits, -std::numeric_limits<double>::infinity());
}

Tensor WeightsOf(Tensor logits, const AttentionOptions& options, DType dtype) {
  const Tensor weights = To(dtype, Softmax(logits, options.memory_length));
  return options.dropout == 0 ? weights : Dropout(weights, options.dropout);
}

}  // namespace mtf::nn::internal
