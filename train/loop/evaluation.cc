// SPDX-License-Identifier: Apache-2.0
#include "train/loop/evaluation.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "ops/elementwise.h"

namespace mtf::train {
namespace {

absl::Status CheckScalar(const Metric& metric, Tensor tensor) {
  if (tensor.valid() && tensor.shape().rank() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "metric ", Quoted(metric.name),
      tensor.valid()
          ? absl::StrCat(" is \"", tensor.name(), "\", which is not a scalar")
          : " has no sum",
      DetailLine("help", "ReduceSum(x, {}) is a scalar")));
}

absl::Status CheckEvaluation(const Evaluation& evaluation) {
  if (evaluation.metrics.empty() || evaluation.batches < 1 ||
      evaluation.feeds == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an evaluation needs metrics, batches and feeds; it has ",
        Plural(static_cast<int64_t>(evaluation.metrics.size()), "metric"),
        " and ", evaluation.batches, " batches"));
  }
  std::set<std::string> names;
  for (const Metric& metric : evaluation.metrics) {
    MTF_RETURN_IF_ERROR(CheckScalar(metric, metric.sum));
    if (metric.count.valid()) {
      MTF_RETURN_IF_ERROR(CheckScalar(metric, metric.count));
    }
    if (!names.insert(metric.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two metrics are called ", Quoted(metric.name)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MetricValues> Evaluate(Session& session,
                                      const Evaluation& evaluation) {
  MTF_RETURN_IF_ERROR(CheckEvaluation(evaluation));
  struct Total {
    double sum = 0, count = 0;
  };
  std::vector<Total> totals(evaluation.metrics.size());
  RunRequest request;
  for (const Metric& metric : evaluation.metrics) {
    request.fetches.push_back(metric.sum);
    if (metric.count.valid()) request.fetches.push_back(metric.count);
  }
  for (int64_t batch = 0; batch < evaluation.batches; ++batch) {
    MTF_ASSIGN_OR_RETURN(request.feeds, evaluation.feeds(batch));
    MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> values,
                         session.Run(request));
    size_t next = 0;
    for (size_t i = 0; i < totals.size(); ++i) {
      MTF_ASSIGN_OR_RETURN(const double sum, values[next++].At(0));
      double count = 1;
      if (evaluation.metrics[i].count.valid()) {
        MTF_ASSIGN_OR_RETURN(count, values[next++].At(0));
      }
      totals[i].sum += sum;
      totals[i].count += count;
    }
  }
  MetricValues results;
  for (size_t i = 0; i < totals.size(); ++i) {
    const Metric& metric = evaluation.metrics[i];
    if (totals[i].count == 0) {
      return absl::OutOfRangeError(absl::StrCat(
          "metric ", Quoted(metric.name), " has nothing to average: its counts",
          " over ", Plural(evaluation.batches, "batch"), " add up to 0",
          DetailLine("help", "evaluate on data that is not all padding")));
    }
    const double value = totals[i].sum / totals[i].count;
    results[metric.name] = metric.of == nullptr ? value : metric.of(value);
  }
  return results;
}

std::vector<Metric> LossMetrics(Tensor mean_loss, Tensor count) {
  const Tensor sum =
      count.valid() ? mean_loss * Cast(count, mean_loss.dtype()) : mean_loss;
  return {{"loss", sum, count}, {"perplexity", sum, count, [](double nats) {
                                   return std::exp(nats);
                                 }}};
}

std::string MetricsText(const MetricValues& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, " ",
                    absl::StrFormat("%.4f", value));
  }
  return text;
}

}  // namespace mtf::train
