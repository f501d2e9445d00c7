// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_EVALUATION_H_
#define TRAIN_LOOP_EVALUATION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mtf/host_tensor.h"
#include "mtf/tensor.h"
#include "train/session/session.h"

namespace mtf::train {

// A quantity of an evaluation: the sum of `sum` over all batches divided by the
// sum of `count`, each added up in doubles. So a last batch with fewer rows
// counts less, which a mean of the means of batches gets wrong.
//
//   Tensor right = Cast(ArgMax(logits, "vocab") == targets, kFloat32);
//   Metric accuracy = {"accuracy", ReduceSum(right * weights, {}),
//                      ReduceSum(weights, {})};
//
// `of` is applied to the quotient: exp makes a perplexity of a cross entropy.
struct Metric {
  std::string name;
  Tensor sum;               // a scalar
  Tensor count = Tensor();  // a scalar; empty: 1 for each batch
  std::function<double(double)> of = nullptr;
};

// Metrics over held-out batches.
struct Evaluation {
  std::vector<Metric> metrics = {};
  // The number of batches, and the feeds of each. They may depend on nothing
  // else, so that every process of a job is fed the same.
  int64_t batches = 0;
  std::function<absl::StatusOr<std::map<std::string, HostTensor>>(
      int64_t batch)>
      feeds = nullptr;
};

// The values of metrics by name.
using MetricValues = std::map<std::string, double>;

// Runs the batches and returns the values. Changes neither variables nor the
// step. kInvalidArgument if there is no batch or no metric, a tensor is not a
// scalar, or two metrics have one name; kOutOfRange if the counts of a metric
// add up to 0, such as those of batches that consist of padding; otherwise the
// errors of the feeds and of Session::Run.
absl::StatusOr<MetricValues> Evaluate(Session& session,
                                      const Evaluation& evaluation);

// The loss as the metric "loss", in nats, and exp of it as "perplexity".
// `count` is the number of positions that `mean_loss` is the mean of, a scalar
// of the graph; empty: the same in each batch. Adds operations to the graph, so
// call it before the session is created.
std::vector<Metric> LossMetrics(Tensor mean_loss, Tensor count = Tensor());

// "loss 2.1034, perplexity 8.1936"
std::string MetricsText(const MetricValues& values);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_EVALUATION_H_
