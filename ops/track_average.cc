// SPDX-License-Identifier: Apache-2.0
#include "ops/track_average.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "ops/checks.h"
#include "ops/elementwise.h"

namespace mtf {
namespace {

// The identity. Variable and statistic are not inputs: only a step that updates
// the average computes them.
class TrackAverageOp : public Operation {
 public:
  TrackAverageOp(Tensor x, Tensor average, Tensor statistic, double momentum)
      : Operation({x}, x.shape(), x.dtype()),
        average_(average),
        statistic_(statistic),
        momentum_(momentum) {}
  absl::string_view kind() const override { return "track_average"; }
  std::string attributes() const override {
    return absl::StrCat("average=", average_.name(),
                        " statistic=", statistic_.name(),
                        " momentum=", momentum_);
  }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    return {of_results[0]};
  }
  EmittedValues Emit(Emitter&, absl::Span<const Value> inputs) const override {
    return inputs[0];
  }

  Tensor average() const { return average_; }
  // The average after one that is `now`.
  Tensor Next(Tensor now) const { return now + (statistic_ - now) * momentum_; }

 private:
  const Tensor average_, statistic_;
  const double momentum_;
};

absl::Status Check(Tensor x, Tensor average, Tensor statistic,
                   double momentum) {
  MTF_RETURN_IF_ERROR(
      internal::CheckInputs(x.graph(), {x, average, statistic}));
  if (x.graph().FindVariable(average) == nullptr || !IsFloat(average.dtype())) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", average.name(), "\" is not a float variable",
                     DescribeInputs({average}),
                     "\n  help     pass what Variable() returned"));
  }
  if (!statistic.shape().SameDimensions(average.shape()) ||
      statistic.dtype() != average.dtype()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the statistic \"", statistic.name(),
                     "\" differs from its average in dimensions or dtype",
                     DescribeInputs({average, statistic})));
  }
  if (momentum >= 0 && momentum <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("momentum is ", momentum, "; it must be from 0 to 1"));
}

// By operation, whether `loss` depends on it or is its result.
std::vector<bool> FindAncestors(Tensor loss) {
  const auto& operations = loss.graph().operations();
  std::vector<bool> is_ancestor(loss.operation()->id() + 1, false);
  is_ancestor.back() = true;
  for (int i = loss.operation()->id(); i >= 0; --i) {
    if (!is_ancestor[i]) continue;
    for (const Tensor& input : operations[i]->inputs()) {
      is_ancestor[input.operation()->id()] = true;
    }
  }
  return is_ancestor;
}

}  // namespace

Tensor TrackAverage(Tensor x, Tensor average, Tensor statistic, double momentum,
                    std::source_location location) {
  if (!x.valid()) return {};
  const absl::Status status = Check(x, average, statistic, momentum);
  if (!status.ok()) {
    return x.graph().Fail(status, "track_average", location, x.shape(),
                          x.dtype());
  }
  return x.graph().Add(
      std::make_unique<TrackAverageOp>(x, average, statistic, momentum),
      location);
}

std::vector<AverageUpdate> AverageUpdates(Tensor loss) {
  if (!loss.valid()) return {};
  const std::vector<bool> is_ancestor = FindAncestors(loss);
  std::vector<AverageUpdate> updates;
  for (size_t i = 0; i < is_ancestor.size(); ++i) {
    if (!is_ancestor[i]) continue;
    const Operation* operation = loss.graph().operations()[i].get();
    const auto* tracks = dynamic_cast<const TrackAverageOp*>(operation);
    if (tracks == nullptr) continue;
    AverageUpdate* update = nullptr;
    for (AverageUpdate& each : updates) {
      if (SameTensor(each.average, tracks->average())) update = &each;
    }
    if (update == nullptr) {
      update = &updates.emplace_back(
          AverageUpdate{tracks->average(), tracks->average()});
    }
    const RulesScope rules(tracks->average());
    update->next = tracks->Next(update->next);
  }
  return updates;
}

}  // namespace mtf
