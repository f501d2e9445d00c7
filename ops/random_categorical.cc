// SPDX-License-Identifier: Apache-2.0
#include "ops/random_categorical.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/top_k.h"

namespace mtf {
namespace {

// Logits up to 1e8 divided by it are finite in f32.
constexpr double kLeastTemperature = 1e-30;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

absl::Status Check(Tensor logits, absl::string_view dim,
                   const CategoricalOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(logits, dim));
  if (!IsFloat(logits.dtype())) {
    return absl::InvalidArgumentError(
        absl::StrCat("random_categorical takes a float dtype, not ",
                     DTypeName(logits.dtype()), DescribeInputs({logits}),
                     "\n  help     Cast() the logits"));
  }
  MTF_RETURN_IF_ERROR(
      internal::CheckNotNegative(".temperature", options.temperature));
  if (options.temperature > 0 && options.temperature < kLeastTemperature) {
    return absl::InvalidArgumentError(absl::StrCat(
        ".temperature is ", options.temperature, ", but must be 0 or at least ",
        kLeastTemperature, ", so that logits divided by it are finite in f32",
        "\n  help     0 takes the greatest logit, which is the limit"));
  }
  const int64_t size = logits.shape().SizeOf(dim);
  if (options.top_k < 0 || options.top_k > size) {
    return absl::InvalidArgumentError(absl::StrCat(
        ".top_k is ", options.top_k, ", outside [0, ", size,
        "], the size of dimension \"", dim, "\"", DescribeInputs({logits})));
  }
  if (options.top_p > 0 && options.top_p <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(".top_p is ", options.top_p, ", outside (0, 1]"));
}

// `logits`, with -infinity for those that follow, in descending order along
// `dim`, after others whose probabilities reach `p`.
Tensor KeepTopP(Tensor logits, absl::string_view dim, double p) {
  const Shape row = logits.shape().Without(dim);
  const Tensor odds = Exp(logits - ReduceMax(logits, row));
  const Tensor before = CumulativeSum(odds, dim, {.exclusive = true});
  // Nothing comes before the first, so it is kept.
  const Tensor reached = GreaterEqual(before, p * ReduceSum(odds, row));
  return Select(LogicalAnd(reached, before > 0.0), -kInfinity, logits);
}

}  // namespace

Tensor RandomCategorical(Tensor logits, absl::string_view dim,
                         CategoricalOptions options,
                         std::source_location location) {
  if (!logits.valid()) return {};
  Graph& graph = logits.graph();
  const absl::Status status = Check(logits, dim, options);
  if (!status.ok()) {
    return graph.Fail(status, "random_categorical", location,
                      logits.shape().Without(dim), kInt32);
  }
  CallSiteScope site(graph, location);
  if (options.temperature == 0) return ArgMax(logits, dim);
  Tensor scaled = Cast(logits, kFloat32) * (1 / options.temperature);
  std::string of(dim);
  Tensor indices;  // of the candidates in `dim`; empty: all of them, in order
  if (options.top_k > 0 || options.top_p < 1) {
    of = "candidate";
    while (logits.shape().Contains(of)) of += "_";
    const int64_t count =
        options.top_k > 0 ? options.top_k : logits.shape().SizeOf(dim);
    const TopKResult top = TopK(scaled, dim, {of, count});
    scaled = top.values;
    indices = top.indices;
  }
  if (options.top_p < 1) scaled = KeepTopP(scaled, of, options.top_p);
  const Tensor chosen =
      ArgMax(scaled + RandomGumbel(graph, scaled.shape()), of);
  return indices.valid() ? Gather(indices, chosen, of) : chosen;
}

}  // namespace mtf
