// SPDX-License-Identifier: Apache-2.0
#include "nn/transformer/universal.h"

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/dense.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/sinusoid_positions.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/one_hot.h"
#include "ops/reduce.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

absl::Status Check(Tensor x, const Sublayer& step,
                   const UniversalOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "universal_transformer"));
  MTF_RETURN_IF_ERROR(internal::ModelDimension(x).status());
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckBelowOne(".threshold", options.threshold));
  if (step == nullptr) {
    return absl::InvalidArgumentError("the function of a step is null");
  }
  if (options.steps < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(".steps is ", options.steps, ", less than 1"));
  }
  if (options.per_sequence) {
    MTF_RETURN_IF_ERROR(internal::CheckGiven(options.length, ".length"));
  }
  if (options.length.name.empty()) return absl::OkStatus();
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, options.length));
  return internal::ModelDimension(x, {options.length}).status();
}

// `state` with the sinusoids of position and step.
Tensor WithSignals(Tensor state, int64_t t, const UniversalOptions& options) {
  Graph& graph = state.graph();
  const Dimension d_model = state.shape().dims().back();
  const auto add = [&](Tensor positions) {
    state = state +
            internal::To(state.dtype(), SinusoidPositions(positions, d_model));
  };
  if (!options.length.name.empty()) add(Range(graph, options.length));
  if (options.step_signal) {
    add(Constant(graph, static_cast<double>(t + 1), kFloat32, {}));
  }
  return state;
}

// The probability that a position halts, f32 [positions...].
Tensor HaltingProbability(Tensor state, const UniversalOptions& options) {
  const Dimension d_model = state.shape().dims().back(), one{"halting", 1};
  Tensor p = Dense(internal::To(kFloat32, state), {d_model}, {one},
                   {.activation = Sigmoid, .name = "halting"});
  p = ReduceSum(internal::To(kFloat32, p), p.shape().Without(one.name));
  return options.per_sequence ? MeanOver(p, {options.length}) : p;
}

// What adaptive computation keeps from step to step, f32 by position.
class HaltingState {
 public:
  HaltingState(Graph& graph, const Shape& positions, double threshold)
      : threshold_(threshold),
        running_(Ones(graph, kFloat32, positions)),
        sum_(Zeros(graph, kFloat32, positions)),
        updates_(sum_),
        remainders_(sum_) {}

  // The weights of a step whose halting probabilities are `p`.
  Tensor Weights(Tensor p, bool is_last) {
    // Comparisons have no gradient: which step is the last is a constant.
    Tensor ends = running_;
    if (!is_last) {
      ends = running_ * Cast(Greater(sum_ + p, threshold_), kFloat32);
    }
    const Tensor goes_on = running_ - ends;
    const Tensor remainder = ends * (1.0 - sum_);
    updates_ = updates_ + running_;
    remainders_ = remainders_ + remainder;
    sum_ = sum_ + goes_on * p;
    running_ = goes_on;
    return goes_on * p + remainder;
  }

  Tensor updates() const { return updates_; }
  Tensor remainders() const { return remainders_; }

 private:
  const double threshold_;
  Tensor running_;     // 1 where a position has not halted
  Tensor sum_;         // of probabilities of the steps before
  Tensor updates_;     // steps so far
  Tensor remainders_;  // 0 where a position has not halted
};

}  // namespace

Universal UniversalTransformer(Tensor x, const Sublayer& step,
                               UniversalOptions options,
                               std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  absl::Status status = Check(x, step, options);
  const auto fail = [&] {
    return Universal{
        graph.Fail(status, internal::DescribeLayer("universal", options.name),
                   location, x.shape(), x.dtype()),
        {},
        {},
        {}};
  };
  if (!status.ok()) return fail();
  Shape positions = x.shape().Without(x.shape().dims().back().name);
  if (options.per_sequence) positions = positions.Without(options.length.name);
  HaltingState halting(graph, positions, options.threshold);
  const bool halts = options.halting != Halting::kNone;

  Tensor state = x, output;
  for (int64_t t = 0; t < options.steps; ++t) {
    const Scope scope(graph, "step", t == 0 ? Scope::kAsGiven : Scope::kReuse,
                      location);
    state = WithSignals(state, t, options);
    Tensor weight;
    if (halts) {
      weight = halting.Weights(HaltingProbability(state, options),
                               t + 1 == options.steps);
      weight = internal::To(x.dtype(), weight);
    }
    state = step(state);
    status = mtf::internal::CheckInputs(graph, {state});
    if (status.ok() && !state.shape().SameDimensions(x.shape())) {
      status = absl::InvalidArgumentError(
          absl::StrCat("the result of a step has other dimensions than x",
                       DescribeInputs({x, state})));
    }
    if (!status.ok()) return fail();
    if (!halts || !output.valid()) {
      output = halts ? state * weight : state;
    } else if (options.halting == Halting::kWeightedMean) {
      output = output + state * weight;
    } else {
      output = state * weight + output * (1.0 - weight);
    }
  }
  if (!halts) return {output, {}, {}, {}};
  return {mtf::internal::InOrderOf(output, x.shape()), halting.updates(),
          halting.remainders(),
          ReduceMean(halting.updates() + halting.remainders(), {})};
}

}  // namespace mtf::nn
